#pragma once

#include <stop_token>

#include "engine/base/parallel_for.h"
#include "engine/export/triangle_mesh.h"
#include "engine/field/marched_model.h"

namespace nerf {

// Sets the colors of the vertices to what the model shows there: the mean of short rays against the
// normal and 30 degrees off it on four sides, which begin a cell in front of the surface. Asked at
// the vertices alone, a field has other colors: there it is too thin to be trained on them.
// Needs normals; training frame. cell: a 256th of the level-0 box. time: see RayTile::time. Returns
// false if `stop` was requested on the way.
bool ColorVertices(const MarchedModel& model, float cell, float time, ThreadPool* pool,
                   const std::stop_token& stop, TriangleMesh* mesh);

}  // namespace nerf
