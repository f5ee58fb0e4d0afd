#include "engine/methods/autograd/ray_tensors.h"

namespace nerf {

torch::Tensor AsTensor(const std::vector<Vec3>& points) {
  return torch::from_blob(const_cast<Vec3*>(points.data()),
                          {static_cast<int64_t>(points.size()), 3}, torch::kFloat32);
}

torch::Tensor AsTensor(const std::vector<float>& values) {
  return torch::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())},
                          torch::kFloat32);
}

torch::Device DeviceOf(std::optional<int> index) {
  if (!index.has_value()) return torch::kCPU;
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(*index)};
}

torch::Tensor AsLeaf(const float* values, torch::IntArrayRef shape, const torch::Device& device) {
  return torch::from_blob(const_cast<float*>(values), shape, torch::kFloat32)
      .to(device)
      .requires_grad_(true);
}

namespace {

torch::Tensor LossOf(const TrainConfig& config, const torch::Tensor& residuals) {
  const torch::Tensor square = 0.5 * residuals * residuals;
  if (config.loss == Loss::kMse) return square;
  const torch::Tensor size = residuals.abs();
  const double delta = config.huber_delta;
  return torch::where(size <= delta, square, delta * (size - 0.5 * delta));
}

}  // namespace

RayLosses LossesOf(const TrainConfig& config, const RayBatch& batch, const torch::Tensor& colors) {
  const torch::Tensor residuals = colors - AsTensor(batch.targets).to(colors.device());
  RayLosses of{LossOf(config, residuals), residuals.detach().square()};
  if (!batch.weights.empty()) {
    const torch::Tensor weights = AsTensor(batch.weights).to(colors.device()).unsqueeze(1);
    of.losses = of.losses * weights;
    of.squares = of.squares * weights;
  }
  return of;
}

}  // namespace nerf
