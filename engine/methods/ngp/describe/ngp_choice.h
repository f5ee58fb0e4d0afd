#pragma once

#include <vector>

#include "engine/config/method_description.h"

namespace nerf {

// MethodDescription::ChooseSettings of the ngp field.
// - Entries of a level grow with the pixels in a square of a box's side, up to 2^19; half as many
//   where the budget has less than 3 samples for each pixel of the training pictures.
// - Steps along rays stay near 1.4 pixels; 0.7 where the budget has 6 samples for each pixel. The
//   first steps of objects are at most 4.2 pixels long.
// - Pictures without alpha need four times these samples. Below 12 for each pixel they keep the
//   entries and steps of small pictures; their first steps are three of the scene's own.
// - Rays of pictures with alpha end at 0.1% of the light, not 3%, where the budget has 16 samples
//   for each pixel, or 10 of large pictures.
// - The occupancy grid of objects has 256 cells a side, of very small ones and of all else 128.
// - The finest level has 1.2 cells a pixel or more.
// - Rays begin at SceneFacts::near.
// - Photographs of one side (SceneFacts::faces_one_way) have long steps, very long ones at first,
//   and cells of the finest level of about two pixels.
// The defaults suit pictures of 200 (table) and 400 (steps) pixels of an object that fills them.
void ChooseNgpSettings(const SceneFacts& scene, TrainConfig* config);
// The setting contraction of method ngp, before the others: perspective for photographs with a
// frustum (SceneFacts), whose finest level then has cells of about one pixel; else none.
void ChooseContraction(const SceneFacts& scene, TrainConfig* config);
// The setting rays_per_pixel of method ngp, where the other settings allow more than one: four for
// pictures with alpha of up to 600 pixels along the box, where the budget has 8 samples for each
// pixel.
int RaysPerPixelFor(const SceneFacts& scene);
// The setting exposure_rate of method ngp where the pictures' exposures differ.
inline constexpr float kChosenExposureRate = 0.3f;

// The setting roulette_weight of method ngp with sampler=grid: that of photographs of one side.
float RouletteWeightFor(const SceneFacts& scene);

// MethodDescription::TakeFromStart and TakeFromTensors of the ngp field.
void TakeNgpFromStart(const TrainConfig& start, TrainConfig* config);
void TakeNgpFromTensors(const std::vector<TensorShape>& held, TrainConfig* config);

}  // namespace nerf
