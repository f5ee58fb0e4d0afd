#include "worker/base/liveness.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/files/file_io.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(LivenessTest, WorkerThatBeatsIsAliveForAMinute) {
  TempDir dir;
  FakeClock clock;
  Liveness liveness(dir.path(), &clock);
  liveness.Beat(absl::Seconds(1000));
  EXPECT_THAT(Liveness::Check(dir.path(), absl::Seconds(1000)), IsOk());
  EXPECT_THAT(Liveness::Check(dir.path(), absl::Seconds(1060)), IsOk());
  EXPECT_THAT(Liveness::Check(dir.path(), absl::Seconds(1062)),
              StatusIs(absl::StatusCode::kUnavailable, "1m2s ago"));
}

TEST(LivenessTest, BeatsAreWrittenEveryFiveSecondsAtMost) {
  TempDir dir;
  FakeClock clock;
  Liveness liveness(dir.path(), &clock);
  liveness.Beat(absl::Seconds(1000));
  clock.Advance(absl::Seconds(4));
  liveness.Beat(absl::Seconds(1004));
  EXPECT_EQ(*ReadFile(dir / "alive", 64), "1000\n");
  clock.Advance(absl::Seconds(1));
  liveness.Beat(absl::Seconds(1005));
  EXPECT_EQ(*ReadFile(dir / "alive", 64), "1005\n");
}

TEST(LivenessTest, BeatOfBeforeARestartOfTheMachineIsNoBeat) {
  TempDir dir;
  std::ofstream(dir / "alive") << "5000\n";
  EXPECT_THAT(Liveness::Check(dir.path(), absl::Seconds(20)),
              StatusIs(absl::StatusCode::kUnavailable, "last heard"));
}

TEST(LivenessTest, FoldersWithoutAWorkerAndUnreadableBeatsAreNamed) {
  TempDir dir;
  EXPECT_THAT(Liveness::Check(dir.path(), absl::Seconds(20)),
              StatusIs(absl::StatusCode::kNotFound, "no worker has run"));
  std::ofstream(dir / "alive") << "soon\n";
  EXPECT_THAT(Liveness::Check(dir.path(), absl::Seconds(20)),
              StatusIs(absl::StatusCode::kDataLoss, "holds no time"));
}

TEST(LivenessTest, FolderThatCannotBeWrittenDoesNotStopTheWorker) {
  FakeClock clock;
  Liveness liveness("/proc/none", &clock);
  liveness.Beat(absl::Seconds(1));
  EXPECT_FALSE(Liveness::Check("/proc/none", absl::Seconds(1)).ok());
}

TEST(IdleLimitTest, IsReachedAfterAnUnbrokenTimeWithoutWork) {
  FakeClock clock;
  IdleLimit limit(absl::Seconds(60), &clock);
  clock.Advance(absl::Seconds(59));
  EXPECT_FALSE(limit.Reached(true));
  EXPECT_FALSE(limit.Reached(false));
  clock.Advance(absl::Seconds(59));
  EXPECT_FALSE(limit.Reached(true));
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(limit.Reached(true));
}

TEST(IdleLimitTest, OfZeroIsNeverReached) {
  FakeClock clock;
  IdleLimit limit(absl::ZeroDuration(), &clock);
  clock.Advance(absl::Hours(100));
  EXPECT_FALSE(limit.Reached(true));
}

}  // namespace
}  // namespace nerf
