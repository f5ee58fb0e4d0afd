#pragma once

#include <string>
#include <vector>

#include "engine/base/config/device_class.h"
#include "engine/base/config/method_description.h"
#include "engine/base/config/train_config.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/reduce_views.h"

namespace nerf {

// Samples that the budget pays for: where it is in seconds, at the usual rate of the device's
// class, whatever this machine's is.
double SamplesOfBudget(const TrainConfig& config, const DeviceFacts& device);

// The median over the views of the pixels that lie along a side of the level-0 box at the distance
// of its center; cameras inside of the box see it from half a side, and those of FacesOneWay from
// the middle, by disparity, of what they show. 0 without views.
double PixelsAlongBox(const SceneDescription& description);

// The median over the views of the pixels across the width of the geometry's frustum; 0: there is
// none.
double PixelsAlongFrustum(const SceneDescription& description);

// Of a scene whose training views are panoramas, most of them: the median distance of their cameras
// to the nearest other one, training units. 0 for other scenes, for less than two places, and where
// most cameras share theirs.
float PanoramaSpacing(const SceneDescription& description);

// Where rays of a scene of panoramas begin, training units; 0: at the scene's own near. The level-0
// box of panoramas without points of the scene just holds their cameras, so the usual near is a few
// centimeters in a room: each ray then learns its color in front of its own camera, where no other
// camera would notice the fog. Cameras stand in free space, and what lies halfway between neighbors
// is free, too, as a rule: this is half of PanoramaSpacing, between the scene's own near and 0.3
// half sides of the box, which few cameras far apart would exceed. 0 with points, whose box goes
// around what is seen: the scene's own near is right there (docs/inside/figures/captures.csv).
float PanoramaNear(const SceneDescription& description);

// Whether all cameras look to one side and stand close together, for how near lies what they show:
// by LLFF's bounds or COLMAP's points.
bool FacesOneWay(const SceneDescription& description);

// Where rays of the scene may begin, training units; 0: at its own near. With FacesOneWay six
// tenths of what is nearest, so that no fog lies in front of the cameras; else PanoramaNear.
float NearOfViews(const SceneDescription& description);

// What settings may depend on (MethodDescription::ChooseSettings), of pictures that are reduced
// (ReduceViews) and a budget of so many samples. lowers_steps is the caller's.
SceneFacts FactsOfScene(const SceneDescription& description, double n_samples);

// Of pictures, those that a sample of the budget pays for.
inline constexpr double kPixelsPerSample = 3;
// The longer side that training pictures are reduced to, in pixels; 0: as they are. That of the
// config, or if it is negative: such that the budget has at least a third of a sample for each
// pixel, but never below kMaxDefaultViewPixels for a picture.
int MaxSideOf(const TrainConfig& config, const SceneDescription& description,
              const DeviceFacts& device);

// The largest setting max_side with which the decoded pictures of these views take at most so many
// bytes; 0: none of at least 64 does. Requires: views that are not reduced.
int SideThatFits(const std::vector<ViewDescription>& views, double n_bytes);

// "3000x4000 pixels reduced to 1152x1536"; empty where nothing was reduced.
std::string ReductionText(const Reduction& reduction);

}  // namespace nerf
