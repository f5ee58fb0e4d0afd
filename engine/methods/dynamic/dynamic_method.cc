#include "engine/methods/dynamic/cuda_warp.h"
#include "engine/methods/dynamic/dynamic_step.h"
#include "engine/methods/dynamic/model.h"
#include "engine/methods/ngp/cuda/new_cuda_step.h"
#include "engine/train/method.h"
#include "engine/train/step_bench.h"

namespace nerf {

const MethodDescription& DescribeDynamic();

namespace {

class DynamicMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeDynamic(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    if (request.cuda_device.has_value()) {
      return NewNgpStepOnDevice(
          request, DynamicCudaWarpMaker(request.config, request.geometry, request.scene.train));
    }
    return NewDynamicStep(request.config, request.geometry, request.scene.train, request.pool);
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return LoadDynamicModel(file, config, geometry);
  }
  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override {
    return NewNgpCudaRenderDevice(index, DynamicViewParts);
  }
  std::vector<Bench> Benches(const Scene& scene) const override {
    return {StepBench("dynamic_step", *this, scene, 200)};
  }
};

}  // namespace

const Method& DynamicMethod() {
  static const auto& method = *new DynamicMethodImpl();
  return method;
}

}  // namespace nerf
