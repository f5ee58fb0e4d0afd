#include "server/queue/upkeep/stall_clock.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

TEST(StallClockTest, RunsWithTheMachinesClockWhileItIsTicked) {
  FakeClock machine;
  StallClock clock(&machine);
  const SteadyTime start = clock.Now();
  for (int i = 0; i < 40; ++i) {
    machine.Advance(absl::Milliseconds(250));
    clock.Tick(/*store_hangs=*/false);
  }
  EXPECT_EQ(clock.Now() - start, absl::Seconds(10));
  machine.Advance(absl::Milliseconds(100));
  EXPECT_EQ(clock.Now() - start, absl::Seconds(10.1));
}

// The process is stopped for a minute. Afterwards either the ticker or a reader may be the first to
// call the clock.
TEST(StallClockTest, TimeInWhichTheProcessStoodStillDoesNotCount) {
  FakeClock machine;
  StallClock clock(&machine);
  clock.Tick(false);
  const SteadyTime start = clock.Now();
  machine.Advance(absl::Seconds(60));
  EXPECT_EQ(clock.Now() - start, StallClock::kMaxStep);
  clock.Tick(false);
  EXPECT_EQ(clock.Now() - start, StallClock::kMaxStep);
  machine.Advance(absl::Seconds(0.5));
  EXPECT_EQ(clock.Now() - start, StallClock::kMaxStep + absl::Seconds(0.5));
}

TEST(StallClockTest, TimeInWhichTheStoreHangsDoesNotCount) {
  FakeClock machine;
  StallClock clock(&machine);
  clock.Tick(true);
  const SteadyTime start = clock.Now();
  for (int i = 0; i < 240; ++i) {
    machine.Advance(absl::Milliseconds(250));
    clock.Tick(true);
  }
  EXPECT_EQ(clock.Now(), start);
  clock.Tick(false);
  machine.Advance(absl::Milliseconds(250));
  EXPECT_EQ(clock.Now() - start, absl::Milliseconds(250));
}

}  // namespace
}  // namespace nerf
