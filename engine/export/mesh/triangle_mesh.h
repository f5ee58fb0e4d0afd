#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {

// A surface. Triangles are counterclockwise seen from the empty side.
struct TriangleMesh {
  std::vector<Vec3> positions;
  std::vector<uint32_t> indices;  // three a triangle
  std::vector<Vec3> normals;      // of the vertices, unit length; empty until they are needed
  std::vector<Vec3> colors;       // of the vertices, sRGB, 0 to 1; empty until they are needed

  size_t n_triangles() const { return indices.size() / 3; }
};

// The mean normals of the triangles around each vertex and its neighbors, weighted by their areas;
// (0, 0, 1) where they cancel. Neighbors count, as some vertices have tiny triangles alone.
std::vector<Vec3> VertexNormals(const TriangleMesh& mesh);

// Drops the vertices that no triangle has, and sorts the others by their first triangle.
void DropUnusedVertices(TriangleMesh* mesh);

// Whether every edge has two triangles, which pass it in opposite directions.
bool IsClosed(const TriangleMesh& mesh);

}  // namespace nerf
