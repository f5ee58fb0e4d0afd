// Trainings that name a pose job in place of a scene.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "server/queue/state/pose_jobs.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class PoseTrainingTest : public testing::Test {
 protected:
  static constexpr char kPoses[] = "fox", kTraining[] = "train";

  static JobSpec PoseSpec(const std::string& id = kPoses, const std::string& scene = "garden") {
    JobSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.kind = JobKind::kPose;
    spec.pose.files = {{"a.jpg", QueueHarness::Blob("a")}};
    spec.pose.scene = scene;
    return spec;
  }
  JobSpec TrainingSpec(const std::string& id = kTraining, const std::string& poses = kPoses) {
    JobSpec spec = harness_.Spec(id);
    spec.training.scene.clear();
    spec.training.pose_job = poses;
    return spec;
  }
  void CreateBoth() {
    ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
    ASSERT_THAT(harness_.queue->Create(TrainingSpec()), IsOk());
  }

  // What a server does each second.
  void Tick() {
    harness_.clock.Advance(absl::Seconds(1));
    JobUpkeep(harness_.state.get(), &workers_).Tick();
  }
  std::optional<LeaseGrant> Acquire(const std::string& offer) {
    const auto grant = harness_.leases->Acquire({"worker-" + offer, {offer}});
    EXPECT_THAT(grant, IsOk());
    return *grant;
  }
  void Pose(const std::vector<SceneFileRecord>& files = {
                {"images/a.jpg", QueueHarness::Blob("upright a")}}) {
    const std::optional<LeaseGrant> grant = Acquire("colmap");
    ASSERT_TRUE(grant.has_value());
    ASSERT_THAT(harness_.leases->CommitPoses(grant->lease, v1::PoseReport(), files), IsOk());
  }
  void FailPoses() {
    const std::optional<LeaseGrant> grant = Acquire("colmap");
    ASSERT_TRUE(grant.has_value());
    JobOutcome outcome;
    outcome.kind = JobOutcome::Kind::kFailed;
    outcome.error = {StatusCode::kInvalidArgument,
                     std::string(reason::kDatasetInvalid),
                     "1 of 2 are posed",
                     {},
                     {QueueHarness::SceneProblem("b.jpg", "", "no overlap")}};
    ASSERT_THAT(harness_.leases->Finish(grant->lease, outcome), IsOk());
  }
  void CancelPoses() { ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key(kPoses)), IsOk()); }
  absl::Status DeletePoses() { return harness_.queue->Delete(QueueHarness::Key(kPoses)); }
  Job Get(const std::string& id = kTraining) { return harness_.Get(id); }

  QueueHarness harness_;
  WorkerTable workers_{&harness_.clock, harness_.options.lease_ttl};
};

TEST_F(PoseTrainingTest, StartsByItselfOnceTheSceneIsThereAlsoAfterRestarts) {
  CreateBoth();
  EXPECT_EQ(Get().training.scene, "garden");
  EXPECT_EQ(Get().state, JobState::kQueued);
  EXPECT_TRUE(harness_.queue->IsQueued(Get()));
  EXPECT_EQ(harness_.queue->Stats().n_queued, 1u) << "the pose job";
  harness_.Restart();
  Tick();
  EXPECT_TRUE(Get().awaits_poses);
  EXPECT_FALSE(Acquire("ngp").has_value());
  const QueuePlace place = harness_.queue->PlaceOf(Get());
  ASSERT_TRUE(place.poses.has_value());
  EXPECT_EQ(place.poses->key.id, kPoses);
  Pose();
  EXPECT_FALSE(Acquire("ngp").has_value());
  harness_.Restart();
  auto watcher = *harness_.queue->Watch(QueueHarness::Key(kTraining), "", [] {});
  QueueHarness::Drain(*watcher);
  Tick();
  const std::vector<WatchEvent> events = QueueHarness::Drain(*watcher);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, WatchEventKind::kStateChanged);
  watcher.reset();
  harness_.Restart();
  EXPECT_FALSE(Get().awaits_poses);
  EXPECT_EQ(Get().training.pose_job, kPoses);
  const std::optional<LeaseGrant> grant = Acquire("ngp");
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->lease.job.id, kTraining);
  ASSERT_EQ(grant->scene.files.size(), 1u);
  EXPECT_EQ(grant->scene.files[0].path, "images/a.jpg");
}

