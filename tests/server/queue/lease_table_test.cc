#include "common/error_reason.h"
#include "server/queue/state/job_queue.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using enum JobState;

const auto kFenced = [] {
  return FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced);
};

class LeaseTest : public testing::Test {
 protected:
  LeaseTest() { harness_.AddScene(); }
  JobQueue& queue() { return *harness_.queue; }
  LeaseTable& leases() { return *harness_.leases; }
  void Expire() {
    harness_.clock.Advance(harness_.options.lease_ttl);
    harness_.Tick();
  }
  QueueHarness harness_;
};

TEST_F(LeaseTest, GrantsAreInOrderOfSubmissionWithAFreshEpoch) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("two")), IsOk());
  const auto grant = leases().Acquire({"worker-a"});
  ASSERT_THAT(grant, IsOk());
  EXPECT_EQ((*grant)->lease.job.id, "one");
  EXPECT_EQ((*grant)->lease.epoch, 1u);
  EXPECT_EQ((*grant)->job.state, kPreparing);
  EXPECT_EQ((*grant)->job.attempt, 1u);
  EXPECT_EQ((*grant)->scene.files.size(), 2u);
  EXPECT_FALSE((*grant)->resume.has_value());
  EXPECT_EQ((*grant)->ttl, absl::Seconds(30));
  EXPECT_EQ(harness_.Grant("worker-b").job.id, "two");
  EXPECT_THAT(leases().Acquire({"worker-c"}), IsOkAndHolds(testing::Eq(std::nullopt)));
}

TEST_F(LeaseTest, JobThatAWorkerMayNotTakeIsPassedOverAndKeepsItsPlace) {
  JobSpec special = harness_.Spec("special");
  special.training.config.set_method("other");
  EXPECT_THAT(queue().Create(special), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("two")), IsOk());
  EXPECT_EQ((*leases().Acquire({"worker-a", {"ngp"}}))->lease.job.id, "one");
  EXPECT_EQ(harness_.StateOf("special"), kQueued);
  EXPECT_EQ(harness_.Grant("worker-b").job.id, "special");
  EXPECT_EQ((*leases().Acquire({"worker-c", {"ngp"}}))->lease.job.id, "two");
  EXPECT_THAT(leases().Acquire({"worker-d", {"ngp"}}), IsOkAndHolds(testing::Eq(std::nullopt)));
}

TEST_F(LeaseTest, RenewedLeaseLivesOnAndTheWallClockDoesNotMatter) {
  const LeaseRef lease = harness_.Running("one");
  for (int i = 0; i < 20; ++i) {
    harness_.clock.Advance(absl::Seconds(29));
    harness_.clock.JumpWall(i % 2 == 0 ? absl::Hours(24) : -absl::Hours(25));
    harness_.Tick();
    ASSERT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
  }
  EXPECT_EQ(harness_.StateOf("one"), kRunning);
  EXPECT_EQ(harness_.observer.n_expired, 0);
}

TEST_F(LeaseTest, ExpiryRequeuesAndTheNextGrantFencesTheOldHolder) {
  const LeaseRef old_lease = harness_.Running("one", "worker-a");
  ASSERT_THAT(leases().CommitCheckpoint(old_lease, QueueHarness::Checkpoint(100)), IsOk());
  Expire();
  EXPECT_EQ(harness_.StateOf("one"), kQueued);
  EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kWorkerLost);
  EXPECT_EQ(harness_.observer.n_expired, 1);
  const auto grant = leases().Acquire({"worker-b"});
  EXPECT_EQ((*grant)->lease.epoch, 2u);
  EXPECT_EQ((*grant)->job.attempt, 2u);
  EXPECT_EQ((*grant)->resume->step, 100u);
  // Every write of the old holder is refused and changes nothing.
  const Job before = harness_.Get("one");
  EXPECT_THAT(leases().Renew(old_lease, WorkPhase::kRunning), kFenced());
  EXPECT_THAT(leases().ReportProgress(old_lease, {}), kFenced());
  EXPECT_THAT(leases().CommitCheckpoint(old_lease, QueueHarness::Checkpoint(200)), kFenced());
  EXPECT_THAT(leases().Finish(old_lease, {}), kFenced());
  EXPECT_THAT(leases().Release(old_lease), kFenced());
  EXPECT_THAT(leases().ReportEngineCrash(old_lease, "x"), kFenced());
  EXPECT_EQ(harness_.observer.n_fenced, 6);
  EXPECT_EQ(harness_.Get("one").last_event_sequence, before.last_event_sequence);
  EXPECT_EQ(GetReason(leases().Release(old_lease).status())->metadata.at("current_epoch"), "2");
}

