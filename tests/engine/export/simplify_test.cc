#include "engine/export/mesh/simplify.h"

#include <gtest/gtest.h>

#include "tests/engine/export/shapes.h"

namespace nerf {
namespace {

// Two tetrahedra with the edge 0 - 1 in common, which has four triangles.
TriangleMesh SharedEdge() {
  TriangleMesh mesh;
  mesh.positions = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {-1, 0, 0}, {0, -1, 0}};
  mesh.indices = {0, 3, 2, 0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 5, 4, 0, 4, 1, 0, 1, 5, 1, 4, 5};
  return mesh;
}

TEST(SimplifyTest, EdgeOfFourTrianglesBecomesTwoEdges) {
  TriangleMesh mesh = SharedEdge();
  EXPECT_FALSE(IsClosed(mesh));
  const double volume = VolumeOf(mesh);
  EXPECT_TRUE(SplitSharedEdges(&mesh));
  EXPECT_TRUE(IsClosed(mesh));
  EXPECT_NEAR(VolumeOf(mesh), volume, 1e-6);
  EXPECT_EQ(mesh.n_triangles(), 10u);
}

TEST(SimplifyTest, TrianglesThatCoverEachOtherAreDropped) {
  TriangleMesh mesh = SharedEdge();
  mesh.indices.resize(12);
  mesh.positions.push_back({4, 4, 4});
  for (const uint32_t corner : {2, 3, 6, 3, 2, 6, 0, 0, 1}) mesh.indices.push_back(corner);
  EXPECT_TRUE(SplitSharedEdges(&mesh));
  EXPECT_EQ(mesh.n_triangles(), 4u);
  EXPECT_EQ(mesh.positions.size(), 4u);
}

TEST(SimplifyTest, MeshWithAHoleIsNotSaidToBeClosed) {
  TriangleMesh mesh = SharedEdge();
  mesh.indices.resize(9);
  EXPECT_FALSE(SplitSharedEdges(&mesh));
}

TEST(SimplifyTest, ThinWebStaysClosedDownToFewTriangles) {
  // Many thin bars, which merging of edges pinches.
  const Shape bars = [](Vec3 p) {
    const float x = std::abs(std::remainder(p.x, 0.25f)), y = std::abs(std::remainder(p.y, 0.25f));
    const float z = std::abs(std::remainder(p.z, 0.25f));
    const float bar = std::min({std::hypot(x, y), std::hypot(y, z), std::hypot(z, x)}) - 0.03f;
    return std::max(bar, Norm(p) - 0.8f);
  };
  for (const size_t n_triangles : {20'000, 4'000, 1'000}) {
    const MeshExport made = MeshOfShape(bars, {.resolution = 96, .n_triangles = n_triangles});
    EXPECT_TRUE(IsClosed(made.mesh));
    EXPECT_GT(made.n_found, 50'000u);
    EXPECT_LT(made.mesh.n_triangles(), made.n_found / 2);
  }
}

}  // namespace
}  // namespace nerf