TEST_F(PoseTrainingTest, NamesAPoseJobThatHasSucceededAndWaitsForNothing) {
  ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
  Pose();
  ASSERT_THAT(harness_.queue->Create(TrainingSpec()), IsOk());
  EXPECT_FALSE(Get().awaits_poses);
  EXPECT_EQ(Acquire("ngp")->scene.key.id, "garden");
}

TEST_F(PoseTrainingTest, FailsWithThePoseJobsErrorAndProblems) {
  CreateBoth();
  FailPoses();
  Tick();
  const Job job = Get();
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error.code, StatusCode::kInvalidArgument);
  EXPECT_EQ(job.error.reason, reason::kDatasetInvalid);
  EXPECT_EQ(job.error.message, "1 of 2 are posed (pose job fox)");
  EXPECT_EQ(job.error.metadata.at("pose_job"), "projects/default/jobs/fox");
  ASSERT_EQ(job.error.problems.size(), 1u);
  harness_.Restart();
  Tick();
  EXPECT_EQ(Get().state, JobState::kFailed);
  EXPECT_EQ(harness_.observer.n_finished, 2);
}

TEST_F(PoseTrainingTest, FailsIfThePoseJobIsCancelledOrGone) {
  CreateBoth();
  CancelPoses();
  Tick();
  EXPECT_EQ(Get().state, JobState::kFailed);
  EXPECT_EQ(Get().error.reason, reason::kPosesMissing);
  EXPECT_THAT(Get().error.message, HasSubstr("was cancelled (pose job fox)"));

  ASSERT_THAT(harness_.queue->Create(PoseSpec("gone", "meadow")), IsOk());
  ASSERT_THAT(harness_.queue->Create(TrainingSpec("second", "gone")), IsOk());
  {  // a store that lost it
    MutexLock lock(harness_.state->mu);
    harness_.state->EntryOf(QueueHarness::Key("gone")).job.kind = JobKind::kRender;
    const auto change =
        AfterPoses(*harness_.state, harness_.state->EntryOf(QueueHarness::Key("second")));
    harness_.state->EntryOf(QueueHarness::Key("gone")).job.kind = JobKind::kPose;
    ASSERT_TRUE(change.has_value());
    EXPECT_EQ(change->job.state, JobState::kFailed);
    EXPECT_THAT(change->job.error.message, HasSubstr("was deleted"));
  }
}

TEST_F(PoseTrainingTest, PausedOneGoesOnOrFailsToo) {
  CreateBoth();
  ASSERT_THAT(harness_.queue->Pause(QueueHarness::Key(kTraining)), IsOk());
  Pose();
  Tick();
  EXPECT_EQ(Get().state, JobState::kPaused);
  EXPECT_FALSE(Get().awaits_poses);
  EXPECT_FALSE(Acquire("ngp").has_value());
  ASSERT_THAT(harness_.queue->Resume(QueueHarness::Key(kTraining)), IsOk());
  EXPECT_TRUE(Acquire("ngp").has_value());

  ASSERT_THAT(harness_.queue->Create(PoseSpec("hen", "yard")), IsOk());
  ASSERT_THAT(harness_.queue->Create(TrainingSpec("second", "hen")), IsOk());
  ASSERT_THAT(harness_.queue->Pause(QueueHarness::Key("second")), IsOk());
  FailPoses();
  Tick();
  EXPECT_EQ(Get("second").state, JobState::kFailed);
}

TEST_F(PoseTrainingTest, CancelledOneLeavesThePoseJobAlone) {
  CreateBoth();
  EXPECT_EQ(harness_.queue->Cancel(QueueHarness::Key(kTraining))->state, JobState::kCancelled);
  Pose();
  Tick();
  EXPECT_EQ(Get().state, JobState::kCancelled);
  EXPECT_THAT(harness_.scenes->Get(QueueHarness::Key("garden")), IsOk());
}

