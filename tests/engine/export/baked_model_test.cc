#include "engine/export/files/baked_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "engine/export/files/seen_cells.h"
#include "engine/export/files/seen_color.h"
#include "engine/export/mesh/density_layers.h"
#include "tests/engine/export/shapes.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Looks along -z from above the scene.
std::vector<Camera> CameraAbove() {
  Camera camera;
  camera.width = camera.height = 100;
  camera.fl_x = camera.fl_y = 100;
  camera.cx = camera.cy = 50;
  camera.camera_to_world.m[2][3] = 3;
  return {camera};
}

absl::StatusOr<BakePlan> Planned(const MarchedModel& model, const std::optional<CropBox>& crop = {},
                                 const std::stop_token& stop = {}, int n_threads = 2) {
  ThreadPool pool(n_threads);
  return PlanBaking(model, ShapeGeometry(), CameraAbove(), crop, 0.03f, &pool, stop);
}

absl::StatusOr<BakedModel> Baked(const MarchedModel& model, const std::optional<CropBox>& crop = {},
                                 int n_threads = 2) {
  NERF_ASSIGN_OR_RETURN(const BakePlan plan, Planned(model, crop, {}, n_threads));
  ThreadPool pool(n_threads);
  return BakeModel(model, plan, &pool, {}, [](std::string_view, double) {});
}

// The baked model at a point of level 0, as the viewer's shader mixes its nodes; nullopt in empty
// cells.
struct BakedPoint {
  float sigma = 0;
  SeenColor color;
};
std::optional<BakedPoint> At(const BakedModel& baked, Vec3 point) {
  if (!IsOccupied(baked.grid, point)) return std::nullopt;
  const int quarter = baked.grid.resolution / 4, in_block = 4 * baked.nodes_per_cell;
  const float spacing =
      baked.grid.box.Size().x / static_cast<float>(baked.grid.resolution * baked.nodes_per_cell);
  const Vec3 at = (point - baked.grid.box.min) * (1 / spacing);
  int block[3];
  for (int axis = 0; axis < 3; ++axis) block[axis] = static_cast<int>(at[axis]) / in_block;
  const int index = (block[2] * quarter + block[1]) * quarter + block[0];
  const auto nodes_of = [&](int i) {
    return BlockNodes(baked.grid.occupied_blocks[i], baked.nodes_per_cell);
  };
  size_t first = 0;
  for (int i = 0; i < index; ++i) first += nodes_of(i).size();
  const std::vector<int> nodes = nodes_of(index);
  BakedPoint sum;
  float log_density = 0;
  for (int corner = 0; corner < 8; ++corner) {
    int node = 0;
    float weight = 1;
    for (int axis = 2; axis >= 0; --axis) {
      const float within = at[axis] - static_cast<float>(block[axis] * in_block);
      const int low = std::min(static_cast<int>(within), in_block - 1), far = corner >> axis & 1;
      node = node * (in_block + 1) + low + far;
      const float share = within - static_cast<float>(low);
      weight *= far == 1 ? share : 1 - share;
    }
    const auto found = std::lower_bound(nodes.begin(), nodes.end(), node);
    const size_t place = first + static_cast<size_t>(found - nodes.begin());
    log_density += weight * kBakedDensity.Value(baked.base[4 * place + 3]);
    for (int channel = 0; channel < 3; ++channel) {
      sum.color.base[channel] += weight * kBakedBase.Value(baked.base[4 * place + channel]);
      for (size_t axis = 0; axis < 3; ++axis) {
        const size_t slope = 3 * (axis * baked.n_nodes() + place) + channel;
        sum.color.slope[axis][channel] += weight * kBakedSlope.Value(baked.slopes[slope]);
      }
    }
  }
  sum.sigma = std::exp(log_density) / spacing;
  return sum;
}

TEST(BakedModelTest, NodesHaveTheDensityAndColorOfTheirPlaces) {
  const Shape sphere = Sphere({0.1f, 0, 0}, 0.5f);
  const auto baked = Baked(*ModelOfShape(sphere));
  ASSERT_THAT(baked, IsOk());
  EXPECT_EQ(baked->nodes_per_cell, 3);
  EXPECT_EQ(baked->empty_distances, EmptyDistances(baked->grid));
  const ShapeField field(sphere, DefaultLevel(ShapeGeometry()), 2.0f / 256);
  const auto workspace = field.NewWorkspace(1);
  const Vec3 down{0, 0, -1};
  int n = 0;
  for (float x = -0.3f; x < 0.5f; x += 0.0173f) {
    for (float offset = -0.02f; offset < 0.02f; offset += 0.0071f) {
      // Above, where the camera sees the sphere.
      const Vec3 p{x, 0.11f, std::sqrt(0.25f - (x - 0.1f) * (x - 0.1f) - 0.0121f) + offset};
      float sigma = 0;
      field.Density(1, &p, &sigma, workspace.get());
      const auto found = At(*baked, p);
      ASSERT_TRUE(found.has_value());
      // The largest steps of 8 bits are 2%; the sphere is round between nodes.
      EXPECT_NEAR(std::log(found->sigma), std::log(sigma), 0.1f);
      const Vec3 color = found->color.Along(down);
      EXPECT_NEAR(color.x, 0.5f + 0.5f * p.x, 0.02f);
      EXPECT_NEAR(color.z, 0.5f + 0.5f * p.z, 0.02f);
      ++n;
    }
  }
  EXPECT_GT(n, 200);
  EXPECT_FALSE(At(*baked, {0.9f, 0.9f, 0.9f}).has_value());
}

