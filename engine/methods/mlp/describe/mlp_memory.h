#pragma once

#include <cstddef>

#include "engine/base/config/train_config.h"

namespace nerf {

// Gradients are summed in this many lanes (engine/train/field_step.h).
inline constexpr int kMlpGradientLanes = 16;
inline constexpr int kMlpChunkSamples = 256;  // trained samples that a chunk should have
// Rows of activations that a thread holds at most in ordinary steps.
inline constexpr int kMlpThreadRows = 2048;

// Samples that methods through LibTorch evaluate again at a time, with checkpointing.
inline constexpr int kMlpCheckpointRows = 512;

// Floats of the activations and gradients of one sample.
size_t MlpRowFloats(const TrainConfig& config);

}  // namespace nerf
