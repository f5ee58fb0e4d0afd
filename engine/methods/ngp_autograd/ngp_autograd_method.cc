#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_autograd/autograd_library.h"
#include "engine/train/method.h"
#include "fmt/format.h"

namespace nerf {

const MethodDescription& DescribeNgpAutograd();

namespace {

constexpr char kLibrary[] = "libnerf_autograd.so";
constexpr char kFactory[] = "NerfNewAutogradStep";

// Exported by the library with C linkage. Does not throw.
using AutogradFactory = void (*)(const StepRequest* request,
                                 absl::StatusOr<std::unique_ptr<TrainingStep>>* step);

absl::Status NotInstalled(const std::string& message) {
  return WithReason(absl::UnimplementedError(message), reason::kFeatureNotBuilt);
}

absl::StatusOr<AutogradFactory> OpenAutograd() {
  const std::string path = AutogradLibraryPath();
  // LibTorch's OpenMP threads would otherwise spin between its operations and take cores from our
  // pool. OpenMP reads the variable once, when the library is loaded. A value set by the user
  // stays.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  // Never closed: its threads and static objects live as long as the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotInstalled(fmt::format("cannot open {}: {}", path, dlerror()));
  void* symbol = dlsym(library, kFactory);
  if (symbol == nullptr) return NotInstalled(fmt::format("{} has no {}", path, kFactory));
  return reinterpret_cast<AutogradFactory>(symbol);
}

class NgpAutogradMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeNgpAutograd(); }

  absl::Status CheckInstalled() const override {
    return CheckAutogradInstalled("ngp-autograd", "ngp");
  }
  absl::Status CheckInstalledFor(DeviceSet devices) const override {
    if ((devices & kOnCuda) != 0) NERF_RETURN_IF_ERROR(CheckAutogradHasCuda("ngp-autograd"));
    return CheckInstalled();
  }
  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    return NewAutogradLibraryStep(request, "ngp");
  }
  bool HasProfile() const override { return true; }

  // The same field in the same tensors as ngp's.
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return LoadNgpModel(file, config, geometry);
  }
};

}  // namespace

std::string AutogradLibraryPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return kLibrary;
  return (program.parent_path().parent_path() / "lib" / kLibrary).string();
}

absl::Status CheckAutogradInstalled(std::string_view method, std::string_view instead) {
  std::error_code ignored;
  const std::string path = AutogradLibraryPath();
  if (std::filesystem::exists(path, ignored)) return absl::OkStatus();
  return NotInstalled(
      fmt::format("method {} needs {}, which does not exist: build with NERF_ENABLE_TORCH, or "
                  "use method {}",
                  method, path, instead));
}

absl::Status CheckAutogradHasCuda(std::string_view method) {
#ifdef NERF_TORCH_HAS_CUDA
  (void)method;
  return absl::OkStatus();
#else
  return NotInstalled(fmt::format(
      "method {} needs a LibTorch with CUDA there, and this build has none; use --device cpu",
      method));
#endif
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewAutogradLibraryStep(const StepRequest& request,
                                                                     std::string_view instead) {
  NERF_RETURN_IF_ERROR(CheckAutogradInstalled(request.config.method, instead));
  NERF_ASSIGN_OR_RETURN(AutogradFactory factory, OpenAutograd());
  absl::StatusOr<std::unique_ptr<TrainingStep>> step = absl::InternalError("no step was made");
  factory(&request, &step);
  return step;
}

const Method& NgpAutogradMethod() {
  static const auto& method = *new NgpAutogradMethodImpl();
  return method;
}

}  // namespace nerf
