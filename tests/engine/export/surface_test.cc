#include "engine/export/mesh/surface.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/philox.h"
#include "tests/engine/export/shapes.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

bool Continue(int) { return false; }

// Points one apart, from 0.
SampleGrid UnitGrid(int x, int y, int z) {
  SampleGrid grid;
  grid.size[0] = x;
  grid.size[1] = y;
  grid.size[2] = z;
  grid.cell = 1;
  return grid;
}

LayerSource Values(const SampleGrid& grid, const std::function<float(int, int, int)>& value) {
  return [=](int z, std::vector<float>* values) {
    values->clear();
    for (int y = 0; y < grid.size[1]; ++y) {
      for (int x = 0; x < grid.size[0]; ++x) values->push_back(value(x, y, z));
    }
  };
}

TEST(SurfaceTest, OnePointInsideIsAClosedSurfaceAroundIt) {
  const SampleGrid grid = UnitGrid(3, 3, 3);
  const auto mesh = ExtractSurface(
      grid,
      Values(grid, [](int x, int y, int z) { return x == 1 && y == 1 && z == 1 ? 0.25f : -0.75f; }),
      Continue);
  ASSERT_THAT(mesh, IsOk());
  // Seven edges lead up from a point and seven down.
  EXPECT_EQ(mesh->positions.size(), 14u);
  EXPECT_TRUE(IsClosed(*mesh));
  EXPECT_EQ(EulerNumber(*mesh), 2);
  EXPECT_GT(VolumeOf(*mesh), 0);
  for (const Vec3& p : mesh->positions) {
    for (int axis = 0; axis < 3; ++axis) {
      const float off = std::abs(p[axis] - 1);
      EXPECT_TRUE(off < 1e-6f || std::abs(off - 0.25f) < 1e-6f) << p.x << " " << p.y << " " << p.z;
    }
  }
}

TEST(SurfaceTest, AnyPatternOfPointsGivesAClosedSurface) {
  const SampleGrid grid = UnitGrid(9, 7, 8);
  const auto noise = [&](int x, int y, int z) {
    if (x == 0 || y == 0 || z == 0 || x == 8 || y == 6 || z == 7) return -0.5f;
    const uint32_t bits = Philox4x32({static_cast<uint32_t>(x + 16 * y + 256 * z), 0, 0, 0}, 7)[0];
    return static_cast<float>(bits) * 0x1p-32f - 0.5f;
  };
  const auto mesh = ExtractSurface(grid, Values(grid, noise), Continue);
  ASSERT_THAT(mesh, IsOk());
  EXPECT_GT(mesh->n_triangles(), 500u);
  EXPECT_TRUE(IsClosed(*mesh));
  EXPECT_GT(VolumeOf(*mesh), 0);
}

TEST(SurfaceTest, ValuesOfExactlyZeroDoNotMakeVerticesFallTogether) {
  const SampleGrid grid = UnitGrid(5, 5, 5);
  const auto mesh = ExtractSurface(
      grid,
      Values(grid, [](int x, int y, int z) { return x == 2 && y == 2 && z == 2 ? 1.0f : 0.0f; }),
      Continue);
  ASSERT_THAT(mesh, IsOk());
  for (size_t i = 0; i < mesh->positions.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(mesh->positions[i], mesh->positions[j]);
  }
}

TEST(SurfaceTest, StopsWhereItIsToldTo) {
  const SampleGrid grid = UnitGrid(3, 3, 9);
  int n_asked = 0;
  const auto mesh = ExtractSurface(
      grid,
      [&](int, std::vector<float>* values) {
        ++n_asked;
        values->assign(9, -1);
      },
      [](int n_layers) { return n_layers == 4; });
  EXPECT_EQ(mesh.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(n_asked, 4);
}

TEST(SurfaceTest, FieldOfNoiseIsRefusedBeforeItFillsTheMemory) {
  const SampleGrid grid = UnitGrid(300, 300, 300);
  int n_layers_read = 0;
  const auto mesh = ExtractSurface(
      grid, Values(grid, [](int x, int y, int z) { return (x + y + z) % 2 == 0 ? 0.5f : -0.5f; }),
      [&](int n_layers) {
        n_layers_read = n_layers;
        return false;
      });
  EXPECT_EQ(mesh.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(n_layers_read, 20);
}

}  // namespace
}  // namespace nerf
