#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/process/exit_code.h"
#include "common/process/last_resort.h"
#include "common/usage_error.h"
#include "engine/program/console/command.h"
#include "engine/program/device/machine.h"
#include "engine/scene/phone_pictures/phone_pictures.h"
#include "fmt/format.h"

namespace {

int Run(int argc, char** argv) {
  CLI::App app{"Trains, evaluates and renders neural radiance fields.", "nerf-engine"};
  app.set_version_flag("-v,--version", "nerf-engine " NERF_VERSION);
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->capture_default_str();
  std::string log_format = "text";
  app.add_option("--log-format", log_format, "text, or json: one object per line")
      ->capture_default_str();
  nerf::CommandBody chosen;
  nerf::AddAllCommands(&app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // CLI11 also throws for --help and --version, with exit code 0.
    if (e.get_exit_code() != 0) {
      // Errors that are found later begin with the same word (ReportError).
      fmt::print(stderr, "{}", nerf::UsageErrorLines(app, e, "error"));
      return nerf::kUsage;
    }
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
  nerf::RegisterPhonePictures();
  return nerf::WithLastResort("nerf-engine", [&] { return Run(argc, argv); });
}
