#include "engine/methods/voxels/cuda_voxels.h"
#include "engine/methods/voxels/voxels_step.h"
#include "engine/train/method.h"
#include "engine/train/step_bench.h"

namespace nerf {

const MethodDescription& DescribeVoxels();

namespace {

class VoxelsMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeVoxels(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    if (request.cuda_device.has_value()) return NewVoxelsStepOnDevice(request);
    return NewVoxelsStep(request.config, request.geometry, request.scene.train, request.pool);
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return LoadVoxelsModel(file, config, geometry);
  }
  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override {
    return NewNgpCudaRenderDevice(index, VoxelsViewParts);
  }
  std::vector<Bench> Benches(const Scene& scene) const override {
    return {StepBench("voxels_step", *this, scene, 100)};
  }
};

}  // namespace

const Method& VoxelsMethod() {
  static const auto& method = *new VoxelsMethodImpl();
  return method;
}

}  // namespace nerf
