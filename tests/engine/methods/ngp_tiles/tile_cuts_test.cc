#include "engine/methods/ngp_tiles/tile_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

const Aabb kBox = {{-1, -1, -1}, {1, 1, 1}};

// Points in a box that is long in y and then in x.
std::vector<Vec3> LongPoints(size_t n) {
  std::vector<Vec3> points = RandomPoints(n, -1, 1, 3);
  for (Vec3& p : points) p = p * Vec3{2, 5, 1};
  return points;
}

TEST(TileCutsTest, EveryTileHasAsManyPoints) {
  const std::vector<Vec3> points = LongPoints(8000);
  for (const int n_tiles : {2, 4, 8, 16}) {
    const TileCuts cuts = TileCuts::AtMedians(n_tiles, kBox, points);
    ASSERT_EQ(cuts.n_tiles(), n_tiles);
    for (const Aabb& box : cuts.boxes()) {
      const auto n =
          std::count_if(points.begin(), points.end(), [&](Vec3 p) { return box.Contains(p); });
      EXPECT_NEAR(n, 8000.0 / n_tiles, 2);
    }
  }
}

TEST(TileCutsTest, CutsAreWhereThePointsReachFurthest) {
  const TileCuts cuts = TileCuts::AtMedians(4, kBox, LongPoints(4000));
  EXPECT_EQ(cuts.cuts()[0].axis, 1);
  EXPECT_NEAR(cuts.cuts()[0].position, 0, 0.3);
  // Halves are 5 long in y, 4 in x.
  EXPECT_EQ(cuts.cuts()[1].axis, 1);
  EXPECT_EQ(cuts.cuts()[2].axis, 1);
}

TEST(TileCutsTest, WithoutPointsTheBoxIsHalved) {
  const TileCuts cuts = TileCuts::AtMedians(4, {{0, 0, 0}, {2, 4, 1}}, {});
  EXPECT_EQ(cuts.cuts()[0], (TileCut{1, 2}));
  EXPECT_EQ(cuts.cuts()[1], (TileCut{0, 1}));
  EXPECT_EQ(cuts.cuts()[2], (TileCut{0, 1}));
}

TEST(TileCutsTest, WithoutAMarginOneTileCountsAndItIsTheOneWhoseBoxHasThePoint) {
  const TileCuts cuts = TileCuts::AtMedians(8, kBox, LongPoints(1000));
  for (const Vec3 p : RandomPoints(2000, -6, 6, 5)) {
    float weights[8];
    cuts.Weights(p, 0, weights);
    for (int tile = 0; tile < 8; ++tile)
      EXPECT_EQ(weights[tile], cuts.boxes()[tile].Contains(p) ? 1.0f : 0.0f);
    EXPECT_EQ(weights[cuts.TileAt(p)], 1);
  }
}

TEST(TileCutsTest, InTheMarginTilesPassIntoEachOther) {
  const TileCuts cuts = TileCuts::AtMedians(8, kBox, LongPoints(1000));
  constexpr float kMargin = 0.5f;
  for (const Vec3 p : RandomPoints(2000, -6, 6, 6)) {
    float weights[8], beside[8];
    cuts.Weights(p, kMargin, weights);
    EXPECT_NEAR(std::accumulate(weights, weights + 8, 0.0f), 1, 1e-5);
    cuts.Weights(p + Vec3{1e-3f, 1e-3f, 1e-3f}, kMargin, beside);
    for (int tile = 0; tile < 8; ++tile) {
      EXPECT_NEAR(weights[tile], beside[tile], 5e-3) << "no jump";
      // A tile counts nowhere beyond its margin.
      const Aabb& box = cuts.boxes()[tile];
      const Vec3 more = Vec3{kMargin, kMargin, kMargin} * 1.001f;
      if (!Aabb{box.min - more, box.max + more}.Contains(p)) {
        EXPECT_EQ(weights[tile], 0);
      }
    }
  }
  const TileCuts two(std::vector<TileCut>{{0, 1}});
  float weights[2];
  two.Weights({1, 7, 7}, kMargin, weights);
  EXPECT_EQ(weights[0], 0.5f);
  two.Weights({1.25f, 7, 7}, kMargin, weights);
  EXPECT_EQ(weights[1], 0.75f);
  two.Weights({1.6f, 7, 7}, kMargin, weights);
  EXPECT_EQ(weights[1], 1);
}

TEST(TileCutsTest, RaysMeetABoxBetweenTheirEnds) {
  const Ray along{{-5, 0, 0}, {1, 0, 0}, 0, 1e10f};
  float enter = 0, exit = 0;
  EXPECT_TRUE(Meets(along, kBox, &enter, &exit));
  EXPECT_EQ(enter, 4);
  EXPECT_EQ(exit, 6);
  EXPECT_TRUE(Meets({{0, 0, 0}, {0, 0, 1}, 0, 1e10f}, kBox)) << "from inside";
  EXPECT_FALSE(Meets({{-5, 0, 0}, {1, 0, 0}, 0, 3.9f}, kBox)) << "ends before";
  EXPECT_FALSE(Meets({{-5, 0, 0}, {1, 0, 0}, 6.1f, 1e10f}, kBox)) << "begins behind";
  EXPECT_FALSE(Meets({{-5, 2, 0}, {1, 0, 0}, 0, 1e10f}, kBox)) << "passes beside";
  EXPECT_FALSE(Meets({{-5, 0, 0}, {-1, 0, 0}, 0, 1e10f}, kBox)) << "leads away";
  EXPECT_FALSE(Meets(along, TileReach({{7, -1, -1}, {9, 1, 1}}, 0.5f, kBox))) << "empty box";
  // An outer tile ends with the scene.
  const TileCuts two(std::vector<TileCut>{{0, 0}});
  EXPECT_EQ(TileReach(two.boxes()[1], 0.25f, kBox), (Aabb{{-0.25f, -1, -1}, {1, 1, 1}}));
}

}  // namespace
}  // namespace nerf