TEST(BakedModelTest, FineGridsAreBakedInCellsOfTwiceTheSide) {
  const Shape sphere = Sphere({}, 0.5f);
  const auto coarse = ModelOfShape(sphere);
  const int coarse_resolution = coarse->grid().resolution;
  OccupancyGrid fine = FullOccupancyGrid(coarse->grid().box, 1, 256);
  std::fill(fine.occupied_blocks.begin(), fine.occupied_blocks.end(), 0);
  const int scale = 256 / coarse_resolution;
  for (int i = 0; i < 256 * 256 * 256; ++i) {
    const int x = i % 256, y = i / 256 % 256, z = i / 65536;
    if (!coarse->grid().Occupied(0, x / scale, y / scale, z / scale)) continue;
    fine.occupied_blocks[(z / 4 * 64 + y / 4) * 64 + x / 4] |=
        uint64_t{1} << (x % 4 + 4 * (y % 4) + 16 * (z % 4));
  }
  const SceneGeometry geometry = ShapeGeometry();
  const MarchedModel model("test",
                           std::make_unique<ShapeField>(sphere, DefaultLevel(geometry), 2.0f / 256),
                           std::move(fine), {geometry.step, 0}, 0);
  const auto baked = Baked(model);
  ASSERT_THAT(baked, IsOk());
  EXPECT_EQ(baked->grid.resolution, 128);
  const ShapeField field(sphere, DefaultLevel(geometry), 2.0f / 256);
  const auto workspace = field.NewWorkspace(1);
  for (float x = -0.3f; x < 0.3f; x += 0.0173f) {
    const Vec3 p{x, 0.11f, std::sqrt(0.25f - x * x - 0.0121f)};
    float sigma = 0;
    field.Density(1, &p, &sigma, workspace.get());
    const auto found = At(*baked, p);
    ASSERT_TRUE(found.has_value()) << x;
    EXPECT_NEAR(std::log(found->sigma), std::log(sigma), 0.1f);
    EXPECT_NEAR(found->color.Along({0, 0, -1}).x, 0.5f + 0.5f * p.x, 0.02f);
  }
  EXPECT_FALSE(At(*baked, {0.9f, 0.9f, 0.9f}).has_value());
}

TEST(BakedModelTest, WhatHoldsNothingOrIsNotSeenIsLeftOut) {
  const Shape sphere = Sphere({}, 0.5f);
  const SceneGeometry geometry = ShapeGeometry();
  // Its density ends within the outermost of the cells that the grid calls occupied.
  const MarchedModel model("test", std::make_unique<ShapeField>(sphere, 30.0f, 1e-3f),
                           ModelOfShape(sphere)->grid(), {geometry.step, 0}, 0);
  const auto baked = Baked(model);
  ASSERT_THAT(baked, IsOk());
  size_t n_nodes = 0;
  for (size_t i = 0; i < baked->grid.occupied_blocks.size(); ++i) {
    const uint64_t bits = baked->grid.occupied_blocks[i];
    EXPECT_EQ(bits & ~model.grid().occupied_blocks[i], 0u);
    n_nodes += BlockNodes(bits, baked->nodes_per_cell).size();
  }
  EXPECT_EQ(baked->n_nodes(), n_nodes);
  EXPECT_EQ(baked->slopes.size(), 9 * n_nodes);
  EXPECT_TRUE(At(*baked, {0, 0, 0.49f}).has_value());
  for (const Vec3 left_out : {Vec3{0, 0, 0}, Vec3{0, 0, -0.49f}, Vec3{0, 0, 0.56f}}) {
    EXPECT_TRUE(IsOccupied(model.grid(), left_out));
    EXPECT_FALSE(At(*baked, left_out).has_value()) << left_out.z;
  }
}

TEST(BakedModelTest, NodesOfABlockAreThoseOfItsCells) {
  EXPECT_EQ(BlockNodes(0, 2).size(), 0u);
  EXPECT_EQ(BlockNodes(1, 2).size(), 27u);
  EXPECT_EQ(BlockNodes(3, 2).size(), 45u);
  EXPECT_EQ(BlockNodes(~uint64_t{0}, 2).size(), 729u);
  EXPECT_EQ(BlockNodes(2, 1), (std::vector<int>{1, 2, 6, 7, 26, 27, 31, 32}));
}

