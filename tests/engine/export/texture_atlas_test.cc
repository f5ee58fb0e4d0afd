// Tests of texture_atlas.h and mesh_charts.h.
#include "engine/export/mesh/texture_atlas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

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

// Twice the area of a triangle in the picture, above 0 where the picture shows its outside.
float AreaInPicture(const TextureLayout& layout, uint32_t triangle) {
  const auto corner = [&](size_t k) {
    return layout.vertices[layout.indices[3 * size_t{triangle} + k]];
  };
  const TextureVertex a = corner(0), b = corner(1), c = corner(2);
  // Rows go down.
  return (c.x - a.x) * (b.y - a.y) - (b.x - a.x) * (c.y - a.y);
}

// Of texel centers, the triangles that hold each, in the charts' order.
std::vector<std::vector<uint32_t>> TrianglesAtTexels(const TextureLayout& layout, int size) {
  std::vector<std::vector<uint32_t>> at(static_cast<size_t>(size) * size);
  for (uint32_t triangle = 0; triangle < layout.indices.size() / 3; ++triangle) {
    TextureVertex v[3];
    for (size_t k = 0; k < 3; ++k) v[k] = layout.vertices[layout.indices[3 * triangle + k]];
    for (int y = static_cast<int>(std::min({v[0].y, v[1].y, v[2].y}));
         y <= std::max({v[0].y, v[1].y, v[2].y}); ++y) {
      for (int x = static_cast<int>(std::min({v[0].x, v[1].x, v[2].x}));
           x <= std::max({v[0].x, v[1].x, v[2].x}); ++x) {
        bool is_inside = true;
        for (size_t k = 0; k < 3; ++k) {
          const TextureVertex &a = v[k], &b = v[(k + 1) % 3];
          const float side = (b.x - a.x) * (y + 0.5f - a.y) - (b.y - a.y) * (x + 0.5f - a.x);
          is_inside = is_inside && side < -1e-3f;  // clockwise where rows go down; not on its side
        }
        if (is_inside) at[static_cast<size_t>(y) * size + x].push_back(triangle);
      }
    }
  }
  return at;
}

TEST(TextureAtlasTest, TrianglesLieInFewChartsWithoutOverlaps) {
  constexpr int kSize = 256;
  const MeshExport made = TexturedTorus(kSize);
  const TextureLayout& layout = made.texture.layout;
  std::multiset<uint32_t> in_charts;
  for (const MeshChart& chart : layout.charts)
    in_charts.insert(chart.triangles.begin(), chart.triangles.end());
  ASSERT_EQ(in_charts.size(), made.mesh.n_triangles());
  EXPECT_EQ(std::set<uint32_t>(in_charts.begin(), in_charts.end()).size(), in_charts.size());
  EXPECT_LT(layout.charts.size(), 70u);
  EXPECT_LT(layout.vertices.size(), 1.7 * made.mesh.positions.size());
  for (uint32_t i = 0; i < made.mesh.n_triangles(); ++i) EXPECT_GT(AreaInPicture(layout, i), 0);
  size_t n_covered = 0;
  for (const auto& triangles : TrianglesAtTexels(layout, kSize)) {
    EXPECT_LE(triangles.size(), 1u);
    n_covered += !triangles.empty();
  }
  EXPECT_GT(n_covered, 0.25 * kSize * kSize);
}