TEST_F(LeaseTest, ExpiredLeaseThatNobodyTookIsTakenUpAtTheSameEpoch) {
  const LeaseRef lease = harness_.Running("one");
  Expire();
  ASSERT_EQ(harness_.StateOf("one"), kQueued);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
  const Job job = harness_.Get("one");
  EXPECT_EQ(job.state, kRunning);
  EXPECT_EQ(job.lease.epoch, lease.epoch);
  EXPECT_EQ(job.attempt, 1u);
  EXPECT_THAT(leases().Acquire({"worker-b"}), IsOkAndHolds(testing::Eq(std::nullopt)));
}

TEST_F(LeaseTest, ACommitAfterExpiryCountsWhenNobodyElseWasGranted) {
  const LeaseRef lease = harness_.Running("one");
  Expire();
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
  EXPECT_EQ(harness_.StateOf("one"), kRunning);
  Expire();
  EXPECT_EQ(leases().Finish(lease, {})->state, kSucceeded);
}

TEST_F(LeaseTest, EpochIsTheProofAndAStatedWorkerMustMatch) {
  LeaseRef lease = harness_.Running("one", "worker-a");
  lease.worker = "worker-b";
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), kFenced());
  lease.worker = "";
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOk());
  lease.epoch = 2;
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), kFenced());
  lease.epoch = 0;
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), kFenced());
}

TEST_F(LeaseTest, AJobThatWasNeverGrantedHasNoHolder) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(leases().Renew({{"default", "one"}, "", 0}, WorkPhase::kRunning), kFenced());
  EXPECT_EQ(harness_.StateOf("one"), kQueued);
}

TEST_F(LeaseTest, RestartKeepsLeasesForOneTtlAndEpochsForEver) {
  const LeaseRef lease = harness_.Running("one");
  harness_.clock.Advance(absl::Hours(2));  // the server was down
  harness_.Restart();
  harness_.Tick();
  EXPECT_EQ(harness_.StateOf("one"), kRunning);
  EXPECT_THAT(leases().Acquire({"worker-b"}), IsOkAndHolds(testing::Eq(std::nullopt)));
  harness_.clock.Advance(harness_.options.lease_ttl - absl::Seconds(1));
  harness_.Tick();
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
  Expire();
  EXPECT_EQ(harness_.StateOf("one"), kQueued);
  EXPECT_EQ(harness_.Grant("worker-b").epoch, 2u);
}

TEST_F(LeaseTest, RestartAfterExpiryLetsTheHolderBackIn) {
  const LeaseRef lease = harness_.Running("one");
  Expire();
  harness_.Restart();
  EXPECT_THAT(leases().ReportProgress(lease, {}), IsOk());
  EXPECT_EQ(harness_.StateOf("one"), kRunning);
}

TEST_F(LeaseTest, LostWorkerEndsWhatWasAskedFor) {
  const LeaseRef cancelled = harness_.Running("cancel");
  const LeaseRef paused = harness_.Running("pause");
  EXPECT_THAT(queue().Cancel(cancelled.job), IsOk());
  EXPECT_THAT(queue().Pause(paused.job), IsOk());
  Expire();
  EXPECT_EQ(harness_.StateOf("cancel"), kCancelled);
  EXPECT_EQ(harness_.StateOf("pause"), kPaused);
  EXPECT_THAT(leases().Renew(paused, WorkPhase::kRunning), kFenced());
  // The holder reconnects and reports its outcome again, which changes nothing.
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kCancelled;
  EXPECT_THAT(leases().Finish(cancelled, outcome), IsOk());
}

TEST_F(LeaseTest, AttachLosesWhatTheWorkerNoLongerHolds) {
  const LeaseRef kept = harness_.Running("kept");
  harness_.Running("lost");
  const LeaseRef other = harness_.Running("other", "worker-b");
  ASSERT_THAT(leases().Attach("worker-a", std::span(&kept, 1)), IsOk());
  EXPECT_EQ(harness_.StateOf("kept"), kRunning);
  EXPECT_EQ(harness_.StateOf("lost"), kQueued);
  EXPECT_EQ(harness_.Get("lost").queue_reason, QueueReason::kWorkerLost);
  EXPECT_EQ(harness_.StateOf("other"), kRunning);
  EXPECT_THAT(leases().Renew(other, WorkPhase::kRunning), IsOk());
}

