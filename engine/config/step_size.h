#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/config/train_config.h"

namespace nerf {

// Factor of the marching step at first, where initial_step_scale is "auto".
inline constexpr float kInitialStepScale = 3;

// Assumed samples per ray while all cells are occupied, as in the first steps.
inline constexpr int kFirstRaySamples = 400;

// The largest value of TargetSamples (engine/train/schedule.h) over a training.
inline int LargestTargetSamples(const TrainConfig& config) {
  return static_cast<int>(std::lround(config.target_samples * double{config.batch_growth}));
}

// Most samples that a step of a training keeps. The first steps have a fully occupied grid; later
// ones have about target_samples.
inline uint64_t MaxStepSamples(const TrainConfig& config) {
  return std::max(2 * static_cast<uint64_t>(LargestTargetSamples(config)),
                  uint64_t{kFirstRaySamples} * static_cast<uint64_t>(config.initial_rays));
}

}  // namespace nerf
