#include "engine/base/contraction.h"

#include "gtest/gtest.h"

namespace nerf {
namespace {

TEST(ContractionTest, ValuesWorkedOutByHand) {
  const Vec3 inside{0.5f, -0.25f, 1};
  EXPECT_EQ(Contract(Contraction::kLinf, inside), inside);
  // (2 - 1/4) / 4 = 0.4375.
  EXPECT_EQ(Contract(Contraction::kLinf, {4, -2, 0}), (Vec3{1.75f, -0.875f, 0}));
  // Length 5: (2 - 1/5) / 5 = 0.36.
  const Vec3 ball = Contract(Contraction::kL2, {3, 0, -4});
  EXPECT_NEAR(ball.x, 1.08f, 1e-6f);
  EXPECT_NEAR(ball.z, -1.44f, 1e-6f);
  // Inside of the unit cube, outside of the unit ball.
  EXPECT_NE(Contract(Contraction::kL2, {1, 1, 0}), (Vec3{1, 1, 0}));
}

TEST(ContractionTest, AllOfSpaceLiesBelowTwoAndComesBack) {
  for (const Contraction kind : {Contraction::kLinf, Contraction::kL2}) {
    for (const float distance : {0.1f, 0.999f, 1.001f, 3.0f, 100.0f, 1e9f}) {
      const Vec3 p = Vec3{0.3f, -0.8f, 0.52f} * distance;
      const Vec3 contracted = Contract(kind, p);
      EXPECT_LE(ContractionNorm(kind, contracted), 2);
      if (distance > 1000) continue;  // floats near 2 do not tell such distances apart
      const Vec3 back = Uncontract(kind, contracted);
      for (int axis = 0; axis < 3; ++axis)
        EXPECT_NEAR(back[axis], p[axis], 1e-4f * distance * distance) << distance;
    }
  }
}

TEST(ContractionTest, BackwardAgreesWithCentralDifferences) {
  const Vec3 grad{0.7f, -0.3f, 0.5f};
  for (const Contraction kind : {Contraction::kLinf, Contraction::kL2}) {
    for (const Vec3 p : {Vec3{0.3f, -0.2f, 0.1f}, Vec3{0.4f, -2.5f, 1.1f}, Vec3{3, 1, -0.5f}}) {
      const Vec3 found = ContractionBackward(kind, p, grad);
      for (int axis = 0; axis < 3; ++axis) {
        constexpr float kStep = 1e-2f;
        Vec3 low = p, high = p;
        low[axis] -= kStep;
        high[axis] += kStep;
        const float slope = Dot(Contract(kind, high) - Contract(kind, low), grad) / (2 * kStep);
        EXPECT_NEAR(found[axis], slope, 1e-4f) << axis;
      }
    }
  }
}

}  // namespace
}  // namespace nerf