TEST_F(LeaseTest, ReleaseHandsTheJobToTheNextWorkerWithItsCheckpoint) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5)), IsOk());
  const auto released = leases().Release(lease);
  ASSERT_THAT(released, IsOk());
  EXPECT_EQ(released->queue_reason, QueueReason::kWorkerDrained);
  EXPECT_EQ(released->crashes_in_row, 0u);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), kFenced()) << "handed back for good";
  EXPECT_EQ((*leases().Acquire({"worker-b"}))->resume->step, 5u);
}

TEST_F(LeaseTest, ThreeCrashesInARowWithoutACheckpointFailTheJob) {
  EXPECT_THAT(queue().Create(harness_.Spec("poison")), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("other")), IsOk());
  for (int i = 0; i < 2; ++i) {
    const LeaseRef lease = harness_.Grant();
    ASSERT_EQ(lease.job.id, "poison") << "it keeps its place in the queue";
    EXPECT_EQ(leases().ReportEngineCrash(lease, "signal 11")->state, kQueued);
    EXPECT_EQ(harness_.Get("poison").queue_reason, QueueReason::kEngineCrashed);
  }
  const auto failed = leases().ReportEngineCrash(harness_.Grant(), "signal 11");
  ASSERT_THAT(failed, IsOk());
  EXPECT_EQ(failed->state, kFailed);
  EXPECT_EQ(failed->error.reason, reason::kEngineCrashed);
  EXPECT_THAT(failed->error.message, testing::HasSubstr("3 times"));
  EXPECT_THAT(failed->error.message, testing::HasSubstr("signal 11"));
  EXPECT_EQ(harness_.Grant().job.id, "other");
}

TEST_F(LeaseTest, ACheckpointOrARestartInBetween) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  for (int i = 1; i <= 6; ++i) {
    const LeaseRef lease = harness_.Grant();
    if (i % 2 == 0) {
      ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(i)), IsOk());
    }
    EXPECT_EQ(leases().ReportEngineCrash(lease, "x")->state, kQueued) << i;
    harness_.Restart();  // the count survives
  }
  EXPECT_EQ(harness_.Get("one").crashes_in_row, 1u);
  EXPECT_EQ(harness_.Get("one").attempt, 6u);
}

TEST_F(LeaseTest, LostWorkersDoNotCountAsCrashes) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  for (int i = 0; i < 10; ++i) {
    harness_.Grant();
    Expire();
  }
  EXPECT_EQ(harness_.StateOf("one"), kQueued);
}

TEST_F(LeaseTest, CrashWhileCancellingOrPausingEndsWhatWasAskedFor) {
  const LeaseRef cancelled = harness_.Running("cancel");
  const LeaseRef paused = harness_.Running("pause");
  EXPECT_THAT(queue().Cancel(cancelled.job), IsOk());
  EXPECT_THAT(queue().Pause(paused.job), IsOk());
  EXPECT_EQ(leases().ReportEngineCrash(cancelled, "x")->state, kCancelled);
  EXPECT_EQ(leases().ReportEngineCrash(paused, "x")->state, kPaused);
}

TEST_F(LeaseTest, CheckpointCommitsOnceAndOnlyForward) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10, 30.0)), IsOk());
  const uint64_t sequence = harness_.Get("one").last_event_sequence;
  // The reply was lost and the worker repeats the call.
  const auto again = leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10, 30.0));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->checkpoint.step, 10u);
  EXPECT_EQ(harness_.Get("one").last_event_sequence, sequence);
  CheckpointRecord other = QueueHarness::Checkpoint(10);
  other.checkpoint_blob = QueueHarness::Blob("other");
  const auto conflict = FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict);
  EXPECT_THAT(leases().CommitCheckpoint(lease, other), conflict);
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(9)), conflict);
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(0)),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

TEST_F(LeaseTest, CheckpointWithoutItsBlobsIsRefused) {
  const LeaseRef lease = harness_.Running("one");
  harness_.blobs.missing.insert(QueueHarness::Blob("model 10").sha256);
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10)),
              FailsWith(StatusCode::kFailedPrecondition, reason::kBlobsMissing));
  EXPECT_TRUE(harness_.Get("one").checkpoints.empty());
}

TEST_F(LeaseTest, RetiredCheckpointsAreNamedAndNoLongerReachable) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(1, 20.0)), IsOk());
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(2, 35.0)), IsOk());
  for (uint32_t step : {3, 4}) {
    ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(step, 25.0)), IsOk());
  }
  const auto commit = leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5, 26.0));
  ASSERT_THAT(commit, IsOk());
  EXPECT_THAT(commit->retired, testing::IsEmpty());
  EXPECT_THAT(QueueHarness::Steps(harness_.Get("one")), testing::ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(harness_.Get("one").best_preview_psnr, 35.0);
  const auto reachable = harness_.state->ReachableBlobs();
  EXPECT_FALSE(reachable.contains(QueueHarness::Blob("checkpoint 1").sha256));
  EXPECT_TRUE(reachable.contains(QueueHarness::Blob("model 2").sha256));
  EXPECT_THAT(harness_.blobs.released,
              testing::UnorderedElementsAre(QueueHarness::Blob("checkpoint 1").sha256,
                                            QueueHarness::Blob("model 1").sha256));
}

