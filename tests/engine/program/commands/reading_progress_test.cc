#include "engine/program/console/reading_progress.h"

#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

TEST(ReadingProgressTest, SaysEveryTwoSecondsHowMuchIsLeft) {
  FakeClock clock;
  ReadingProgress progress(&clock);
  EXPECT_FALSE(progress.LineFor("pictures", 0, 300));
  clock.Advance(absl::Seconds(1));
  EXPECT_FALSE(progress.LineFor("pictures", 30, 300)) << "what is short says nothing";
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(progress.LineFor("pictures", 60, 300), "reading pictures: 60 of 300, about 8 s left");
  EXPECT_FALSE(progress.LineFor("pictures", 61, 300));
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(progress.LineFor("pictures", 300, 300), "reading pictures: 300 of 300");
  EXPECT_FALSE(progress.LineFor("digests of pictures", 5, 300)) << "another one begins anew";
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(progress.LineFor("digests of pictures", 5, 300),
            "reading digests of pictures: 5 of 300");
  // Test views after training views, from 0 on as those.
  EXPECT_FALSE(progress.LineFor("digests of pictures", 0, 40));
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(progress.LineFor("digests of pictures", 10, 40),
            "reading digests of pictures: 10 of 40, about 6 s left");
}

}  // namespace
}  // namespace nerf
