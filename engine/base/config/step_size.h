#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/config/device_class.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// Factor of the marching step at first, where initial_step_scale is "auto".
inline constexpr float kInitialStepScale = 3;

// Assumed samples per ray while all cells are occupied, as in the first steps.
inline constexpr int kFirstRaySamples = 400;

// How much a step trains: samples at first, the factor by which they grow over the budget, and its
// most rays. The defaults suit a few cores.
struct StepSize {
  int target_samples = 8192;
  float batch_growth = 4;
  int max_rays = 65536;
};
// Of a config; what is "auto" there is as in `chosen`.
inline StepSize StepSizeOf(const TrainConfig& config, const StepSize& chosen = {}) {
  const auto pick = [](auto asked, auto otherwise) {
    return asked == kAutoSetting ? otherwise : asked;
  };
  return {pick(config.target_samples, chosen.target_samples),
          pick(config.batch_growth, chosen.batch_growth), pick(config.max_rays, chosen.max_rays)};
}

// What suits a device. On one H100 those of a large GPU
// trained 110 to 160 million samples a second in place of 43 million, and gained up to 0.9 dB in
// the first seconds (docs/inside/figures/quality.csv). Those of a small GPU were not measured and
// are a CPU's.
inline StepSize StepSizeFor(DeviceClass device) {
  return device == DeviceClass::kLargeGpu ? StepSize{16384, 16, 262144} : StepSize();
}
// Gives the settings that are "auto" the values for a device.
inline void ChooseStepSize(DeviceClass device, TrainConfig* config) {
  const StepSize chosen = StepSizeOf(*config, StepSizeFor(device));
  config->target_samples = chosen.target_samples;
  config->batch_growth = chosen.batch_growth;
  config->max_rays = chosen.max_rays;
}

// The largest value of TargetSamples (engine/train/schedule.h) over a training.
inline int LargestTargetSamples(const TrainConfig& config) {
  const StepSize size = StepSizeOf(config);
  return static_cast<int>(std::lround(size.target_samples * double{size.batch_growth}));
}

// Most samples that a step of a training keeps. The first steps have a fully occupied grid; later
// ones have about target_samples.
inline uint64_t MaxStepSamples(const TrainConfig& config) {
  return std::max(2 * static_cast<uint64_t>(LargestTargetSamples(config)),
                  uint64_t{kFirstRaySamples} * static_cast<uint64_t>(config.initial_rays));
}

}  // namespace nerf