TEST(BakedModelTest, BytesDoNotDependOnThreads) {
  const auto one = Baked(*ModelOfShape(Torus(0.6f, 0.2f)), {}, 1),
             three = Baked(*ModelOfShape(Torus(0.6f, 0.2f)), {}, 3);
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(three, IsOk());
  EXPECT_TRUE(one->base == three->base);
  EXPECT_TRUE(one->slopes == three->slopes);
}

TEST(BakedModelTest, CropLeavesOutWhatItDoesNotReach) {
  const auto model = ModelOfShape(Sphere({}, 0.5f));
  const CropBox crop{{0.5f, 0, 0}, {{2, 0, 0}, {0, 1, 0}, {0, 0, 1}}};  // x from 0 to 1
  const auto whole = Baked(*model), baked = Baked(*model, crop);
  ASSERT_THAT(whole, IsOk());
  ASSERT_THAT(baked, IsOk());
  EXPECT_TRUE(At(*baked, {0.1f, 0, 0.48f}).has_value());
  EXPECT_TRUE(At(*whole, {-0.1f, 0, 0.48f}).has_value());
  EXPECT_FALSE(At(*baked, {-0.1f, 0, 0.48f}).has_value());
  const CropBox beside{{5, 5, 5}, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  EXPECT_EQ(Baked(*model, beside).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BakedModelTest, PlanIsOfTheFinestNodesThatFit) {
  // Haze: every cell in the camera's view is seen.
  const auto planned = [](int resolution) {
    const SceneGeometry geometry = ShapeGeometry();
    return Planned({"test",
                    std::make_unique<ShapeField>(Sphere({}, 9), 1.0f, 1e3f),
                    FullOccupancyGrid(geometry.box, 1, resolution),
                    {geometry.step, 0},
                    0});
  };
  struct Case {
    int resolution, nodes_per_cell;
  };
  for (const Case& wanted : {Case{32, 3}, Case{64, 2}, Case{96, 1}}) {
    const auto plan = planned(wanted.resolution);
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->nodes_per_cell, wanted.nodes_per_cell) << plan->n_cells;
  }
  const absl::Status refused = planned(128).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("take a --crop"));
  const auto model = ModelOfShape(Sphere({}, 0.5f));
  const auto plan = Planned(*model);
  ASSERT_THAT(plan, IsOk());
  const auto baked = Baked(*model);
  EXPECT_GE(plan->n_bytes, baked->base.size() + baked->slopes.size());
}

TEST(BakedModelTest, StopIsNoticed) {
  std::stop_source stop;
  stop.request_stop();
  const auto model = ModelOfShape(Sphere({}, 0.5f));
  EXPECT_EQ(Planned(*model, {}, stop.get_token()).status().code(), absl::StatusCode::kCancelled);
  const auto plan = Planned(*model);
  ASSERT_THAT(plan, IsOk());
  ThreadPool pool(2);
  EXPECT_EQ(BakeModel(*model, *plan, &pool, stop.get_token(), [](std::string_view, double) {})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

TEST(SeenCellsTest, CamerasSeeTheNearSideAlone) {
  const auto model = ModelOfShape(Sphere({}, 0.5f));
  ThreadPool pool(2);
  const SeenCells seen(*model, ShapeGeometry(), CameraAbove(), 0.03f, &pool, {});
  const auto at = [](float x) { return static_cast<int>((x + 1) * 32); };
  EXPECT_EQ(seen.CamerasOf(0, at(0), at(0), at(0.49f)), 1u);
  EXPECT_EQ(seen.CamerasOf(0, at(0), at(0), at(0)), 0u);
  EXPECT_EQ(seen.CamerasOf(0, at(0), at(0), at(-0.49f)), 0u);
  EXPECT_EQ(seen.CamerasOf(0, -1, 64, 3), 0u);
}

TEST(SeenColorTest, LinearColorsAreFound) {
  const SeenColor wanted{{0.5f, 0.4f, 0.3f}, {{0.1f, 0, -0.2f}, {0, 0.05f, 0}, {0.2f, 0.1f, 0}}};
  std::vector<Vec3> directions, colors;
  for (int i = 0; i < 40; ++i) {
    const auto angle = static_cast<float>(i);
    directions.push_back(Normalized({std::cos(angle), std::sin(angle), std::sin(3 * angle)}));
    colors.push_back(wanted.Along(directions.back()));
  }
  const SeenColor fit = FitSeenColor(directions, colors);
  for (const Vec3& direction : directions) {
    EXPECT_LT(Norm(fit.Along(direction) - wanted.Along(direction)), 0.03f);
  }
  // From one side the color is the one seen there; slopes that nothing tells stay small.
  const SeenColor one = FitSeenColor(std::span(directions).first(1), std::span(colors).first(1));
  EXPECT_LT(Norm(one.Along(directions[0]) - colors[0]), 1e-5f);
  EXPECT_EQ(one.slope[0], (Vec3{0, 0, 0}));
}

}  // namespace
}  // namespace nerf
