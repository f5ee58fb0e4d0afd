#include "engine/base/encoded_space.h"

#include "gtest/gtest.h"

namespace nerf {
namespace {

// Looks along +y from (1, 0, 0), from depth 2 on, as wide as deep.
constexpr Frustum kFrustum{{1, 0, 0}, {1, 0, 0}, {0, 0, 1}, {0, 1, 0}, 2, 0.5f};

void ExpectNear(Vec3 found, Vec3 expected, float error) {
  for (int axis = 0; axis < 3; ++axis) EXPECT_NEAR(found[axis], expected[axis], error) << axis;
}

TEST(EncodedSpaceTest, PerspectiveHasDirectionsAndInverseDepths) {
  const EncodedSpace space{.kind = Contraction::kPerspective, .frustum = kFrustum};
  ExpectNear(space.ToUnit({1, 2, 0}), {0.5f, 0.5f, 0}, 1e-6f);
  ExpectNear(space.ToUnit({1, 4, 0}), {0.5f, 0.5f, 0.25f}, 1e-6f);
  ExpectNear(space.ToUnit({3, 4, -1}), {1, 0.25f, 0.25f}, 1e-6f);
  ExpectNear(space.ToUnit({0, 2, 0}), {0, 0.5f, 0}, 1e-6f);
  // What lies in front of where it begins, and behind the cameras, is there where it begins.
  ExpectNear(space.ToUnit({1, 1, 0.5f}), {0.5f, 0.75f, 0}, 1e-6f);
  ExpectNear(space.ToUnit({1, -5, 0.5f}), {0.5f, 0.75f, 0}, 1e-6f);
  ExpectNear(space.HorizonUnit({0.5f, 2, -1}), {0.75f, 0, 0.5f}, 1e-5f);
}

TEST(EncodedSpaceTest, WithoutAFrustumItIsTheBoxOrTheContraction) {
  const EncodedSpace box{Contraction::kNone, {-1, -2, -3}, {0.5f, 0.25f, 0.1f}};
  ExpectNear(box.ToUnit({0, 0, 2}), {0.5f, 0.5f, 0.5f}, 1e-6f);
  ExpectNear(box.Backward({0.5f, 0.5f, 0.5f}, {1, 2, 3}), {0.5f, 0.5f, 0.3f}, 1e-6f);
  const EncodedSpace ball{Contraction::kL2, {1, 1, 1}, {2, 2, 2}};
  const Vec3 p{3, 0, 1.5f};
  ExpectNear(ball.ToUnit(p), ContractedUnit(Contraction::kL2, {4, -2, 1}), 1e-6f);
  const Vec3 direction{1, -2, 3};
  ExpectNear(ball.HorizonUnit(direction), HorizonUnit(Contraction::kL2, direction), 1e-6f);
}

TEST(EncodedSpaceTest, BackwardAgreesWithCentralDifferences) {
  const Vec3 grad{0.7f, -0.3f, 0.5f};
  for (const Contraction kind :
       {Contraction::kNone, Contraction::kLinf, Contraction::kL2, Contraction::kPerspective}) {
    const EncodedSpace space{kind, {0.5f, 0, 0}, {0.5f, 0.5f, 0.5f}, kFrustum};
    // The last lies in front of where the frustum begins.
    for (const Vec3 p :
         {Vec3{1.2f, 2.5f, -0.3f}, Vec3{2, 7, 1.5f}, Vec3{-0.5f, 4, -1}, Vec3{1.3f, 1, 0.4f}}) {
      const Vec3 found = space.Backward(space.ToUnit(p), grad);
      for (int axis = 0; axis < 3; ++axis) {
        constexpr float kStep = 1e-2f;
        Vec3 low = p, high = p;
        low[axis] -= kStep;
        high[axis] += kStep;
        const float slope = Dot(space.ToUnit(high) - space.ToUnit(low), grad) / (2 * kStep);
        EXPECT_NEAR(found[axis], slope, 1e-4f) << axis;
      }
    }
  }
}

}  // namespace
}  // namespace nerf
