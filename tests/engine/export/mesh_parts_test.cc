#include "engine/export/mesh/mesh_parts.h"

#include <gtest/gtest.h>

namespace nerf {
namespace {

// Adds a tetrahedron with legs of `size` at `corner`.
void AddTetrahedron(Vec3 corner, float size, TriangleMesh* mesh) {
  const auto first = static_cast<uint32_t>(mesh->positions.size());
  for (const Vec3 leg : {Vec3{0, 0, 0}, Vec3{1, 0, 0}, Vec3{0, 1, 0}, Vec3{0, 0, 1}}) {
    mesh->positions.push_back(corner + leg * size);
  }
  for (const uint32_t corner_index : {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3}) {
    mesh->indices.push_back(first + corner_index);
  }
}

TEST(MeshPartsTest, SmallPartsAreDroppedByArea) {
  TriangleMesh mesh;
  AddTetrahedron({5, 0, 0}, 0.05f, &mesh);
  AddTetrahedron({0, 0, 0}, 1, &mesh);
  AddTetrahedron({9, 0, 0}, 0.2f, &mesh);  // 4% of the largest
  const DroppedParts dropped = DropParts(0.01f, nullptr, &mesh);
  EXPECT_EQ(dropped.n_parts, 3);
  EXPECT_EQ(dropped.n_kept, 2);
  EXPECT_EQ(dropped.n_triangles, 4u);
  EXPECT_EQ(mesh.positions.size(), 8u);
  EXPECT_EQ(mesh.n_triangles(), 8u);
  EXPECT_TRUE(IsClosed(mesh));
}

TEST(MeshPartsTest, CallerRefusesPartsByTheirVertices) {
  TriangleMesh mesh;
  AddTetrahedron({0, 0, 0}, 1, &mesh);
  AddTetrahedron({3, 0, 0}, 1, &mesh);
  const DroppedParts dropped = DropParts(
      0, [](const std::vector<uint32_t>& vertices) { return vertices.front() >= 4; }, &mesh);
  EXPECT_EQ(dropped.n_kept, 1);
  EXPECT_EQ(mesh.positions.size(), 4u);
  for (const Vec3& p : mesh.positions) EXPECT_GE(p.x, 3);
}

TEST(MeshPartsTest, EmptyMeshHasNoParts) {
  TriangleMesh mesh;
  EXPECT_EQ(DropParts(0.01f, nullptr, &mesh).n_parts, 0);
}

}  // namespace
}  // namespace nerf
