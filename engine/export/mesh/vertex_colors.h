#pragma once

#include <span>
#include <stop_token>

#include "engine/base/parallel_for.h"
#include "engine/base/vec3.h"
#include "engine/field/marched_model.h"

namespace nerf {

// The colors that the model shows at points of a surface: the mean of short rays against the normal
// and 30 degrees off it on four sides, which begin a cell in front of the surface. Asked at the
// points alone, a field has other colors: there it is too thin to be trained on them. Shapes:
// normals and colors as positions. Training frame. cell: a 256th of the level-0 box. time: see
// RayTile::time. Returns false if `stop` was requested on the way.
bool ColorPoints(const MarchedModel& model, std::span<const Vec3> positions,
                 std::span<const Vec3> normals, float cell, float time, ThreadPool* pool,
                 const std::stop_token& stop, Vec3* colors);

}  // namespace nerf
