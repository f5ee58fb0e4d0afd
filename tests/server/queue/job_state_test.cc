#include "server/queue/jobs/job_state.h"

#include <set>
#include <utility>

#include "server/queue/jobs/job.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using enum JobState;

// The arrows of the diagram in job_state.h, repeated here on purpose.
const std::set<std::pair<JobState, JobState>>& Arrows() {
  static const auto& arrows = *new std::set<std::pair<JobState, JobState>>{
      {kQueued, kPreparing},     {kQueued, kRunning},    {kQueued, kCancelled},
      {kQueued, kFailed},        {kPreparing, kRunning}, {kPreparing, kQueued},
      {kPreparing, kCancelling}, {kPreparing, kFailed},  {kRunning, kSucceeded},
      {kRunning, kQueued},       {kRunning, kPausing},   {kRunning, kCancelling},
      {kRunning, kFailed},       {kPausing, kPaused},    {kPausing, kPreparing},
      {kPausing, kCancelling},   {kPausing, kFailed},    {kPaused, kQueued},
      {kPaused, kCancelled},     {kPaused, kFailed},     {kCancelling, kCancelled},
      {kCancelling, kFailed},    {kQueued, kPaused},     {kPreparing, kPausing},
  };
  return arrows;
}

TEST(JobStateTest, EveryPairOfStatesIsAnArrowOrRefused) {
  for (JobState from : kAllJobStates) {
    for (JobState to : kAllJobStates) {
      const bool legal = Arrows().contains({from, to});
      EXPECT_EQ(IsLegalTransition(from, to), legal)
          << JobStateName(from) << " -> " << JobStateName(to);
      Job job;
      job.key = {"default", "j-1"};
      job.state = from;
      job.queue_reason = QueueReason::kPreempted;
      const absl::Status status =
          Transition(job, to, absl::FromUnixSeconds(7), QueueReason::kWorkerLost);
      EXPECT_EQ(status.ok(), legal);
      EXPECT_EQ(job.state, legal ? to : from);
      if (!legal) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, "default/jobs/j-1"));
        EXPECT_EQ(job.queue_reason, QueueReason::kPreempted);
        EXPECT_EQ(job.end_time, absl::InfinitePast());
      }
    }
  }
}

TEST(JobStateTest, FinalStatesHaveNoWayOutAndNoLease) {
  for (JobState from : {kSucceeded, kFailed, kCancelled}) {
    EXPECT_TRUE(IsFinal(from));
    EXPECT_FALSE(HoldsLease(from));
    for (JobState to : kAllJobStates) EXPECT_FALSE(IsLegalTransition(from, to));
  }
}

TEST(JobStateTest, TransitionSetsReasonAndTimes) {
  Job job;
  job.key = {"default", "j-1"};
  ASSERT_THAT(Transition(job, kPreparing, absl::FromUnixSeconds(1)), IsOk());
  EXPECT_EQ(job.start_time, absl::InfinitePast());
  ASSERT_THAT(Transition(job, kRunning, absl::FromUnixSeconds(2)), IsOk());
  ASSERT_THAT(Transition(job, kQueued, absl::FromUnixSeconds(3), QueueReason::kWorkerDrained),
              IsOk());
  EXPECT_EQ(job.queue_reason, QueueReason::kWorkerDrained);
  ASSERT_THAT(Transition(job, kRunning, absl::FromUnixSeconds(4)), IsOk());
  EXPECT_EQ(job.queue_reason, QueueReason::kNone);
  ASSERT_THAT(Transition(job, kSucceeded, absl::FromUnixSeconds(5)), IsOk());
  EXPECT_EQ(job.start_time, absl::FromUnixSeconds(2)) << "the first start counts";
  EXPECT_EQ(job.end_time, absl::FromUnixSeconds(5));
}

TEST(JobStateTest, NamesComeBack) {
  for (JobState state : kAllJobStates) {
    EXPECT_THAT(ParseJobState(JobStateName(state)), IsOkAndHolds(state));
  }
  EXPECT_FALSE(ParseJobState("queued").ok());
  EXPECT_THAT(ParseQueueReason("DRAINED"), StatusIs(absl::StatusCode::kInvalidArgument));
}

std::vector<uint32_t> RetiredSteps(std::vector<CheckpointRecord> checkpoints) {
  std::vector<uint32_t> steps;
  for (const auto& retired : RetireCheckpoints(checkpoints, 3)) steps.push_back(retired.step);
  return steps;
}

CheckpointRecord JobStateAt(uint32_t step, std::optional<double> psnr = {}, bool promoted = false) {
  CheckpointRecord checkpoint;
  checkpoint.step = step;
  checkpoint.preview_psnr = psnr;
  checkpoint.promoted = promoted;
  return checkpoint;
}

TEST(RetireCheckpointsTest, LastThreeBestAndPromotedStay) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  EXPECT_THAT(RetiredSteps({}), IsEmpty());
  EXPECT_THAT(RetiredSteps({JobStateAt(1), JobStateAt(2), JobStateAt(3)}), IsEmpty());
  EXPECT_THAT(RetiredSteps({JobStateAt(1), JobStateAt(2), JobStateAt(3), JobStateAt(4)}),
              ElementsAre(1));
  EXPECT_THAT(RetiredSteps({JobStateAt(1, 30.0), JobStateAt(2, 20.0), JobStateAt(3), JobStateAt(4),
                            JobStateAt(5, 29.0)}),
              ElementsAre(2));
  EXPECT_THAT(RetiredSteps({JobStateAt(1, 30.0), JobStateAt(2, 30.0), JobStateAt(3), JobStateAt(4),
                            JobStateAt(5)}),
              ElementsAre(1))
      << "the newer of equals";
  EXPECT_THAT(RetiredSteps({JobStateAt(1, {}, true), JobStateAt(2), JobStateAt(3), JobStateAt(4),
                            JobStateAt(5)}),
              ElementsAre(2));
}

}  // namespace
}  // namespace nerf
