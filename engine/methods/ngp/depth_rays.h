#pragma once

#include <cstdint>
#include <span>

#include "engine/base/lens.h"
#include "engine/methods/ngp/view_parameters/view_poses.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// What is known of a scene's depth. Borrows it.
struct KnownDepths {
  std::span<const SeenPoint> points;
  std::span<const DepthMap> maps;

  bool empty() const { return points.empty() && maps.empty(); }
};

// Appends one ray for each eight pixels of the batch, with the depth to learn and no color: from a
// view to a point that it shows, or through a pixel of a depth map; in turn where there are both.
// They are drawn at random, a function of (seed, step, index): points evenly, maps evenly and then
// their pixels, of which those held out or without a depth give no ray. The batch gets weights and
// views where it has none. cameras: of the views; poses: corrections of all rays.
// Requires: not depths.empty().
void AppendDepthRays(const KnownDepths& depths, std::span<const LensCamera> cameras,
                     const ViewPoses& poses, float near, uint64_t seed, RayBatch* batch);

}  // namespace nerf
