#include "server/rpc/services/view_pacer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nerf {
namespace {

const SteadyTime kStart(absl::Hours(1));

// A frame in the time that a worker of this speed takes, and a way of `overhead`.
void Render(ViewPacer& pacer, const FramePlan& plan, double pixels_per_second,
            absl::Duration overhead = absl::ZeroDuration()) {
  const absl::Duration time =
      absl::Seconds(static_cast<double>(plan.width) * plan.height / pixels_per_second);
  pacer.Finish(plan, /*current=*/true, time, time + overhead);
}

// The side of a moving 1000x500 view after `n_moves` frames, aimed at 10 frames per second.
double MovingShareAfter(int n_moves, double pixels_per_second,
                        absl::Duration overhead = absl::ZeroDuration()) {
  ViewPacer pacer(10);
  double share = 0;
  for (int i = 0; i <= n_moves; ++i) {
    pacer.Move(1000, 500, kStart);
    const auto decision = pacer.Decide(kStart);
    EXPECT_TRUE(decision.plan.has_value());
    if (!decision.plan.has_value()) break;
    EXPECT_TRUE(decision.plan->moving);
    share = decision.plan->share;
    EXPECT_EQ(decision.plan->width, std::lround(1000 * share));
    EXPECT_EQ(decision.plan->height, std::lround(500 * share));
    Render(pacer, *decision.plan, pixels_per_second, overhead);
  }
  return share;
}

TEST(ViewPacerTest, SideOfAMovingViewIsTheRootOfThePixelsThatFitAFrame) {
  EXPECT_EQ(MovingShareAfter(30, 6e6), 1);
  // 0.36 of the pixels in a tenth of a second.
  EXPECT_NEAR(MovingShareAfter(30, 0.36 * 500'000 * 10), 0.6, 0.6 * 0.2);
  EXPECT_NEAR(MovingShareAfter(30, 1e4), 96.0 / 500, 1e-9) << "not below 96 pixels";
}

TEST(ViewPacerTest, TimeOfTheWayIsTakenOffTheTimeOfAFrame) {
  // Of 100 ms, 25 are left for rendering.
  EXPECT_NEAR(MovingShareAfter(60, 500'000 * 10, absl::Milliseconds(75)), 0.5, 0.13);
  // A way longer than a frame leaves a quarter.
  EXPECT_NEAR(MovingShareAfter(60, 500'000 * 10, absl::Seconds(2)), 0.5, 0.13);
}

TEST(ViewPacerTest, MovingViewKeepsItsSizeThroughSmallChangesOfSpeed) {
  ViewPacer pacer(10);
  const auto next_share = [&](double pixels_per_second) {
    pacer.Move(1000, 1000, kStart);
    const FramePlan plan = *pacer.Decide(kStart).plan;
    Render(pacer, plan, pixels_per_second);
    return plan.share;
  };
  double share = 0;
  for (int i = 0; i < 30; ++i) share = next_share(2.5e6);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(next_share(2.5e6 * (i % 2 == 0 ? 1.1 : 0.9)), share);
  for (int i = 0; i < 30; ++i) next_share(0.9e6);
  EXPECT_LT(next_share(0.9e6), share * 0.8);
}

// Pixels of a resting view may show four rays, those of a moving one do not.
TEST(ViewPacerTest, SpeedsOfMovingAndRestingViewsAreApart) {
  ViewPacer pacer(10);
  pacer.Begin(1000, 1000);
  SteadyTime now = kStart;
  while (!pacer.IsComplete()) Render(pacer, *pacer.Decide(now).plan, 1e6);
  for (int i = 0; i < 3; ++i) {
    pacer.Move(1000, 1000, now);
    Render(pacer, *pacer.Decide(now).plan, 4e6);
  }
  pacer.Move(1000, 1000, now);
  EXPECT_NEAR(pacer.Decide(now).plan->share, std::sqrt(0.4), 1e-3) << "that of moving frames";
  Render(pacer, *pacer.Decide(now).plan, 4e6);
  now = now + 2 * ViewPacer::kIdle;
  EXPECT_EQ(pacer.Decide(now).plan->share, 1) << "finer than what is shown";
  pacer.Begin(300, 1000);  // 0.3 s at rest, less than a tenth when it moves
  EXPECT_EQ(pacer.Decide(now).plan->share, 0.5);
}

TEST(ViewPacerTest, RestingViewComesAtAQuarterAHalfAndFullSize) {
  ViewPacer pacer(10);
  pacer.Begin(400, 200);
  for (const double share : {0.25, 0.5, 1.0}) {
    EXPECT_FALSE(pacer.IsComplete());
    const auto decision = pacer.Decide(kStart);
    ASSERT_TRUE(decision.plan.has_value()) << share;
    EXPECT_EQ(decision.plan->share, share);
    EXPECT_EQ(decision.plan->width, std::lround(400 * share));
    EXPECT_FALSE(decision.plan->moving);
    Render(pacer, *decision.plan, 1000);
  }
  EXPECT_TRUE(pacer.IsComplete());
  const auto decision = pacer.Decide(kStart);
  EXPECT_FALSE(decision.plan.has_value());
  EXPECT_FALSE(decision.again.has_value());
}

TEST(ViewPacerTest, RestingViewIsAsLargeAsFitsItsTime) {
  ViewPacer pacer(10, /*max_rest_time=*/absl::Seconds(2));
  pacer.Begin(1000, 1000);
  const double speed = 0.09 * 1e6 / 2;  // 0.3 of the side in 2 s
  for (const double share : {0.25, 0.3}) {
    EXPECT_FALSE(pacer.IsComplete());
    const FramePlan plan = *pacer.Decide(kStart).plan;
    EXPECT_NEAR(plan.share, share, 1e-6);
    Render(pacer, plan, speed);
  }
  EXPECT_TRUE(pacer.IsComplete());
  pacer.Renew();
  const FramePlan renewed = *pacer.Decide(kStart).plan;
  EXPECT_NEAR(renewed.share, 0.3, 1e-6) << "the same size, of newer weights";
  Render(pacer, renewed, 100 * speed);
  EXPECT_TRUE(pacer.IsComplete());
  pacer.Renew();
  for (const double share : {0.5, 1.0}) {  // the field has become faster
    const FramePlan plan = *pacer.Decide(kStart).plan;
    EXPECT_EQ(plan.share, share);
    Render(pacer, plan, 100 * speed);
  }
}

TEST(ViewPacerTest, FrameThatWasGivenUpIsTriedAgainSmallerOnceTheWeightsAreNew) {
  ViewPacer pacer(10, /*max_rest_time=*/absl::Seconds(2));
  pacer.Begin(1000, 1000);
  double last = pacer.Decide(kStart).plan->share;
  for (int i = 0; i < 5; ++i) {
    pacer.Drop(*pacer.Decide(kStart).plan, absl::Seconds(2));
    EXPECT_TRUE(pacer.IsComplete()) << "not at once";
    pacer.Renew();
    const double share = pacer.Decide(kStart).plan->share;
    EXPECT_TRUE(share < last || share == 0.125) << share;
    last = share;
  }
  EXPECT_EQ(last, 0.125);
}

TEST(ViewPacerTest, PassesBeginOnceTheCameraHasRested) {
  ViewPacer pacer(10);
  pacer.Move(400, 400, kStart);
  Render(pacer, *pacer.Decide(kStart).plan, 1000);
  const SteadyTime rested = kStart + ViewPacer::kIdle;
  const auto before = pacer.Decide(kStart + absl::Milliseconds(149));
  EXPECT_FALSE(before.plan.has_value());
  ASSERT_TRUE(before.again.has_value());
  EXPECT_TRUE(*before.again == rested);
  const auto after = pacer.Decide(rested);
  ASSERT_TRUE(after.plan.has_value());
  EXPECT_FALSE(after.plan->moving);
  EXPECT_EQ(after.plan->share, 0.5) << "the moving frame had a quarter";
  pacer.Move(400, 400, rested);
  EXPECT_TRUE(pacer.Decide(rested).plan->moving);
}

TEST(ViewPacerTest, FastWorkerRendersARestingViewInOnePass) {
  ViewPacer pacer(10);
  pacer.Begin(400, 400);
  Render(pacer, *pacer.Decide(kStart).plan, 1e8);
  EXPECT_EQ(pacer.Decide(kStart).plan->share, 1);
}

TEST(ViewPacerTest, FullSizeOfAMovingCameraIsRenderedAgainAtRest) {
  ViewPacer pacer(10);
  for (int i = 0; i < 3; ++i) {
    pacer.Move(100, 100, kStart);
    Render(pacer, *pacer.Decide(kStart).plan, 1e8);
  }
  EXPECT_FALSE(pacer.IsComplete()) << "its JPEG is coarse";
  EXPECT_EQ(pacer.Decide(kStart + ViewPacer::kIdle).plan->share, 1);
}

TEST(ViewPacerTest, FrameOfAnEarlierCameraDoesNotCount) {
  ViewPacer pacer(10);
  pacer.Begin(400, 400);
  const FramePlan plan = *pacer.Decide(kStart).plan;
  pacer.Finish(plan, /*current=*/false, absl::Seconds(10), absl::Seconds(10));
  EXPECT_EQ(pacer.Decide(kStart).plan->share, plan.share);
}

TEST(ViewPacerTest, NewWeightsAreRenderedAtFullSizeAlone) {
  ViewPacer pacer(10);
  pacer.Begin(400, 400);
  while (!pacer.IsComplete()) Render(pacer, *pacer.Decide(kStart).plan, 1000);
  pacer.Renew();
  EXPECT_FALSE(pacer.IsComplete());
  EXPECT_EQ(pacer.Decide(kStart).plan->share, 1);
}

}  // namespace
}  // namespace nerf
