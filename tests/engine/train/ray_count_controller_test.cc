#include "engine/train/ray_count_controller.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nerf {
namespace {

StepResult Result(int n_rays, double trained_per_ray, double marched_per_ray) {
  StepResult result;
  result.n_rays = n_rays;
  result.n_trained = std::llround(n_rays * trained_per_ray);
  result.n_marched = std::llround(n_rays * marched_per_ray);
  return result;
}

constexpr int kTarget = 16384;

int Settled(RayCountController* controller, double trained_per_ray, double marched_per_ray,
            int target = kTarget) {
  for (int i = 0; i < 100; ++i) {
    controller->Update(Result(controller->n_rays(), trained_per_ray, marched_per_ray), target);
  }
  return controller->n_rays();
}

TEST(RayCountControllerTest, SettlesWhereAStepTrainsTheTarget) {
  RayCountController controller({256, 65536});
  EXPECT_EQ(controller.n_rays(), 256);
  EXPECT_EQ(Settled(&controller, 8, 16), 2048);
  EXPECT_EQ(Settled(&controller, 100, 100), 128);  // 163 rounded down to a multiple of 64
}

TEST(RayCountControllerTest, FollowsATargetThatGrows) {
  RayCountController controller({256, 65536});
  EXPECT_EQ(Settled(&controller, 8, 16), 2048);
  EXPECT_EQ(Settled(&controller, 8, 16, 4 * kTarget), 8192);
}

TEST(RayCountControllerTest, MarchedSamplesAreCappedAtSixteenTargets) {
  RayCountController controller({256, 65536});
  // One trained sample a ray asks for 16384 rays; 64 marched ones allow 16 * 16384 / 64.
  EXPECT_EQ(Settled(&controller, 1, 64), 4096);
}

TEST(RayCountControllerTest, GrowsAtMostTwofoldAStep) {
  RayCountController controller({256, 65536});
  controller.Update(Result(256, 1, 1), 1 << 20);
  EXPECT_EQ(controller.n_rays(), 512);
  controller.Update(Result(512, 1, 1), 1 << 20);
  EXPECT_EQ(controller.n_rays(), 1024);
}

TEST(RayCountControllerTest, StaysBetweenSixtyFourAndTheMaximum) {
  RayCountController controller({256, 1000});
  EXPECT_EQ(Settled(&controller, 100000, 100000), 64);
  EXPECT_EQ(Settled(&controller, 0.001, 0.001), 960);  // the multiple of 64 below 1000
  EXPECT_EQ(RayCountController({256, 16}).n_rays(), 16);
  EXPECT_EQ(RayCountController({16, 65536}).n_rays(), 64);
}

TEST(RayCountControllerTest, StepsWithoutSamplesGrowTheCountAndDivideByNothing) {
  RayCountController controller({256, 4096});
  controller.Update(Result(256, 0, 0), kTarget);
  EXPECT_EQ(controller.n_rays(), 512);
  controller.Update(StepResult{}, kTarget);  // not even rays
  EXPECT_EQ(controller.n_rays(), 1024);
  EXPECT_EQ(Settled(&controller, 0, 0), 4096);
}

TEST(RayCountControllerTest, RestoredControllerContinuesAlike) {
  RayCountController a({256, 65536});
  for (int i = 0; i < 7; ++i) a.Update(Result(a.n_rays(), 10.0 + i, 30), kTarget);
  RayCountController b({256, 65536});
  b.Restore(a.state());
  EXPECT_EQ(a.n_rays(), b.n_rays());
  for (int i = 0; i < 7; ++i) {
    a.Update(Result(a.n_rays(), 20.0 - i, 30), kTarget);
    b.Update(Result(b.n_rays(), 20.0 - i, 30), kTarget);
    EXPECT_EQ(a.state(), b.state());
  }
}

TEST(RayCountControllerTest, HostileStateIsClamped) {
  RayCountController controller({256, 4096});
  controller.Restore({1 << 24, 0, 0, 0});
  EXPECT_EQ(controller.n_rays(), 4096);
}

}  // namespace
}  // namespace nerf
