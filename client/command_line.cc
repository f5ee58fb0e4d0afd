#include "client/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>

#include "client/commands.h"
#include "client/global_flags.h"
#include "client/names.h"
#include "client/session.h"
#include "client/text_format.h"
#include "client/time_flag.h"
#include "common/edit_distance.h"
#include "common/exit_code.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct RawGlobalFlags {
  GlobalFlags flags;
  std::string output = "table";
  std::string progress = "auto";
  std::string timeout;
  bool json = false;
  bool no_color = false;
};

void AddGlobalFlags(CLI::App& app, RawGlobalFlags* raw) {
  app.add_option("--server", raw->flags.server, "Address of nerfd")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--project", raw->flags.project, "Project that short ids belong to")
      ->type_name("ID")
      ->capture_default_str();
  CLI::Option* output =
      app.add_option("-o,--output", raw->output, "Form of the result: table, json, jsonl or name")
          ->type_name("FORM")
          ->capture_default_str();
  app.add_flag("--json", raw->json, "Same as --output json")->excludes(output);
  output->excludes(app.get_option("--json"));
  app.add_flag("-q,--quiet", raw->flags.quiet, "Print results and errors alone");
  app.add_flag("--no-hints", raw->flags.no_hints, "Name no next commands");
  app.add_flag("--no-color", raw->no_color, "No colors (also NO_COLOR and TERM=dumb)");
  app.add_option("--progress", raw->progress, "How progress is shown: auto, bar, plain, json, none")
      ->type_name("MODE")
      ->capture_default_str();
  app.add_option("--timeout", raw->timeout, "Give up after this long, such as 90s or 5m")
      ->type_name("TIME");
}

bool SetInEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

absl::StatusOr<GlobalFlags> ResolveGlobalFlags(const RawGlobalFlags& raw, const Io& io) {
  GlobalFlags flags = raw.flags;
  const std::string& output = raw.json ? "json" : raw.output;
  if (output == "table") {
    flags.output = OutputFormat::kTable;
  } else if (output == "json") {
    flags.output = OutputFormat::kJson;
  } else if (output == "jsonl") {
    flags.output = OutputFormat::kJsonLines;
  } else if (output == "name") {
    flags.output = OutputFormat::kName;
  } else {
    return absl::InvalidArgumentError(
        fmt::format("--output: '{}' is not one of table, json, jsonl, name", output));
  }
  if (raw.progress == "auto") {
    flags.progress = flags.quiet                               ? ProgressMode::kNone
                     : io.err_is_terminal && !io.dumb_terminal ? ProgressMode::kBar
                                                               : ProgressMode::kPlain;
  } else if (raw.progress == "bar") {
    flags.progress = ProgressMode::kBar;
  } else if (raw.progress == "plain") {
    flags.progress = ProgressMode::kPlain;
  } else if (raw.progress == "json") {
    flags.progress = ProgressMode::kJson;
  } else if (raw.progress == "none") {
    flags.progress = ProgressMode::kNone;
  } else {
    return absl::InvalidArgumentError(
        fmt::format("--progress: '{}' is not one of auto, bar, plain, json, none", raw.progress));
  }
  if (!raw.timeout.empty()) {
    NERF_ASSIGN_OR_RETURN(const absl::Duration timeout, ParseTimeFlag("--timeout", raw.timeout));
    flags.timeout = timeout;
  }
  flags.color =
      io.out_is_terminal && !io.dumb_terminal && !raw.no_color && !SetInEnvironment("NO_COLOR");
  NERF_RETURN_IF_ERROR(CheckServerAddress(flags.server));
  NERF_RETURN_IF_ERROR(ProjectName(flags.project).status());
  return flags;
}

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

// Gives every flag of `app` its variable. A flag on the command line takes the variables of those
// that exclude it out of play: flags come before the environment.
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

// The apps that the words of `args` lead through, the root first.
std::vector<CLI::App*> ChosenPath(CLI::App& root, const std::vector<std::string>& args) {
  std::vector<CLI::App*> path = {&root};
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].empty() && args[i][0] == '-') {
      // The value of a flag may look like a noun.
      for (CLI::App* app : path) {
        const CLI::Option* option = app->get_option_no_throw(args[i]);
        if (option != nullptr && option->get_items_expected_max() > 0) {
          ++i;
          break;
        }
      }
      continue;
    }
    const auto matching = path.back()->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->get_name() == args[i]; });
    if (matching.empty()) break;
    path.push_back(matching[0]);
  }
  return path;
}

