#include <algorithm>

#include "engine/base/config/method_description.h"
#include "engine/base/config/step_size.h"
#include "engine/methods/voxels/describe/voxels_settings.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr uint64_t kBrickFloats = 64 * 32;  // as the engine stores a brick

uint64_t BricksOf(uint64_t resolution) {
  return (resolution / 4) * (resolution / 4) * (resolution / 4);
}

uint64_t GridCells(const TrainConfig& config, int n_levels) {
  const auto side = static_cast<uint64_t>(GridResolution(config));
  return n_levels * side * side * side;
}

class VoxelsDescription final : public MethodDescription {
 public:
  std::string_view name() const override { return "voxels"; }
  std::string_view summary() const override {
    return "sparse voxels with spherical harmonics, no network";
  }
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
  std::span<const Setting> settings() const override { return VoxelsSettingTable(); }
  TrainConfig Defaults() const override {
    TrainConfig config;
    config.method = name();
    config.learning_rate = 0.1f;
    config.loss_scale = 1;
    config.batch_growth = 2;
    config.warmup_steps = 20;
    config.target_samples = 4096;
    return config;
  }
  // The number of voxels is not known before the training: here is the map of bricks alone.
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override {
    const auto side = static_cast<uint32_t>(
        std::max(Voxels(config).first_resolution, Voxels(config).finest_resolution) / 4);
    return {{"field.bricks", "F16", {side, side, side}}};
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int /*n_threads*/) const override {
    const uint64_t brick_bytes = kBrickFloats * 3 * sizeof(float);  // values, moments, gradients
    return VoxelsMostBricks(config) * brick_bytes + BricksOf(Voxels(config).finest_resolution) * 4 +
           GridCells(config, n_levels) * 5 + MaxStepSamples(config) * 48 * sizeof(float);
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return (VoxelsMostBricks(config) * 64 * 28 * 3 + GridCells(config, n_levels)) * sizeof(float);
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    if (!start.config.method_settings.Holds<VoxelsSettings>()) {
      return absl::InvalidArgumentError(
          fmt::format("trained by method {}, whose field is another one", start.config.method));
    }
    const float held = Voxels(start.config).initial_density;
    if (held != Voxels(wanted.config).initial_density) {
      return absl::InvalidArgumentError(
          fmt::format("trained with initial_density {}, the config wants {}", held,
                      Voxels(wanted.config).initial_density));
    }
    if (start.n_occupancy_levels != wanted.n_occupancy_levels) {
      return absl::InvalidArgumentError(
          fmt::format("trained on a scene of {} occupancy levels, the data set has {}",
                      start.n_occupancy_levels, wanted.n_occupancy_levels));
    }
    return absl::OkStatus();
  }
};

}  // namespace

uint64_t VoxelsMostBricks(const TrainConfig& config) {
  constexpr uint64_t kSparseShare = 12;
  const VoxelsSettings& voxels = Voxels(config);
  return std::max(BricksOf(voxels.first_resolution),
                  BricksOf(voxels.finest_resolution) / kSparseShare);
}

const MethodDescription& DescribeVoxels() {
  static const auto& description = *new VoxelsDescription();
  return description;
}

}  // namespace nerf
