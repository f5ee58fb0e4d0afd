#include "engine/tool/autograd_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/status_macros.h"
#include "engine/tool/device.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr char kLibrary[] = "libnerf_autograd.so";
constexpr char kFactory[] = "NerfNewAutogradStep";

// Exported by the library with C linkage. Does not throw.
using AutogradFactory = void (*)(const TrainConfig* config, const SceneGeometry* geometry,
                                 ThreadPool* pool,
                                 absl::StatusOr<std::unique_ptr<TrainingStep>>* step);

absl::StatusOr<AutogradFactory> OpenAutograd() {
  const std::string path = AutogradLibraryPath();
  if (!HasAutogradLibrary()) {
    return NotBuiltError(
        fmt::format("method {} needs {}, which does not exist: build with NERF_ENABLE_TORCH, or "
                    "use method ngp",
                    kAutogradMethod, path));
  }
  // LibTorch's OpenMP threads would otherwise spin between its operations and take cores from our
  // pool. OpenMP reads the variable once, when the library is loaded. A value set by the user
  // stays.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  // Never closed: its threads and static objects live as long as the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotBuiltError(fmt::format("cannot open {}: {}", path, dlerror()));
  void* symbol = dlsym(library, kFactory);
  if (symbol == nullptr) return NotBuiltError(fmt::format("{} has no {}", path, kFactory));
  return reinterpret_cast<AutogradFactory>(symbol);
}

}  // namespace

std::string AutogradLibraryPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return kLibrary;
  return (program.parent_path().parent_path() / "lib" / kLibrary).string();
}

bool HasAutogradLibrary() {
  std::error_code ignored;
  return std::filesystem::exists(AutogradLibraryPath(), ignored);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewAutogradStep(const TrainConfig& config,
                                                              const SceneGeometry& geometry,
                                                              ThreadPool* pool) {
  NERF_ASSIGN_OR_RETURN(AutogradFactory factory, OpenAutograd());
  absl::StatusOr<std::unique_ptr<TrainingStep>> step = absl::InternalError("no step was made");
  factory(&config, &geometry, pool, &step);
  return step;
}

}  // namespace nerf
