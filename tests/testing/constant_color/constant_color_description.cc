#include "tests/testing/constant_color/constant_color_description.h"

#include <array>

namespace nerf {
namespace {

class ConstantColorDescription final : public MethodDescription {
 public:
  std::string_view name() const override { return "constant-color"; }
  std::string_view summary() const override { return "one color for every ray"; }
  DeviceSet training_devices() const override { return kOnCpu; }
  DeviceSet rendering_devices() const override { return kOnCpu; }
  std::span<const Setting> settings() const override {
    static const std::array settings = {
        SharedSetting("learning_rate"),
        SettingOf<&ConstantColorSettings::pixels>("pixels", 1, 4096, "pixels of a step")};
    return settings;
  }
  TrainConfig Defaults() const override {
    TrainConfig config;
    config.method = name();
    config.learning_rate = 0.5f;
    return config;
  }
  std::vector<TensorShape> FieldTensors(const TrainConfig& /*config*/) const override {
    return {{kConstantColorTensor, "F16", {3}}};
  }
  uint64_t StepBytes(const TrainConfig& /*config*/, int /*n_levels*/,
                     int /*n_threads*/) const override {
    return 3 * sizeof(float);
  }
  uint64_t StateBytes(const TrainConfig& /*config*/, int /*n_levels*/) const override {
    return 3 * sizeof(float);
  }
  absl::Status CheckStart(const TrainedAs& /*start*/, const TrainedAs& /*wanted*/) const override {
    return absl::OkStatus();
  }
};

}  // namespace

const MethodDescription& DescribeConstantColor() {
  static const auto& description = *new ConstantColorDescription();
  return description;
}

}  // namespace nerf