// The flag or command that the parser did not know; "" where something else is wrong.
std::string UnknownWord(const CLI::App& app, const CLI::ParseError& error) {
  const auto rest = app.remaining(/*recurse=*/true);
  const auto flag = std::find_if(rest.begin(), rest.end(),
                                 [](const std::string& word) { return word[0] == '-'; });
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) &&
      flag != rest.end()) {
    return flag->substr(0, std::min<size_t>(flag->find('='), 64));
  }
  // A word that is no command is the cause of "a subcommand is required".
  const bool needs_command = error.get_name() == "RequiredError" &&
                             std::string_view(error.what()).find("subcommand") != std::string::npos;
  return needs_command && !rest.empty() ? rest[0].substr(0, 64) : "";
}

// The commands and flags that could stand where `path` (see ChosenPath) has led.
std::vector<std::string> WordsAfter(const std::vector<CLI::App*>& path) {
  std::vector<std::string> words;
  for (const CLI::App* command : path.back()->get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(command->get_name());
  for (const CLI::App* app : path) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  }
  return words;
}

}  // namespace

int RunNerfctl(const std::vector<std::string>& args, const Io& io) {
  CLI::App app("Trains radiance fields on a nerfd server and renders them.", "nerfctl");
  app.set_version_flag("--version", std::string("nerfctl " NERF_VERSION));
  app.fallthrough();
  app.require_subcommand(1);
  RawGlobalFlags raw;
  Command command;
  AddTrainCommand(app, &command);
  AddSceneCommands(app, &command);
  AddJobCommands(app, &command);
  AddModelCommands(app, &command);
  AddRenderCommand(app, &command);
  AddWorkerCommands(app, &command);
  AddDoctorCommand(app, &command);
  AddVersionCommand(app, &command);
  AddGlobalFlags(app, &raw);
  app.footer(
      "Examples:\n"
      "  nerfctl train examples/mic --seconds 60\n"
      "  nerfctl job ls\n"
      "  nerfctl render --job j-7f3k2c81 --orbit 8 --out views\n\n"
      "Every flag has an environment variable: --server is NERFCTL_SERVER.\n"
      "Exit codes: 0 done, 1 bug, 2 usage, 3 job failed or cancelled, 4 denied, 5 not found, 6 no\n"
      "answer, 7 wrong state, 8 exhausted, 9 bad data, 130 and 143 interrupted.");

  try {
    // Variables of other commands' flags are not looked at: a bad one must not stop this command.
    for (CLI::App* chosen : ChosenPath(app, args)) AddEnvironmentTwins(*chosen, args);
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    *io.out << app.help();
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    *io.out << version.what() << '\n';
    return kOk;
  } catch (const CLI::ParseError& error) {
    std::string words = error.what();
    while (!words.empty() && words.back() == '\n') words.pop_back();
    if (const std::string wrong = UnknownWord(app, error); !wrong.empty()) {
      words = fmt::format("no such {}: '{}'{}", wrong[0] == '-' ? "flag" : "command", wrong,
                          DidYouMean(wrong, WordsAfter(ChosenPath(app, args))));
    }
    std::string path;
    for (const CLI::App* parsed = &app; parsed != nullptr;) {
      path += (path.empty() ? "" : " ") + parsed->get_name();
      const auto deeper = parsed->get_subcommands();
      parsed = deeper.empty() ? nullptr : deeper.back();
    }
    *io.err << "nerfctl: " << PlainText(words) << "\n  run `" << path << " --help` for usage\n";
    return kUsage;
  }

  const absl::StatusOr<GlobalFlags> flags = ResolveGlobalFlags(raw, io);
  if (!flags.ok()) {
    *io.err << "nerfctl: " << PlainText(std::string(flags.status().message())) << '\n';
    return kUsage;
  }
  Session session(*flags, io);
  const int exit_code = command(session);
  io.out->flush();
  if (!io.out->good() && exit_code == kOk) {
    *io.err << "nerfctl: cannot write the result to standard output\n";
    return kBug;
  }
  return exit_code;
}

}  // namespace nerf
