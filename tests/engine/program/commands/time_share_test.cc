#include "engine/program/serve/time_share.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

// For `total`, a training whose steps take `step`, with a render that never ends.
absl::Duration RenderTimeBeside(absl::Duration step, absl::Duration tile, absl::Duration total) {
  FakeClock clock;
  TimeShare share(&clock);
  absl::Duration rendered;
  const SteadyTime begin = clock.Now();
  while (clock.Now() - begin < total) {
    clock.Advance(step);
    if (!share.TakeTurn()) continue;
    while (!share.IsSpent()) {
      clock.Advance(tile);
      rendered += tile;
    }
    share.GiveTurn();
  }
  return rendered;
}

TEST(TimeShareTest, RenderTakesThreeOfSevenSecondsAndTheFirst) {
  for (const absl::Duration step : {absl::Milliseconds(1), absl::Milliseconds(30)}) {
    for (const absl::Duration tile : {absl::Microseconds(400), absl::Milliseconds(70)}) {
      const absl::Duration rendered = RenderTimeBeside(step, tile, absl::Seconds(100));
      EXPECT_NEAR(absl::ToDoubleSeconds(rendered), 3.0 / 7 * 100 + 4.0 / 7, 0.2)
          << step << " " << tile;
    }
  }
}

TEST(TimeShareTest, ShortRenderIsNotInterrupted) {
  FakeClock clock;
  TimeShare share(&clock);
  clock.Advance(absl::Milliseconds(8));
  ASSERT_TRUE(share.TakeTurn());
  clock.Advance(absl::Milliseconds(990));
  EXPECT_FALSE(share.IsSpent());
  clock.Advance(absl::Milliseconds(20));
  EXPECT_TRUE(share.IsSpent());
}

TEST(TimeShareTest, LongTrainingEarnsNoMoreThanASecond) {
  FakeClock clock;
  TimeShare share(&clock);
  clock.Advance(absl::Hours(1));
  ASSERT_TRUE(share.TakeTurn());
  clock.Advance(absl::Milliseconds(1001));
  EXPECT_TRUE(share.IsSpent());
}

TEST(TimeShareTest, TurnOfAFewMillisecondsStaysTheTrainings) {
  FakeClock clock;
  TimeShare share(&clock);
  ASSERT_TRUE(share.TakeTurn());
  clock.Advance(absl::Milliseconds(1500));  // half a second too long
  share.GiveTurn();
  clock.Advance(absl::Milliseconds(693));  // 519.75 ms earned
  EXPECT_FALSE(share.TakeTurn());
  clock.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(share.TakeTurn());
}

}  // namespace
}  // namespace nerf
