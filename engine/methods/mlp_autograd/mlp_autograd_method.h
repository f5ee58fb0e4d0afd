#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/train/method.h"

namespace nerf {

// A method with a field of mlp that trains through LibTorch; without LibTorch its models render.
class MlpThroughTorch final : public Method {
 public:
  // bench: the name of its step in `nerf-engine bench`. instead: a method that does without
  // LibTorch.
  MlpThroughTorch(const MethodDescription& description, std::string bench, std::string instead);

  const MethodDescription& description() const override { return description_; }
  absl::Status CheckInstalled() const override;
  absl::Status CheckInstalledFor(DeviceSet devices) const override;
  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override;
  bool HasProfile() const override { return true; }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override;
  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override;
  std::vector<Bench> Benches(const Scene& scene) const override;

 private:
  const MethodDescription& description_;
  const std::string bench_, instead_;
};

}  // namespace nerf
