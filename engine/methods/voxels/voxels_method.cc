#include "engine/methods/voxels/voxels_step.h"
#include "engine/train/method.h"

namespace nerf {

const MethodDescription& DescribeVoxels();

namespace {

class VoxelsMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeVoxels(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    return NewVoxelsStep(request.config, request.geometry, request.scene.train, request.pool);
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return LoadVoxelsModel(file, config, geometry);
  }
};

}  // namespace

const Method& VoxelsMethod() {
  static const auto& method = *new VoxelsMethodImpl();
  return method;
}

}  // namespace nerf