TEST(TextureAtlasTest, ChartsLieInTheirPlacesWithGutters) {
  constexpr int kSize = 256;
  const TextureLayout layout = TexturedTorus(kSize).texture.layout;
  std::vector<int> owners(kSize * kSize);
  for (size_t i = 0; i < layout.charts.size(); ++i) {
    const ChartPlace& place = layout.places[i];
    for (int y = place.y; y < place.y + place.height; ++y) {
      for (int x = place.x; x < place.x + place.width; ++x) {
        ASSERT_TRUE(x >= 0 && y >= 0 && x < kSize && y < kSize);
        EXPECT_EQ(owners[y * kSize + x]++, 0);
      }
    }
    for (const uint32_t triangle : layout.charts[i].triangles) {
      for (size_t k = 0; k < 3; ++k) {
        const TextureVertex& vertex = layout.vertices[layout.indices[3 * triangle + k]];
        EXPECT_GE(vertex.x, place.x + layout.gutter + 0.499f);
        EXPECT_GE(vertex.y, place.y + layout.gutter + 0.499f);
        EXPECT_LE(vertex.x, place.x + place.width - layout.gutter - 0.499f);
        EXPECT_LE(vertex.y, place.y + place.height - layout.gutter - 0.499f);
      }
    }
  }
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

// In a picture of a quarter of the size colors are still the field's: nothing of other charts, or
// of texels without a color, comes in.
TEST(TextureAtlasTest, SmallerPicturesHaveTheChartsColors) {
  MeshExport made = TexturedTorus(512);
  MeshTexture& texture = made.texture;
  for (int half = 0; half < 2; ++half) {
    const ImageU8 large = texture.picture;
    texture.picture = {large.width / 2, large.height / 2, 3, {}};
    for (int y = 0; y < texture.picture.height; ++y) {
      for (int x = 0; x < texture.picture.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          int sum = 2;
          for (int k = 0; k < 4; ++k) sum += large.Pixel(2 * x + k % 2, 2 * y + k / 2)[c];
          texture.picture.pixels.push_back(static_cast<uint8_t>(sum / 4));
        }
      }
    }
    for (TextureVertex& vertex : texture.layout.vertices) vertex.x *= 0.5f, vertex.y *= 0.5f;
  }
  float largest = 0;
  for (const TexturePoint& point : TexturePoints(made.mesh, texture, 3)) {
    largest = std::max(
        largest, LargestDifference(point.color, point.position * 0.5f + Vec3{0.5f, 0.5f, 0.5f}));
  }
  EXPECT_LT(largest, 0.04f);
}

TEST(TextureAtlasTest, BytesDoNotDependOnThreads) {
  EXPECT_TRUE(TexturedTorus(128, 1).texture.picture.pixels ==
              TexturedTorus(128, 3).texture.picture.pixels);
}

// A ramp that winds around an axis passes over itself: it takes more than one chart.
TEST(TextureAtlasTest, AChartDoesNotPassOverItself) {
  TriangleMesh mesh;
  constexpr uint32_t kSteps = 60;  // of two turns
  for (uint32_t i = 0; i <= kSteps; ++i) {
    const float angle = 4 * 3.14159f * static_cast<float>(i) / kSteps;
    for (const float radius : {0.5f, 1.0f}) {
      mesh.positions.push_back({radius * std::cos(angle), radius * std::sin(angle),
                                0.1f * static_cast<float>(i) / kSteps});
      mesh.normals.push_back({0, 0, 1});
    }
    if (i == 0) continue;
    const uint32_t a = 2 * i - 2;
    for (const uint32_t k : {a, a + 1, a + 3, a, a + 3, a + 2}) mesh.indices.push_back(k);
  }
  const auto layout = LayOut(mesh, 256);
  ASSERT_THAT(layout, IsOk());
  EXPECT_GE(layout->charts.size(), 2u);
  size_t n_covered = 0;
  for (const auto& triangles : TrianglesAtTexels(*layout, 256)) {
    EXPECT_LE(triangles.size(), 1u);
    n_covered += !triangles.empty();
  }
  EXPECT_GT(n_covered, 1000u);
}

TEST(TextureAtlasTest, TrianglesOfAllShapesFitOrAreRefused) {
  TriangleMesh mesh;
  mesh.positions = {{0, 0, 0}, {1, 0, 0}, {0, 1e-6f, 0}, {0.5f, 100, 0}};
  mesh.normals.assign(4, {0, 0, 1});
  mesh.indices = {0, 1, 2, 0, 1, 3, 1, 1, 1};
  const auto layout = LayOut(mesh, 64);
  ASSERT_THAT(layout, IsOk());
  EXPECT_GE(std::abs(AreaInPicture(*layout, 1)), 10);
  EXPECT_THAT(LayOut(TriangleMesh(), 64), IsOk());
  // Apart from each other, each triangle is a chart.
  TriangleMesh apart;
  for (uint32_t i = 0; i < 442; ++i) {
    const auto along = static_cast<float>(2 * i);
    for (const Vec3 p : {Vec3{along, 0, 0}, Vec3{along + 1, 0, 0}, Vec3{along, 1, 0}}) {
      apart.indices.push_back(static_cast<uint32_t>(apart.positions.size()));
      apart.positions.push_back(p);
      apart.normals.push_back({0, 0, 1});
    }
  }
  EXPECT_THAT(LayOut(apart, 64),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "holds at most 441 charts, the mesh of 442 triangles has 442: take "
                       "--texture 66, or about --triangles 396"));
  EXPECT_THAT(LayOut(apart, 66), IsOk());
}

}  // namespace
}  // namespace nerf