TEST_F(LeaseTest, JobThatSucceededKeepsItsLastAndItsBestCheckpoint) {
  const LeaseRef lease = harness_.Running("one");
  for (const auto& [step, psnr] : {std::pair(1, 20.0), {2, 35.0}, {3, 25.0}, {4, 26.0}}) {
    ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(step, psnr)), IsOk());
  }
  harness_.blobs.released.clear();
  ASSERT_THAT(leases().Finish(lease, {}), IsOk());
  EXPECT_THAT(QueueHarness::Steps(harness_.Get("one")), testing::ElementsAre(2, 4));
  EXPECT_THAT(harness_.blobs.released,
              testing::UnorderedElementsAre(QueueHarness::Blob("checkpoint 3").sha256,
                                            QueueHarness::Blob("model 3").sha256));
}

TEST_F(LeaseTest, JobThatWasCancelledKeepsWhatItHad) {
  const LeaseRef lease = harness_.Running("one");
  for (uint32_t step : {1, 2, 3}) {
    ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(step)), IsOk());
  }
  EXPECT_THAT(queue().Cancel(lease.job), IsOk());
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kCancelled;
  ASSERT_THAT(leases().Finish(lease, outcome), IsOk());
  EXPECT_THAT(QueueHarness::Steps(harness_.Get("one")), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(harness_.blobs.released, testing::IsEmpty());
}

TEST_F(LeaseTest, PreviewsStayWithTheJobLiveAndStored) {
  const LeaseRef lease = harness_.Running("one");
  const auto report = [&](uint32_t step, const std::string& image) {
    internal::JobProgress progress;
    progress.mutable_training()->set_step(step);
    *progress.mutable_training()->mutable_preview_image() = ToProto(QueueHarness::Blob(image));
    ASSERT_THAT(leases().ReportProgress(lease, progress), IsOk());
  };
  report(1, "first");
  report(2, "first");
  report(3, "second");  // live
  harness_.clock.Advance(harness_.options.progress_store_interval);
  report(4, "third");  // stored
  harness_.Restart();
  EXPECT_EQ(harness_.Get("one").previews.size(), 3u);
  JobOutcome outcome;
  v1::Progress& last = outcome.progress.emplace();
  last.set_step(5);
  *last.mutable_preview_image() = ToProto(QueueHarness::Blob("last"));
  ASSERT_THAT(leases().Finish(lease, outcome), IsOk());
  EXPECT_THAT(harness_.blobs.released, testing::IsEmpty());
  const auto reachable = harness_.state->ReachableBlobs();
  for (const char* image : {"first", "second", "third", "last"}) {
    EXPECT_TRUE(reachable.contains(QueueHarness::Blob(image).sha256)) << image;
  }
}

TEST_F(LeaseTest, DeathsOfASharedEngineFailNoJobAndTheNextAttemptHasItAlone) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  for (int i = 0; i < 10; ++i) {
    const auto grant = **leases().Acquire({"worker-a"});
    EXPECT_EQ(grant.alone, i > 0);
    ASSERT_THAT(leases().ReportEngineCrash(grant.lease, "killed", /*shared_engine=*/true), IsOk());
    EXPECT_EQ(harness_.StateOf("one"), kQueued);
  }
  // With the engine to itself, each crash counts.
  for (int i = 0; i < harness_.options.max_attempts; ++i) {
    ASSERT_EQ(harness_.StateOf("one"), kQueued);
    EXPECT_THAT(leases().ReportEngineCrash(harness_.Grant(), "killed"), IsOk());
  }
  EXPECT_EQ(harness_.StateOf("one"), kFailed);
}

TEST_F(LeaseTest, AttemptsStayAloneUntilACheckpointHoweverTheyEnd) {
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(leases().ReportEngineCrash(harness_.Grant(), "killed", /*shared_engine=*/true),
              IsOk());
  ASSERT_THAT(leases().Release((*leases().Acquire({"worker-a"}))->lease), IsOk());
  harness_.Restart();
  EXPECT_TRUE((*leases().Acquire({"worker-a"}))->alone) << "drained";
  Expire();
  const auto grant = **leases().Acquire({"worker-b"});
  EXPECT_TRUE(grant.alone) << "lost";
  ASSERT_THAT(leases().CommitCheckpoint(grant.lease, QueueHarness::Checkpoint(5)), IsOk());
  ASSERT_THAT(leases().Release(grant.lease), IsOk());
  EXPECT_FALSE((*leases().Acquire({"worker-a"}))->alone);
}