TEST_F(PoseTrainingTest, PoseJobIsDeletedAfterWhatWaitsForItWasDecided) {
  CreateBoth();
  EXPECT_EQ(GetReason(DeletePoses())->reason, reason::kStateConflict) << "not over";
  CancelPoses();
  ASSERT_THAT(DeletePoses(), IsOk());
  EXPECT_EQ(Get().state, JobState::kFailed);
  EXPECT_THAT(Get().error.message, HasSubstr("was cancelled"));

  ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
  ASSERT_THAT(harness_.queue->Create(TrainingSpec("second")), IsOk());
  ASSERT_THAT(harness_.queue->Create(TrainingSpec("third")), IsOk());
  Pose();
  const ResourceKey keys[] = {QueueHarness::Key(kPoses)};
  EXPECT_THAT(harness_.queue->DeleteEnded(keys), IsOkAndHolds(0u)) << "retention waits";
  ASSERT_THAT(DeletePoses(), IsOk());
  harness_.Restart();
  EXPECT_FALSE(Get("second").awaits_poses);
  EXPECT_EQ(Acquire("ngp")->lease.job.id, "second");
  Tick();
  EXPECT_EQ(Get("third").state, JobState::kQueued);
}

TEST_F(PoseTrainingTest, RefusedWriteChangesNothingAndIsTriedAgain) {
  CreateBoth();
  Pose();
  harness_.memory_store.before_commit = [](int) { return absl::UnavailableError("full"); };
  Tick();
  EXPECT_TRUE(Get().awaits_poses);
  EXPECT_THAT(DeletePoses(), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(harness_.queue->Get(QueueHarness::Key(kPoses)), IsOk());
  harness_.memory_store.before_commit = nullptr;
  Tick();
  EXPECT_FALSE(Get().awaits_poses);
}

TEST_F(PoseTrainingTest, PoseJobsThatMakeNoSceneAreRefused) {
  EXPECT_EQ(GetReason(harness_.queue->Create(TrainingSpec()).status())->reason,
            reason::kResourceNotFound);
  ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
  ASSERT_THAT(harness_.queue->Create(TrainingSpec(), /*validate_only=*/true), IsOk());
  CancelPoses();
  const absl::Status refused = harness_.queue->Create(TrainingSpec()).status();
  EXPECT_EQ(GetReason(refused)->reason, reason::kStateConflict);
  EXPECT_THAT(refused.message(), HasSubstr("jobs/fox is CANCELLED"));
  harness_.AddScene();
  ASSERT_THAT(harness_.queue->Create(harness_.Spec("other")), IsOk());
  EXPECT_THAT(harness_.queue->Create(TrainingSpec("x", "other")),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("jobs/other is a training job: it makes no scene")));
  ASSERT_THAT(harness_.queue->Create(PoseSpec("hen", "yard")), IsOk());
  Pose();
  ASSERT_THAT(harness_.scenes->Delete(QueueHarness::Key("yard")), IsOk());
  EXPECT_THAT(harness_.queue->Create(TrainingSpec("x", "hen")), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(harness_.queue->Create(TrainingSpec("x", "BAD")),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(PoseTrainingTest, SomebodysSceneOfTheSameNameIsNotTrainedOn) {
  CreateBoth();
  CancelPoses();
  ASSERT_EQ(harness_.AddScene("garden"), "garden");
  Tick();
  EXPECT_EQ(Get().state, JobState::kFailed);
}

TEST_F(PoseTrainingTest, SceneThatAWaitingTrainingNeedsStays) {
  CreateBoth();
  Pose();
  EXPECT_EQ(GetReason(harness_.scenes->Delete(QueueHarness::Key("garden")))->reason,
            reason::kStateConflict);
}

TEST_F(PoseTrainingTest, RepeatedRequestFindsItsJobWhateverBecameOfThePoses) {
  ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
  ASSERT_THAT(harness_.queue->Create(PoseSpec("hen", "yard")), IsOk());
  JobSpec spec = TrainingSpec("");
  spec.request_id = kRequestA;
  const auto first = harness_.queue->Create(spec);
  ASSERT_THAT(first, IsOk());
  CancelPoses();
  ASSERT_THAT(DeletePoses(), IsOk());
  harness_.Restart();
  const auto again = harness_.queue->Create(spec);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->key, first->key);
  EXPECT_EQ(again->state, JobState::kFailed);
  spec.training.pose_job = "hen";
  EXPECT_EQ(GetReason(harness_.queue->Create(spec).status())->reason, reason::kRequestIdReused);
}

TEST_F(PoseTrainingTest, WaitingOnesCountAsQueuedJobs) {
  CreateBoth();
  {
    MutexLock lock(harness_.state->mu);
    ProjectRecord record{.project = "default", .quota = {}, .retention = {}};
    record.quota.max_queued_jobs = 2;
    harness_.state->TakeSettings(record);
  }
  EXPECT_THAT(harness_.queue->Create(TrainingSpec("third")),
              StatusIs(StatusCode::kResourceExhausted));
  QueueOptions options;
  options.max_queued_jobs = 2;
  QueueHarness small(nullptr, options);
  ASSERT_THAT(small.queue->Create(PoseSpec()), IsOk());
  ASSERT_THAT(small.queue->Create(TrainingSpec()), IsOk());
  EXPECT_EQ(GetReason(small.queue->Create(TrainingSpec("third")).status())->reason,
            reason::kQueueFull);
}

TEST_F(PoseTrainingTest, RetryWaitsAgainOrTakesTheSceneThatIsThere) {
  CreateBoth();
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key(kTraining)), IsOk());
  JobSpec retry;
  retry.project = "default";
  retry.id = "again";
  retry.retry_of = kTraining;
  ASSERT_THAT(harness_.queue->Create(retry), IsOk());
  EXPECT_TRUE(Get("again").awaits_poses);
  Pose();
  Tick();
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key("again")), IsOk());
  ASSERT_THAT(DeletePoses(), IsOk());
  retry.id = "third";
  retry.retry_of = "again";
  ASSERT_THAT(harness_.queue->Create(retry), IsOk());
  EXPECT_EQ(Acquire("ngp")->lease.job.id, "third");

  ASSERT_THAT(harness_.queue->Create(PoseSpec("hen", "yard")), IsOk());
  ASSERT_THAT(harness_.queue->Create(TrainingSpec("lost", "hen")), IsOk());
  FailPoses();
  Tick();
  retry.id = "fourth";
  retry.retry_of = "lost";
  EXPECT_EQ(GetReason(harness_.queue->Create(retry).status())->reason, reason::kStateConflict);
}

