#include "engine/export/mesh/texture_atlas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/export/shapes.h"
#include "tests/engine/export/texture_sampling.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

MeshExport TexturedTorus(int size, int n_threads = 2) {
  return MeshOfShape(Torus(0.6f, 0.2f),
                     {.resolution = 64, .n_triangles = 2000, .texture_size = size}, ShapeGeometry(),
                     n_threads);
}

TEST(TextureAtlasTest, NoTexelIsOfTwoTriangles) {
  constexpr int kSize = 256;
  const MeshExport made = TexturedTorus(kSize);
  ASSERT_EQ(made.texture.places.size(), made.mesh.n_triangles());
  std::vector<int> owners(kSize * kSize);
  for (const AtlasPlace& place : made.texture.places) {
    // With the texels beside the longest side.
    for (int j = 0; j <= place.leg; ++j) {
      for (int i = 0; i <= place.leg - j + 1; ++i) {
        const int x = place.x + place.sign * i, y = place.y + place.sign * j;
        ASSERT_TRUE(x >= 0 && y >= 0 && x < kSize && y < kSize);
        EXPECT_EQ(owners[y * kSize + x]++, 0);
      }
    }
  }
  const auto n_used = std::count(owners.begin(), owners.end(), 1);
  EXPECT_GT(n_used, 0.8 * kSize * kSize);
}

TEST(TextureAtlasTest, ColorsBetweenTexelsAreTheFields) {
  const MeshExport made = TexturedTorus(256);
  double sum = 0;
  const auto points = TexturePoints(made.mesh, made.texture, 10);
  for (const TexturePoint& point : points) {
    // What is seen lies up to five 128ths behind the surface, see mesh_export_test.cc.
    const float difference =
        LargestDifference(point.color, point.position * 0.5f + Vec3{0.5f, 0.5f, 0.5f});
    EXPECT_LT(difference, 0.02f);
    sum += difference;
  }
  EXPECT_LT(sum / points.size(), 3.0 / 255);
}

TEST(TextureAtlasTest, BytesDoNotDependOnThreads) {
  EXPECT_TRUE(TexturedTorus(128, 1).texture.picture.pixels ==
              TexturedTorus(128, 3).texture.picture.pixels);
}

TEST(TextureAtlasTest, TrianglesOfAllShapesFitOrAreRefused) {
  TriangleMesh mesh;
  mesh.positions = {{0, 0, 0}, {1, 0, 0}, {0, 1e-6f, 0}, {0.5f, 100, 0}};
  mesh.indices = {0, 1, 2, 0, 1, 3, 1, 1, 1};
  const auto places = PlaceTriangles(mesh, 64);
  ASSERT_THAT(places, IsOk());
  EXPECT_GE((*places)[1].leg, 30);
  mesh.indices.resize(3 * 700, 0);  // 350 cells of at least 4 x 3 texels
  EXPECT_EQ(PlaceTriangles(mesh, 64).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(PlaceTriangles(TriangleMesh(), 64), IsOk());
}

}  // namespace
}  // namespace nerf