TEST_F(LeaseTest, FinishIsHeardAgainWhenItsReplyWasLost) {
  const LeaseRef lease = harness_.Running("one");
  JobOutcome outcome;
  outcome.final_psnr = 33.1;
  EXPECT_EQ(leases().Finish(lease, outcome)->state, kSucceeded);
  harness_.Restart();
  const auto again = leases().Finish(lease, outcome);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->final_psnr, 33.1);
  EXPECT_EQ(harness_.observer.n_finished, 1);
  EXPECT_THAT(leases().Finish({lease.job, lease.worker, 7}, outcome), kFenced());
}

TEST_F(LeaseTest, FailureKeepsItsCauseWhole) {
  const LeaseRef lease = harness_.Running("one");
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kFailed;
  outcome.error = {StatusCode::kInvalidArgument,
                   "FIELD_INVALID",
                   "bad scene",
                   {{"k", "v"}},
                   {QueueHarness::SceneProblem("transforms_train.json", "frames[3]", "no image")}};
  ASSERT_THAT(leases().Finish(lease, outcome), IsOk());
  QueueHarness::ExpectEqual(harness_.Get("one").error, outcome.error);
}

TEST_F(LeaseTest, DamagedCheckpointFallsBackToTheOneBefore) {
  LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10)), IsOk());
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(20)), IsOk());
  ASSERT_THAT(leases().Release(lease), IsOk());
  JobOutcome corrupt;
  corrupt.kind = JobOutcome::Kind::kFailed;
  corrupt.error.code = absl::StatusCode::kDataLoss;
  corrupt.error.reason = std::string(reason::kCheckpointCorrupt);
  for (const std::vector<uint32_t>& left : {std::vector<uint32_t>{10}, std::vector<uint32_t>{}}) {
    lease = harness_.Grant();
    ASSERT_THAT(leases().Finish(lease, corrupt), IsOk());
    EXPECT_EQ(harness_.StateOf("one"), JobState::kQueued);
    EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kCheckpointCorrupt);
    EXPECT_EQ(QueueHarness::Steps(harness_.Get("one")), left);
  }
  lease = harness_.Grant();
  ASSERT_THAT(leases().Finish(lease, corrupt), IsOk());
  EXPECT_EQ(harness_.StateOf("one"), JobState::kFailed) << "there is none to drop";
}

TEST_F(LeaseTest, StopThatNobodyAskedForIsRefused) {
  const LeaseRef lease = harness_.Running("one");
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kCancelled;
  EXPECT_THAT(leases().Finish(lease, outcome),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  EXPECT_EQ(harness_.StateOf("one"), kRunning);
}

TEST_F(LeaseTest, SuccessThatCrossesACancelEndsCancelled) {
  const LeaseRef lease = harness_.Running("one");
  EXPECT_THAT(queue().Cancel(lease.job), IsOk());
  EXPECT_EQ(leases().Finish(lease, {})->state, kCancelled);
}

TEST_F(LeaseTest, FailureThatCrossesACancelEndsFailedWithItsCause) {
  const LeaseRef lease = harness_.Running("one");
  EXPECT_THAT(queue().Cancel(lease.job), IsOk());
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kFailed;
  outcome.error.reason = "TRAINING_DIVERGED";
  const auto job = leases().Finish(lease, outcome);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->state, kFailed);
  EXPECT_EQ(job->error.reason, "TRAINING_DIVERGED");
}

TEST_F(LeaseTest, SubscribersHearOfNewWorkAndOfTheirOrders) {
  int heard_a = 0, heard_b = 0;
  const auto a = leases().SubscribeWork("worker-a", [&] { ++heard_a; });
  auto b = leases().SubscribeWork("worker-b", [&] { ++heard_b; });
  const LeaseRef lease = harness_.Running("one", "worker-a");
  EXPECT_EQ(heard_a, 1);
  EXPECT_EQ(heard_b, 1);
  EXPECT_THAT(queue().Cancel(lease.job), IsOk());
  EXPECT_EQ(heard_a, 2);
  EXPECT_EQ(heard_b, 1) << "not its lease";
  b.reset();
  EXPECT_THAT(queue().Create(harness_.Spec()), IsOk());
  EXPECT_EQ(heard_b, 1);
}

}  // namespace
}  // namespace nerf
