#include "client/commands/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <string_view>

#include "client/calls/session.h"
#include "client/commands/command_table.h"
#include "client/commands/commands.h"
#include "client/commands/completion.h"
#include "client/flags/global_flags.h"
#include "client/show/error_printer.h"
#include "common/process/exit_code.h"
#include "common/shell_word.h"
#include "common/usage_error.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// "--test-every" -> "NERFCTL_TEST_EVERY".
std::string EnvironmentTwin(const std::string& long_name) {
  std::string name = "NERFCTL_" + long_name;
  for (char& c : name)
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool Mentions(const std::vector<std::string>& args, const CLI::Option& option) {
  for (const std::string& name : option.get_lnames()) {
    for (const std::string& arg : args) {
      if (arg == "--" + name || arg.rfind("--" + name + "=", 0) == 0) return true;
    }
  }
  for (const std::string& name : option.get_snames()) {
    for (const std::string& arg : args) {
      if (arg.rfind("-" + name, 0) == 0) return true;
    }
  }
  return false;
}

// Prints an error that comes before the session.
int RefuseCommandLine(const CLI::App& app, const absl::Status& status, bool json,
                      std::ostream& err) {
  if (json) {
    err << ErrorJson(status) << '\n';
  } else {
    PrintUsageError(status, ChosenCommand(app), err);
  }
  return kUsage;
}

// Whether the command line or the environment asks for --progress json, for errors that come before
// the flags are read.
bool AsksForJsonProgress(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--progress=json") return true;
    if (args[i] == "--progress") return i + 1 < args.size() && args[i + 1] == "json";
  }
  const char* variable = std::getenv("NERFCTL_PROGRESS");
  return variable != nullptr && std::string_view(variable) == "json";
}

// GlobalFlags::typed.
std::vector<std::string> TypedFlags(CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> typed;
  for (const char* name : {"--server", "--context", "--token-file", "--ca", "--tls-cert",
                           "--tls-key", "--insecure", "--project"}) {
    const CLI::Option* option = app.get_option(name);
    if (option->count() == 0 || !Mentions(args, *option)) continue;
    typed.push_back(
        TakesValue(*option) ? fmt::format("{} {}", name, ShellWord(option->results()[0])) : name);
  }
  return typed;
}

void AddCommands(CLI::App& app, Command* command, RawGlobalFlags* raw) {
  app.set_version_flag("-v,--version", std::string("nerfctl " NERF_VERSION));
  app.fallthrough();
  app.require_subcommand(1);
  AddTrainCommand(app, command);
  AddSceneCommands(app, command);
  AddJobCommands(app, command);
  AddModelCommands(app, command);
  AddShareCommands(app, command);
  AddRenderCommand(app, command);
  AddExportCommand(app, command);
  AddPoseCommands(app, command);
  AddWorkerCommands(app, command);
  AddBackupCommand(app, command);
  AddAdminCommands(app, command);
  AddTokenCommands(app, command);
  AddLoginCommands(app, command);
  AddOpenCommand(app, command);
  AddDoctorCommand(app, command);
  AddCompletionCommand(app, command);
  AddHelpCommand(app, command);
  AddVersionCommand(app, command);
  AddGlobalFlags(app, raw);
  app.footer(
      "Examples:\n"
      "  nerfctl train examples/mic --seconds 60\n"
      "  nerfctl job ls\n"
      "  nerfctl render --job j-7f3k2c81 --orbit 8 --out views\n\n"
      "Every flag has an environment variable: --server is NERFCTL_SERVER.\n"
      "Exit codes: 0 done, 1 bug, 2 usage, 3 job failed or cancelled, 4 denied, 5 not found, 6 no\n"
      "answer, 7 wrong state, 8 exhausted, 9 bad data, 130 and 143 interrupted.");
}

}  // namespace

void AddEnvironmentTwins(CLI::App& app, const std::vector<std::string>& args) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option == app.get_help_ptr() ||
        option == app.get_version_ptr()) {
      continue;
    }
    const auto& rivals = option->get_excludes();
    const bool overruled = std::any_of(rivals.begin(), rivals.end(), [&](const CLI::Option* rival) {
      return Mentions(args, *rival);
    });
    if (!overruled) option->envname(EnvironmentTwin(option->get_lnames()[0]));
  }
}

int RunNerfctl(const std::vector<std::string>& args, const Io& io) {
  CLI::App app("Trains radiance fields on a nerfd server and renders them.", "nerfctl");
  RawGlobalFlags raw;
  Command command;
  AddCommands(app, &command, &raw);
  if (!args.empty() && args[0] == kCompleteWord) {
    return RunComplete(app, {args.begin() + 1, args.end()}, io);
  }

  try {
    // Only the chosen commands: a bad variable of another command must not stop this one.
    for (CLI::App* chosen : ChosenPath(app, args)) AddEnvironmentTwins(*chosen, args);
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    *io.out << app.help();
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    *io.out << version.what() << '\n';
    return kOk;
  } catch (const CLI::ParseError& error) {
    // The text has the nearest known word.
    return RefuseCommandLine(app, absl::InvalidArgumentError(UsageErrorText(app, error)),
                             AsksForJsonProgress(args), *io.err);
  }

  absl::StatusOr<GlobalFlags> flags = ResolveGlobalFlags(raw, io);
  if (!flags.ok()) {
    return RefuseCommandLine(app, flags.status(), AsksForJsonProgress(args), *io.err);
  }
  flags->typed = TypedFlags(app, args);
  flags->command = ChosenCommand(app);
  Session session(*flags, io);
  const int exit_code = command(session);
  io.out->flush();
  if (!io.out->good() && exit_code == kOk) {
    session.SayError("nerfctl: cannot write the result to standard output");
    return kBug;
  }
  return exit_code;
}

}  // namespace nerf
