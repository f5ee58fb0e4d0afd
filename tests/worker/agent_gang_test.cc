// The agent as a member of a gang: its rank's texts, what it reports, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "tests/worker/scripted_agent.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AgentGangTest : public AgentTest {
 protected:
  v1::SynchronizeResponse GangGrant(uint32_t rank, bool one_host = true) {
    v1::SynchronizeResponse message = Grant(server_, 1);
    message.mutable_desired_job()->set_part(rank);
    message.mutable_desired_job()->mutable_gang()->set_rank(rank);
    message.mutable_desired_job()->mutable_gang()->set_n_ranks(2);
    message.mutable_desired_job()->mutable_gang()->set_one_host(one_host);
    return message;
  }
  void StartRank(uint32_t rank) {
    Start();
    Send(GangGrant(rank));
    Started();
    ASSERT_EQ(server_.phase(), v1::JobReport::RUNNING);
  }
  void LoseRank(uint32_t rank) {
    EngineMessage message =
        Failure(Key(), WithReason(absl::UnavailableError("rank 1 is lost"), "RANK_LOST"));
    message.mutable_failed()->set_lost_rank(rank);
    Say(message);
  }
};

TEST_F(AgentGangTest, EngineGetsItsPlaceAndNoNetworkOnOneHost) {
  options_.job.gang_interface = "eth7";
  Start();
  Send(GangGrant(1));
  EXPECT_EQ(GotTrain().ranks().rank(), 1u);
  EXPECT_EQ(GotTrain().ranks().count(), 2u);
  EXPECT_EQ(GotTrain().ranks().interface(), "");
  EXPECT_EQ(server_.last_report()->part(), 1u);
}

TEST_F(AgentGangTest, EnginesOfSeveralHostsMeetOnTheNamedInterface) {
  options_.job.gang_interface = "eth7";
  Start();
  Send(GangGrant(0, /*one_host=*/false));
  EXPECT_EQ(GotTrain().ranks().interface(), "eth7");
}

TEST_F(AgentGangTest, TextIsRepeatedUntilAllHaveTold) {
  Start();
  Send(GangGrant(1));
  EngineMessage text = AboutJob(Key());
  // Only the worker says whose it is.
  text.mutable_rank_text()->set_job("projects/other/jobs/j-1");
  text.mutable_rank_text()->set_lease_epoch(9);
  text.mutable_rank_text()->set_rank(0);
  text.mutable_rank_text()->set_text("ab\xff");
  Say(text);
  const v1::RankText told = server_.messages().back().rank_text();
  EXPECT_EQ(told.job(), kJob);
  EXPECT_EQ(told.lease_epoch(), 1u);
  EXPECT_EQ(told.rank(), 1u);
  EXPECT_EQ(told.text(), "ab\xff");
  Pass(absl::Seconds(5));
  EXPECT_EQ(server_.messages().back().rank_text().text(), "ab\xff");

  v1::SynchronizeResponse answer;
  v1::RankTexts& texts = *answer.mutable_rank_texts();
  texts.set_job(kJob);
  texts.set_lease_epoch(1);
  texts.set_sequence(7);  // of another text
  texts.add_texts("x");
  Send(answer);
  EXPECT_FALSE(engines_.Got(WorkerRequest::kRankTexts).has_rank_texts());
  texts.set_sequence(0);
  texts.add_texts("ab\xff");
  Send(answer);
  const WorkerRequest passed_on = engines_.Got(WorkerRequest::kRankTexts);
  EXPECT_EQ(passed_on.job(), Key());
  EXPECT_THAT(passed_on.rank_texts().texts(), ElementsAre("x", "ab\xff"));
  Pass(absl::Seconds(5));
  EXPECT_FALSE(server_.messages().back().has_rank_text());
}

TEST_F(AgentGangTest, TextsThatTheServerRefusesEndTheJobNotTheWorker) {
  uint64_t epoch = 0;
  for (const bool is_long : {true, false}) {
    SCOPED_TRACE(is_long);
    if (++epoch == 1) Start();
    v1::SynchronizeResponse grant = GangGrant(1);
    grant.mutable_desired_job()->set_lease_epoch(epoch);
    Send(grant);
    EngineMessage text = AboutJob(Key(epoch));
    text.mutable_rank_text()->set_text(std::string(is_long ? (64 << 10) + 1 : 1, 't'));
    text.mutable_rank_text()->set_sequence(is_long ? 0 : 64);
    Say(text);
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
    EXPECT_FALSE(server_.messages().back().has_rank_text());
    Send(Acknowledge());
  }
}

TEST_F(AgentGangTest, OtherRanksKeepTheirPlaceUntilRankZeroHasFinished) {
  StartRank(1);
  SayDone();
  Pass(absl::Minutes(3));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_THAT(server_.commits(), IsEmpty());
  EXPECT_FALSE(engines_.engine->killed);
  Send(Order(v1::DesiredJob::ABANDON, 1));
  EXPECT_FALSE(server_.last_report().has_value());
  EXPECT_TRUE(agent_->idle());
}

TEST_F(AgentGangTest, LostRankIsReportedAfterAGrace) {
  StartRank(0);
  LoseRank(1);
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->release_reason(), v1::JobReport::MEMBER_LOST);
  EXPECT_EQ(server_.last_report()->lost_rank(), 1u);
  Send(Acknowledge());
  EXPECT_FALSE(server_.last_report().has_value());
}

TEST_F(AgentGangTest, ServerThatKnowsBetterComesFirst) {
  StartRank(0);
  LoseRank(1);
  Send(Order(v1::DesiredJob::ABANDON, 1));
  EXPECT_FALSE(server_.last_report().has_value());
  Pass(absl::Seconds(5));
  EXPECT_FALSE(server_.last_report().has_value());
  EXPECT_TRUE(agent_->idle());
}

TEST_F(AgentGangTest, CrashOfAnEngineIsReportedWithItsRank) {
  StartRank(1);
  engines_.Die({EngineExit::Kind::kSignal, 9});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_EQ(server_.last_report()->part(), 1u);
}

TEST_F(AgentGangTest, LeavingRankWaitsForTheCheckpointOfRankZero) {
  StartRank(1);
  agent_->Shutdown();
  Settle();
  EXPECT_TRUE(server_.messages().back().draining());
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_FALSE(engines_.Got(WorkerRequest::kStop).has_stop());
  SayDone();
  Send(Order(v1::DesiredJob::ABANDON, 1));
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_TRUE(agent_->result()->ok());
}

TEST_F(AgentGangTest, LeavingRankDoesNotWaitForEver) {
  StartRank(1);
  agent_->Shutdown();
  Pass(options_.job.checkpoint_timeout + absl::Seconds(1));
  EXPECT_TRUE(WasToldToStop(/*checkpoint=*/true));
  Say(StoppedAt(Key(), 7));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
}

// The engine is replaced by one that may use the network, and by another one after the job.
TEST_F(AgentGangTest, EngineMayConnectOnlyWhileItTrainsInAGang) {
  Start();
  EXPECT_EQ(engines_.launches, 1);
  Send(GangGrant(1));
  EXPECT_EQ(engines_.launches, 2);
  EXPECT_TRUE(engines_.engine->access.ranks);
  EXPECT_TRUE(engines_.Got(WorkerRequest::kTrain).has_train());
  Started();
  SayDone();
  Send(Order(v1::DesiredJob::ABANDON, 1));
  EXPECT_EQ(engines_.launches, 3);
  EXPECT_FALSE(engines_.engine->access.ranks);
  EXPECT_EQ(server_.messages().back().metrics().engine_restarts(), 0u);
}

}  // namespace
}  // namespace nerf
