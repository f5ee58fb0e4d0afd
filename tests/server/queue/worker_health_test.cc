#include "server/queue/leases/worker_health.h"

#include <gmock/gmock.h>

namespace nerf {
namespace {

using testing::HasSubstr;

class WorkerHealthTest : public testing::Test {
 protected:
  void Die(const std::string& job) { health_.EngineDied("w", {"default", job}, now_); }
  bool MayTakeJob() const { return health_.MayTakeJob("w", now_); }

  WorkerHealth health_;
  SteadyTime now_;
};

TEST_F(WorkerHealthTest, OneBadJobCondemnsNobody) {
  for (int i = 0; i < 10; ++i) Die("bad");
  EXPECT_FALSE(health_.IsUnhealthy("w"));
  EXPECT_TRUE(MayTakeJob());
}

TEST_F(WorkerHealthTest, DeathsOnThreeJobsInARowPauseItAndEachFailedTrialDoublesThePause) {
  Die("a");
  Die("b");
  EXPECT_TRUE(MayTakeJob());
  Die("c");
  absl::Duration pause = WorkerHealth::kFirstPause;
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(health_.IsUnhealthy("w"));
    now_ = now_ + (pause - absl::Seconds(1));
    EXPECT_FALSE(MayTakeJob());
    EXPECT_THAT(health_.Explain("w", now_), HasSubstr("in 1 s"));
    now_ = now_ + absl::Seconds(1);
    EXPECT_TRUE(MayTakeJob()) << "a trial";
    Die("trial");
    pause = std::min(2 * pause, WorkerHealth::kMaxPause);
  }
}

TEST_F(WorkerHealthTest, ACheckpointMakesItHealthyAgain) {
  Die("a");
  Die("b");
  health_.EngineWorked("w");
  Die("c");
  EXPECT_FALSE(health_.IsUnhealthy("w"));
  Die("d");
  Die("e");
  EXPECT_TRUE(health_.IsUnhealthy("w"));
  EXPECT_THAT(health_.Explain("w", now_), HasSubstr("died on 3 jobs in a row (c, d, e)"));
  health_.EngineWorked("w");
  EXPECT_TRUE(MayTakeJob());
  EXPECT_EQ(health_.Explain("w", now_), "");
}

}  // namespace
}  // namespace nerf
