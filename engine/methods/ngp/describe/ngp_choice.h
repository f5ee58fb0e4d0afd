#pragma once

#include <vector>

#include "engine/base/config/method_description.h"

namespace nerf {

// MethodDescription::ChooseSettings of the ngp field, by NgpChoiceRules. Rays begin at
// SceneFacts::near.
// The defaults suit pictures of 200 (table) and 400 (steps) pixels of an object that fills them.
void ChooseNgpSettings(const SceneFacts& scene, TrainConfig* config);
// The setting contraction of method ngp, and finest_resolution with it; before the others.
void ChooseContraction(const SceneFacts& scene, TrainConfig* config);
// The setting rays_per_pixel of method ngp, where the other settings allow more than one.
int RaysPerPixelFor(const SceneFacts& scene);
// The setting exposure_rate of method ngp where the pictures' exposures differ.
inline constexpr float kChosenExposureRate = 0.3f;

// What these functions choose for which scenes, and why: `nerf-engine doctor --choices`.
std::vector<ChoiceRule> NgpChoiceRules();

// The setting roulette_weight of method ngp with sampler=grid: that of photographs of one side.
float RouletteWeightFor(const SceneFacts& scene);

// MethodDescription::TakeFromStart and TakeFromTensors of the ngp field.
void TakeNgpFromStart(const TrainConfig& start, TrainConfig* config);
void TakeNgpFromTensors(const std::vector<TensorShape>& held, TrainConfig* config);

}  // namespace nerf
