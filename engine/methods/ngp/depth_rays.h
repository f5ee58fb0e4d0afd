#pragma once

#include <cstdint>
#include <span>

#include "engine/scene/scene.h"
#include "engine/train/ray_batch.h"

namespace nerf {

// Appends one ray for each eight pixels of the batch, from a view to a point of the scene that it
// shows, with the depth to learn and no color. Points are drawn at random, a function of (seed,
// step, index). The batch gets weights and views where it has none. Requires: points, and views
// that hold their cameras.
void AppendDepthRays(std::span<const SeenPoint> points, std::span<const Vec3> camera_positions,
                     float near, uint64_t seed, RayBatch* batch);

}  // namespace nerf
