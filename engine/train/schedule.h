#pragma once

#include <cstdint>

#include "engine/base/config/train_config.h"
#include "engine/field/kernels/color_loss.h"

namespace nerf {

// Share of the budget that is spent, in [0, 1]; 1 is reached exactly when the budget is.
double FractionSpent(const Budget& budget, uint32_t step, int64_t n_trained, double seconds);

// What the loss of a residual depends on.
kernels::LossShape LossShapeOf(const TrainConfig& config);

// What the moving average keeps of itself over n_steps.
float AverageDecay(const TrainConfig& config, int n_steps);

// Learning rate of the step after `step` finished ones:
//   learning_rate * (1% rising to 100% over warmup_steps) * (100% until 70% of the budget are
//   spent, then on a straight line to 1% at its end).
// fraction in [0, 1].
float LearningRate(const TrainConfig& config, uint32_t step, double fraction);

// How much longer than the scene's the steps along rays are: initial_step_scale (auto: 3) at first,
// on a straight line to 1 at half of the budget. While the field is coarse, long steps lose
// nothing, and the same number of samples are more rays (docs/inside/measured.md). Requires
// fraction in [0, 1].
float StepScale(const TrainConfig& config, double fraction);

// Weight of the rays' distortion in the loss: `distortion` at first, on a straight line to nothing
// at half of the budget. By then it is settled what is fog and what is a surface, and what is left
// to learn is color alone. fraction in [0, 1].
float DistortionWeight(const TrainConfig& config, double fraction);

// Trained samples of a step: target_samples until 30% of the budget are spent, batch_growth times
// as many from 80% on, and in geometric progression between. Small steps learn the coarse things in
// the least time; later their noise is what limits the picture, and what a step costs beside its
// samples counts less in a large one. Source of the idea: Smith et al. 2018, "Don't decay the
// learning rate, increase the batch size". fraction in [0, 1].
int TargetSamples(const TrainConfig& config, double fraction);
// Rays per pixel of a training step: 1 until half of the budget is spent, then RaysPerPixel. A
// pixel of a picture is a mean over its area, which one ray does not show. A coarse field learns
// more from other pixels. fraction in [0, 1].
int TrainedRaysPerPixel(const TrainConfig& config, double fraction);
// The share of a run's time that is over at `fraction`, by its samples: where the budget counts
// steps, later ones train more of them.
double ShareOfTime(const TrainConfig& config, double fraction);

}  // namespace nerf
