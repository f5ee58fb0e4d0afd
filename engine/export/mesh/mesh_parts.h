#pragma once

#include <functional>

#include "engine/export/mesh/triangle_mesh.h"

namespace nerf {

// What DropParts leaves out.
struct DroppedParts {
  int n_parts = 0, n_kept = 0;
  size_t n_triangles = 0;  // of those that were dropped
};

// Drops the parts of a mesh, which no edge connects, whose area is below `min_share` of the largest
// part's, and those that `is_kept` refuses, which is asked with the vertices of a part: floaters.
// is_kept may be unset.
DroppedParts DropParts(float min_share,
                       const std::function<bool(const std::vector<uint32_t>& vertices)>& is_kept,
                       TriangleMesh* mesh);

}  // namespace nerf
