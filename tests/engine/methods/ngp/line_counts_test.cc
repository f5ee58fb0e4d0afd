#include "engine/methods/ngp/line_counts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/base/philox.h"
#include "gtest/gtest.h"

namespace nerf {
namespace {

constexpr size_t kLines = 4096;

// Steps of n samples each, every one of which changes one of `n_places` lines of each of two
// levels.
void RunSteps(uint32_t begin, uint32_t end, int n, uint32_t n_places, NgpLineCounts* counts) {
  for (uint32_t step = begin; step < end; ++step) {
    for (int level = 0; level < 2; ++level) {
      std::vector<uint64_t> bits(kLines / 64);
      for (int i = 0; i < n; ++i) {
        const uint32_t line =
            RandomWords(1, RandomUse::kTest, step, static_cast<uint32_t>(2 * i + level))[0] %
            n_places;
        bits[line / 64] |= uint64_t{1} << line % 64;
      }
      counts->Add(level, bits);
    }
    counts->EndStep(step, n, 2 * n);
  }
}

// Forecast for both levels together.
double LinesOf(const NgpLineCounts& counts, double n, double step) {
  return counts.LinesOf(0, n, step) + counts.LinesOf(1, n, step);
}

// Lines that n samples change on average, in both levels.
double Expected(double n, double n_places) {
  return 2 * n_places * (1 - std::pow(1 - 1 / n_places, n));
}

TEST(NgpLineCountsTest, NothingIsKnownBeforeEightSteps) {
  NgpLineCounts counts(2, kLines);
  RunSteps(0, 7, 100, kLines, &counts);
  EXPECT_FALSE(counts.HasCounts());
  EXPECT_EQ(LinesOf(counts, 100, 100), 0);
  RunSteps(7, 8, 100, kLines, &counts);
  EXPECT_TRUE(counts.HasCounts());
}

TEST(NgpLineCountsTest, LargerBatchesChangeWhatSeveralStepsChangeTogether) {
  NgpLineCounts counts(2, kLines);
  RunSteps(0, 64, 1000, kLines, &counts);
  EXPECT_EQ(counts.MarchedPerTrained(), 2);
  for (const int n : {700, 1000, 1500, 2000, 4000, 6000, 8000, 10000})
    EXPECT_NEAR(LinesOf(counts, n, 64), Expected(n, kLines), 0.05 * Expected(n, kLines)) << n;
}

TEST(NgpLineCountsTest, WhatTheFirstStepsChangeIsTakenToFallFromStep96On) {
  NgpLineCounts counts(2, kLines);
  RunSteps(0, 64, 1000, kLines, &counts);
  const double now = LinesOf(counts, 1000, 64);
  EXPECT_EQ(LinesOf(counts, 1000, 96), now);
  EXPECT_NEAR(LinesOf(counts, 1000, 960), now * (1 - 0.05 * std::log(10.0)), 1e-6 * now);
  EXPECT_NEAR(LinesOf(counts, 1000, 1e9), 0.5 * now, 1e-6 * now) << "never by more than a half";
}

TEST(NgpLineCountsTest, TheLastStepsCount) {
  NgpLineCounts counts(2, kLines);
  RunSteps(0, 64, 1000, kLines, &counts);
  RunSteps(64, 128, 1000, 500, &counts);
  EXPECT_NEAR(LinesOf(counts, 1000, 128), Expected(1000, 500), 0.03 * Expected(1000, 500));
}

// Lines that fall by 5% of their number now each time the steps grow by a factor of e.
TEST(NgpLineCountsTest, WhatFallsSlowlyGoesOnFallingOnceTheGridIsSteady) {
  const auto lines_at = [](double step) { return 1000 * (1 - 0.05 * std::log(step / 1000)); };
  NgpLineCounts counts(1, kLines);
  for (uint32_t step = 0; step < 1000; ++step) {
    std::vector<uint64_t> bits(kLines / 64);
    for (int line = 0; line < std::lround(lines_at(std::max(1u, step))); ++line)
      bits[line / 64] |= uint64_t{1} << line % 64;
    counts.Add(0, bits);
    counts.EndStep(step, 1000, 1000);
    // A field that is new falls faster, and that says nothing of later: what is usual is taken.
    if (step == 400) {
      const double usual = 1 - 0.05 * std::log(4000.0 / 369);
      EXPECT_NEAR(counts.LinesOf(0, 1000, 4000), usual * lines_at(369), 2);
    }
  }
  EXPECT_NEAR(counts.LinesOf(0, 1000, 1000), lines_at(1000), 3);
  EXPECT_NEAR(counts.LinesOf(0, 1000, 4000), lines_at(4000), 6);
}

}  // namespace
}  // namespace nerf
