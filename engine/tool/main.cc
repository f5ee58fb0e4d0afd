#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/edit_distance.h"
#include "common/exit_code.h"
#include "common/last_resort.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "engine/tool/command.h"
#include "engine/tool/machine.h"
#include "fmt/format.h"

namespace {

// Names of all commands and flags, for suggestions.
std::vector<std::string> WordsOf(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  const auto all = [](const CLI::App*) { return true; };
  std::vector<std::string> words;
  for (const CLI::App* command : app.get_subcommands(all)) words.push_back(command->get_name());
  const CLI::App& flags = chosen.empty() ? app : *chosen.back();
  for (const CLI::Option* option : flags.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// Prints the error of the command line, and similar names.
int ReportUsage(const CLI::App& app, const CLI::ParseError& error) {
  std::string words = error.what();
  const auto rest = app.remaining(/*recurse=*/true);
  const bool no_command = app.get_subcommands().empty() && error.get_name() == "RequiredError";
  const bool no_flag = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  for (const std::string& word : rest) {
    // An unknown command makes CLI11 report "a subcommand is required".
    if (!no_command && !(no_flag && word[0] == '-')) continue;
    const std::string wrong = word.substr(0, std::min<size_t>(word.find('='), 64));
    words = fmt::format("no such {}: '{}'{}", wrong[0] == '-' ? "flag" : "command", wrong,
                        nerf::DidYouMean(wrong, WordsOf(app)));
    break;
  }
  fmt::print(stderr, "{}\nRun with --help for more information.\n", words);
  return nerf::kUsage;
}

int Run(int argc, char** argv) {
  CLI::App app{"Trains, evaluates and renders neural radiance fields.", "nerf-engine"};
  app.set_version_flag("--version", "nerf-engine " NERF_VERSION);
  app.require_subcommand(1);
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->capture_default_str();
  std::string log_format = "text";
  app.add_option("--log-format", log_format, "text, or json: one object per line")
      ->capture_default_str();
  nerf::CommandBody chosen;
  nerf::AddTrainCommand(&app, &chosen);
  nerf::AddEvalCommand(&app, &chosen);
  nerf::AddRenderCommand(&app, &chosen);
  nerf::AddInspectCommand(&app, &chosen);
  nerf::AddImportCommand(&app, &chosen);
  nerf::AddCheckCommand(&app, &chosen);
  nerf::AddPoseCommand(&app, &chosen);
  nerf::AddBenchCommand(&app, &chosen);
  nerf::AddAblateCommand(&app, &chosen);
  nerf::AddDoctorCommand(&app, &chosen);
  nerf::AddServeCommand(&app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // CLI11 also throws for --help and --version, with exit code 0.
    if (e.get_exit_code() != 0) return ReportUsage(app, e);
    app.exit(e);
    return nerf::kOk;
  }
  if (absl::Status status = nerf::InitLogging("nerf-engine", log_level); !status.ok()) {
    return nerf::ReportError(status, false, true);
  }
  if (absl::Status status = nerf::SetLogFormat(log_format); !status.ok()) {
    return nerf::ReportError(status, false, true);
  }
  if (absl::Status status = nerf::TakeSimdPathOfEnvironment(); !status.ok()) {
    return nerf::ReportError(status, false, true);
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  return nerf::WithLastResort("nerf-engine", [&] { return Run(argc, argv); });
}
