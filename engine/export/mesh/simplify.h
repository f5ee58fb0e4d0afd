#pragma once

#include <cstddef>

#include "engine/export/mesh/triangle_mesh.h"

namespace nerf {

// Reduces a closed mesh to about n_triangles by merging edges where that changes the surface least
// (meshoptimizer), and keeps it closed. A mesh that has no more stays as it is. Drops normals and
// colors.
// Source: Garland and Heckbert 1997.
void Simplify(size_t n_triangles, TriangleMesh* mesh);

// Gives every edge two triangles where each direction of it is passed equally often: pairs of
// triangles that cover each other are dropped, and an edge of four triangles becomes two edges, one
// of them with a new vertex in its middle. Returns false if that did not help.
bool SplitSharedEdges(TriangleMesh* mesh);

}  // namespace nerf
