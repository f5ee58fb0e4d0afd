#include "engine/base/local_origin.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nerf {
namespace {

constexpr Vec3d kZero = {0, 0, 0};

TEST(LocalOriginTest, PositionsFarFromZeroHaveARoundOneBelowTheirExtent) {
  EXPECT_EQ(LocalOrigin({}), kZero);
  const Vec3d flight[] = {{441512.2, 5121901, 2345}, {441583.7, 5121990, 2349}};
  EXPECT_EQ(LocalOrigin(flight), (Vec3d{441550, 5121950, 2350}));
  EXPECT_EQ(OriginText(LocalOrigin(flight)), "441550, 5121950, 2350");
  const Vec3d kilometers[] = {{-441.53, 5121.901, 0.012}, {-441.51, 5121.92, 0.01}};
  EXPECT_EQ(OriginText(LocalOrigin(kilometers), " "), "-441.52 5121.91 0.01");
}

TEST(LocalOriginTest, PositionsThatFloatsHoldHaveNone) {
  const Vec3d near[] = {{-40, 3, 1}, {60, 2, 1}}, beside[] = {{800, 0, 0}, {810, 0, 0}};
  EXPECT_EQ(LocalOrigin(near), kZero);
  EXPECT_EQ(LocalOrigin(beside), kZero);
  const Vec3d further[] = {{900, 0, 0}, {910, 0, 0}};
  EXPECT_EQ(LocalOrigin(further), (Vec3d{910, 0, 0}));
}

TEST(LocalOriginTest, IsFiniteForTheSmallestNumbers) {
  const Vec3d tiny[] = {{1e-305, 0, 0}, {1.0001e-305, 0, 0}};
  for (const double x : LocalOrigin(tiny)) EXPECT_LE(std::abs(x), 1e-300);
}

TEST(LocalOriginTest, PositionsInOnePlaceHaveOneIfThatIsFar) {
  const Vec3d room[] = {{120, 40, 1.6}, {120, 40, 1.6}};
  EXPECT_EQ(LocalOrigin(room), kZero);
  const Vec3d tower[] = {{441547.25, 5121946.5, 2345}};
  EXPECT_EQ(LocalOrigin(tower), (Vec3d{441547, 5121947, 2345}));
}

}  // namespace
}  // namespace nerf
