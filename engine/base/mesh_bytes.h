#pragma once

#include <cstddef>

namespace nerf {

// Bytes of exported meshes, as engine/export writes them: positions and normals of floats, colors
// of 3 bytes in PLY and of 4 16-bit numbers in GLB; corners of 32-bit numbers, counted in PLY.
inline constexpr size_t kPlyVertexBytes = 27, kPlyTriangleBytes = 13;
inline constexpr size_t kGlbVertexBytes = 32, kGlbTriangleBytes = 12;

// Of a closed mesh without its header, which has half as many vertices as triangles.
inline double ExpectedMeshBytes(bool is_glb, double n_triangles) {
  return n_triangles * (is_glb ? 0.5 * kGlbVertexBytes + kGlbTriangleBytes
                               : 0.5 * kPlyVertexBytes + kPlyTriangleBytes);
}

}  // namespace nerf
