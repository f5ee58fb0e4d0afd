#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/vec3.h"
#include "engine/export/mesh/triangle_mesh.h"

namespace nerf {

// Connected triangles that lie in one plane of a texture: none is turned over there, and no two
// overlap.
struct MeshChart {
  Vec3 right, up;                   // axes of the plane; with its normal a right-handed frame
  std::vector<uint32_t> triangles;  // of the mesh, in rising order
};

// Cuts a mesh into charts that hold each triangle once. A chart grows from a triangle to neighbors
// whose normals are near its own (smooth ones of the vertices within 60 degrees), up to a size that
// keeps charts round; small ones join a neighbor where both fit one plane. Needs normals.
// Deterministic.
std::vector<MeshChart> ChartsOf(const TriangleMesh& mesh);

}  // namespace nerf