TEST_F(PoseTrainingTest, PartsWaitToo) {
  ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
  JobSpec spec = TrainingSpec();
  spec.training.config.set_method("ngp-tiles");
  spec.training.workers = {1, 2};
  for (int part = 0; part < 2; ++part) {
    spec.parts.push_back({spec.training.config, "", std::nullopt});
  }
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  Tick();
  EXPECT_FALSE(Acquire("ngp-tiles").has_value());
  Pose();
  Tick();
  EXPECT_FALSE(Get().awaits_poses);
  const auto grant = harness_.leases->Acquire({"worker-tiles", {"ngp-tiles", "merge/ngp-tiles"}});
  ASSERT_THAT(grant, IsOk());
  ASSERT_TRUE(grant->has_value());
  EXPECT_EQ((*grant)->lease.job.id, "train-part0");
  EXPECT_TRUE(WaitsForParts(Get()));
}

TEST_F(PoseTrainingTest, DeadlineOfItsStartPassesWhileItWaits) {
  ASSERT_THAT(harness_.queue->Create(PoseSpec()), IsOk());
  JobSpec spec = TrainingSpec();
  spec.start_by = harness_.clock.WallNow() + absl::Seconds(5);
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  harness_.clock.Advance(absl::Seconds(6));
  Tick();
  EXPECT_EQ(Get().error.reason, reason::kStartDeadlineExceeded);
  Pose();
  Tick();
  EXPECT_EQ(Get().state, JobState::kFailed);
}

}  // namespace
}  // namespace nerf
