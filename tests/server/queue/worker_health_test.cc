#include "server/queue/leases/worker_health.h"

#include <gmock/gmock.h>

namespace nerf {
namespace {

using testing::HasSubstr;

class WorkerHealthTest : public testing::Test {
 protected:
  void Die(const std::string& job, const std::string& project = "lab") {
    health_.EngineDied("w", {project, job}, now_);
  }
  bool MayTakeJob(const std::string& project = "lab") const {
    return health_.MayTakeJob("w", project, now_);
  }

  WorkerHealth health_;
  SteadyTime now_;
};

TEST_F(WorkerHealthTest, OneBadJobCondemnsNobody) {
  for (int i = 0; i < 10; ++i) Die("bad");
  EXPECT_TRUE(health_.Avoids("w").empty());
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
    EXPECT_EQ(health_.Avoids("w"), std::set<std::string>{"lab"});
    now_ = now_ + (pause - absl::Seconds(1));
    EXPECT_FALSE(MayTakeJob());
    EXPECT_THAT(health_.Explain("w", now_), HasSubstr("in 1 s"));
    now_ = now_ + absl::Seconds(1);
    EXPECT_TRUE(MayTakeJob()) << "a trial";
    Die("trial");
    pause = std::min(2 * pause, WorkerHealth::kMaxPause);
  }
}

TEST_F(WorkerHealthTest, OneBadProjectIsAvoidedAndTakesTheWorkerFromNobodyElse) {
  for (int i = 0; i < 20; ++i) Die("bad-" + std::to_string(i), "bad");
  Die("unlucky");
  Die("unlucky-2");
  EXPECT_FALSE(MayTakeJob("bad"));
  EXPECT_TRUE(MayTakeJob("lab"));
  EXPECT_FALSE(health_.IsUnhealthy("w"));
  EXPECT_THAT(health_.Explain("w", now_),
              HasSubstr("died on 20 jobs of a project in a row (bad-0"));
}

TEST_F(WorkerHealthTest, DeathsOnJobsOfSeveralProjectsMakeItUnhealthyForAll) {
  for (const char* project : {"lab", "school"}) {
    for (const char* job : {"a", "b", "c"}) Die(job, project);
  }
  EXPECT_TRUE(health_.IsUnhealthy("w"));
  EXPECT_FALSE(MayTakeJob("third"));
  EXPECT_THAT(health_.Explain("w", now_), HasSubstr("died on 6 jobs in a row (a, b, c, ...)"));
  now_ = now_ + WorkerHealth::kFirstPause;
  EXPECT_TRUE(MayTakeJob("third")) << "a trial";
}

TEST_F(WorkerHealthTest, WorkMakesItHealthyAgain) {
  Die("a");
  Die("b");
  health_.Worked("w");
  Die("c");
  EXPECT_TRUE(MayTakeJob());
  Die("d");
  Die("e");
  EXPECT_FALSE(MayTakeJob());
  EXPECT_THAT(health_.Explain("w", now_),
              HasSubstr("died on 3 jobs of a project in a row (c, d, e)"));
  health_.Worked("w");
  EXPECT_TRUE(MayTakeJob());
  EXPECT_EQ(health_.Explain("w", now_), "");
}

}  // namespace
}  // namespace nerf
