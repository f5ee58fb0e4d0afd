#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "CLI/CLI.hpp"
#include "common/exit_code.h"
#include "common/last_resort.h"
#include "common/logging.h"
#include "engine/kernels/simd_path.h"
#include "engine/tool/command.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace {

// NERF_SIMD names another instruction set than the machine's best, to measure or to compare.
absl::Status TakeSimdPathOfEnvironment() {
  const char* name = std::getenv("NERF_SIMD");
  if (name == nullptr || *name == '\0' || nerf::kernels::cpu::ForceSimdPath(name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("NERF_SIMD: '{}' is none of this machine's: {}",
                                                std::string_view(name).substr(0, 32),
                                                fmt::join(nerf::kernels::cpu::SimdPaths(), ", ")));
}

int Run(int argc, char** argv) {
  CLI::App app{"Trains, evaluates and renders neural radiance fields.", "nerf-engine"};
  app.set_version_flag("--version", "nerf-engine " NERF_VERSION);
  app.require_subcommand(1);
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->capture_default_str();
  nerf::CommandBody chosen;
  nerf::AddTrainCommand(&app, &chosen);
  nerf::AddEvalCommand(&app, &chosen);
  nerf::AddRenderCommand(&app, &chosen);
  nerf::AddInspectCommand(&app, &chosen);
  nerf::AddCheckCommand(&app, &chosen);
  nerf::AddBenchCommand(&app, &chosen);
  nerf::AddDoctorCommand(&app, &chosen);
  nerf::AddServeCommand(&app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // Help and version come this way, too, with exit code 0.
    return app.exit(e) == 0 ? nerf::kOk : nerf::kUsage;
  }
  if (absl::Status status = nerf::InitLogging("nerf-engine", log_level); !status.ok()) {
    return nerf::ReportError(status, false, true);
  }
  if (absl::Status status = TakeSimdPathOfEnvironment(); !status.ok()) {
    return nerf::ReportError(status, false, true);
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  return nerf::WithLastResort("nerf-engine", [&] { return Run(argc, argv); });
}
