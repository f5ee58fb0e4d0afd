#include "engine/methods/mlp_autograd/mlp_autograd_method.h"

#include <utility>

#include "common/status_macros.h"
#include "engine/methods/ngp_autograd/autograd_library.h"
#include "engine/train/step_bench.h"

namespace nerf {

const Method& MlpMethod();
const MethodDescription& DescribeMlpAutograd();

MlpThroughTorch::MlpThroughTorch(const MethodDescription& description, std::string bench,
                                 std::string instead)
    : description_(description), bench_(std::move(bench)), instead_(std::move(instead)) {}

absl::Status MlpThroughTorch::CheckInstalled() const {
  return CheckAutogradInstalled(description_.name(), instead_);
}

absl::Status MlpThroughTorch::CheckInstalledFor(DeviceSet devices) const {
  if ((devices & kOnCuda) != 0) NERF_RETURN_IF_ERROR(CheckAutogradHasCuda(description_.name()));
  return CheckInstalled();
}

absl::StatusOr<std::unique_ptr<TrainingStep>> MlpThroughTorch::NewStep(
    const StepRequest& request) const {
  return NewAutogradLibraryStep(request, instead_);
}

// The layers of mlp evaluate it.
absl::StatusOr<std::unique_ptr<TrainedModel>> MlpThroughTorch::LoadModel(
    const TensorFile& file, const TrainConfig& config, const SceneGeometry& geometry) const {
  return MlpMethod().LoadModel(file, config, geometry);
}

std::unique_ptr<RenderDevice> MlpThroughTorch::NewCudaRenderDevice(int index) const {
  return MlpMethod().NewCudaRenderDevice(index);
}

std::vector<Bench> MlpThroughTorch::Benches(const Scene& scene) const {
  if (!CheckInstalled().ok()) return {};
  return {StepBench(bench_, *this, scene, 8)};
}

const Method& MlpAutogradMethod() {
  static const auto& method =
      *new MlpThroughTorch(DescribeMlpAutograd(), "mlp_autograd_step", "mlp");
  return method;
}

}  // namespace nerf
