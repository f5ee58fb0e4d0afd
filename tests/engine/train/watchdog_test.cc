#include "engine/train/watchdog.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using Verdict = Watchdog::Verdict;

StepResult Loss(double loss, int64_t n_trained = 100) {
  StepResult result;
  result.loss = result.squared_error = loss;
  result.n_rays = 10;
  result.n_marched = 100;
  result.n_trained = n_trained;
  return result;
}

// Steps 1 to n at this loss.
void Train(Watchdog* watchdog, uint32_t n, double loss) {
  for (uint32_t step = 1; step <= n; ++step) {
    ASSERT_EQ(watchdog->Observe(step, Loss(loss), 0.1), Verdict::kHealthy) << step;
  }
}

TEST(WatchdogTest, NotFiniteLossIsSeenAtOnce) {
  Watchdog watchdog(100);
  EXPECT_EQ(watchdog.Observe(1, Loss(NAN), 0.1), Verdict::kNotFinite);
  EXPECT_EQ(watchdog.Observe(1, Loss(INFINITY), 0.1), Verdict::kNotFinite);
  StepResult result = Loss(0.1);
  result.squared_error = NAN;
  EXPECT_EQ(watchdog.Observe(1, result, 0.1), Verdict::kNotFinite);
}

TEST(WatchdogTest, LossFourTimesItsBestIsDivergence) {
  Watchdog watchdog(100);
  Train(&watchdog, 300, 0.01);
  Verdict verdict = Verdict::kHealthy;
  uint32_t step = 301;
  for (; step < 600 && verdict == Verdict::kHealthy; ++step) {
    verdict = watchdog.Observe(step, Loss(0.1), 0.1);
  }
  EXPECT_EQ(verdict, Verdict::kDiverging);
  // One bad batch is no divergence: the mean of about fifty steps must rise.
  EXPECT_GT(step, 310u);
  EXPECT_LT(step, 400u);
}

TEST(WatchdogTest, RiseBelowFourTimesOrBelowTheFloorIsHealthy) {
  Watchdog watchdog(100);
  Train(&watchdog, 300, 0.01);
  for (uint32_t step = 301; step < 900; ++step) {
    ASSERT_EQ(watchdog.Observe(step, Loss(0.039), 0.1), Verdict::kHealthy);
  }
  Watchdog fine(100);
  Train(&fine, 300, 0.0001);
  for (uint32_t step = 301; step < 900; ++step) {
    ASSERT_EQ(fine.Observe(step, Loss(0.009), 0.1), Verdict::kHealthy);
  }
}

TEST(WatchdogTest, LossIsNotWatchedInTheWarmUp) {
  Watchdog watchdog(200);
  for (uint32_t step = 1; step <= 200; ++step) {
    ASSERT_EQ(watchdog.Observe(step, Loss(step < 100 ? 0.01 : 0.5), 0.1), Verdict::kHealthy);
  }
}

TEST(WatchdogTest, EmptyGridIsSeenByItsShareOrByMissingSamples) {
  Watchdog watchdog(100);
  EXPECT_EQ(watchdog.Observe(16, Loss(0.1), 0.0), Verdict::kGridEmpty);
  for (int i = 1; i < 16; ++i) {
    ASSERT_EQ(watchdog.Observe(16, Loss(0.1, 0), 0.1), Verdict::kHealthy) << i;
  }
  EXPECT_EQ(watchdog.Observe(16, Loss(0.1, 0), 0.1), Verdict::kGridEmpty);
}

TEST(WatchdogTest, StepWithSamplesStartsTheCountAnew) {
  Watchdog watchdog(100);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(watchdog.Observe(16, Loss(0.1, i % 10 == 9 ? 5 : 0), 0.1), Verdict::kHealthy);
  }
}

TEST(WatchdogTest, ThreeRecoveriesHalveTheRateThenItGivesUp) {
  Watchdog watchdog(100);
  for (float factor : {0.5f, 0.25f, 0.125f}) {
    EXPECT_THAT(watchdog.BeginRecovery(Verdict::kNotFinite, 10, true), IsOk());
    EXPECT_EQ(watchdog.state().rate_factor, factor);
  }
  EXPECT_THAT(watchdog.BeginRecovery(Verdict::kNotFinite, 77, true),
              FailsWith(absl::StatusCode::kAborted, reason::kTrainingDiverged));
  EXPECT_THAT(watchdog.BeginRecovery(Verdict::kDiverging, 77, true),
              StatusIs(absl::StatusCode::kAborted, "step 77"));
  EXPECT_THAT(watchdog.BeginRecovery(Verdict::kGridEmpty, 77, false),
              FailsWith(absl::StatusCode::kAborted, "GRID_EMPTY"));
}

TEST(WatchdogTest, RecoveryGivesTheLossTimeAgain) {
  Watchdog watchdog(100);
  Train(&watchdog, 300, 0.01);
  ASSERT_THAT(watchdog.BeginRecovery(Verdict::kDiverging, 300, true), IsOk());
  for (uint32_t step = 301; step < 301 + 40; ++step) {
    ASSERT_EQ(watchdog.Observe(step, Loss(0.5), 0.1), Verdict::kHealthy);
  }
}

}  // namespace
}  // namespace nerf
