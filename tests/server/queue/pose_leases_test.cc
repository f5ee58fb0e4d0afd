// Pose jobs in the queue: granted, reported, lost, finished and cancelled by workers that are calls
// of this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "common/messages/deterministic_bytes.h"
#include "server/queue/leases/queue_wait.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class PoseLeasesTest : public testing::Test {
 protected:
  LeaseTable& leases() { return *harness_.leases; }
  JobQueue& queue() { return *harness_.queue; }
  Job Get(const std::string& id) { return *queue().Get(QueueHarness::Key(id)); }
  size_t CountIn(JobState state) { return queue().Stats().jobs_of_kind[{JobKind::kPose, state}]; }

  static JobSpec Spec(const std::string& id, const std::string& scene = "garden") {
    JobSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.kind = JobKind::kPose;
    spec.pose.files = {{"a.jpg", QueueHarness::Blob("a")}, {"b.jpg", QueueHarness::Blob("b")}};
    spec.pose.scene = scene;
    return spec;
  }

  std::optional<LeaseGrant> Acquire(const std::string& worker = "worker-a",
                                    std::vector<std::string> offers = {"ngp", "colmap"}) {
    auto grant = leases().Acquire({worker, std::move(offers)});
    EXPECT_THAT(grant, IsOk());
    return *grant;
  }

  static v1::PoseReport Report() {
    v1::PoseReport report;
    report.set_photographs(2);
    report.set_usable(2);
    report.set_posed(2);
    *report.mutable_json() = ToProto(QueueHarness::Blob("report"));
    return report;
  }
  static std::vector<SceneFileRecord> SceneFiles() {
    return {{"sparse/0/images.bin", QueueHarness::Blob("model")},
            {"images/a.jpg", QueueHarness::Blob("upright a")}};
  }
  static internal::JobProgress Progress(uint32_t stage) {
    internal::JobProgress progress;
    progress.mutable_pose()->set_stage(stage);
    progress.mutable_pose()->set_stages(7);
    progress.mutable_pose()->set_doing("placing cameras");
    return progress;
  }

  QueueHarness harness_;
};

TEST_F(PoseLeasesTest, CommittedFilesBecomeTheSceneAndEndTheJob) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  EXPECT_EQ(CountIn(JobState::kQueued), 1u);
  const LeaseGrant grant = *Acquire();
  EXPECT_EQ(grant.job.kind, JobKind::kPose);
  EXPECT_EQ(grant.job.pose.files.size(), 2u);
  ASSERT_THAT(leases().Renew(grant.lease, WorkPhase::kPreparing), IsOk());
  ASSERT_THAT(leases().ReportProgress(grant.lease, Progress(6)), IsOk());
  EXPECT_EQ(Get("fox").state, JobState::kRunning);
  EXPECT_EQ(Get("fox").progress.pose().doing(), "placing cameras");
  for (int i = 0; i < 2; ++i) {  // the reply may be lost
    ASSERT_THAT(leases().CommitPoses(grant.lease, Report(), SceneFiles()), IsOk());
    // A heartbeat may still be on the way.
    EXPECT_THAT(leases().Renew(grant.lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
    ASSERT_THAT(leases().Finish(grant.lease, {}), IsOk());
  }
  EXPECT_EQ(Get("fox").state, JobState::kSucceeded);
  EXPECT_TRUE(AreEqual(Get("fox").pose_report.value(), Report()));
  const auto scene = harness_.scenes->Get(QueueHarness::Key("garden"));
  ASSERT_THAT(scene, IsOk());
  ASSERT_EQ(scene->files.size(), 2u);
  EXPECT_EQ(scene->files[0].path, "images/a.jpg");
  const std::set<std::string> kept = harness_.state->ReachableBlobs();
  EXPECT_TRUE(kept.contains(QueueHarness::Blob("upright a").sha256));
  EXPECT_TRUE(kept.contains(QueueHarness::Blob("report").sha256));
  EXPECT_FALSE(kept.contains(QueueHarness::Blob("b").sha256)) << "an input, of no use any more";
  harness_.Restart();
  EXPECT_EQ(CountIn(JobState::kQueued), 0u);
  EXPECT_EQ(CountIn(JobState::kSucceeded), 1u);
  ASSERT_THAT(queue().Delete(QueueHarness::Key("fox")), IsOk());
  EXPECT_EQ(CountIn(JobState::kSucceeded), 0u);
  EXPECT_THAT(harness_.scenes->Get(QueueHarness::Key("garden")), IsOk());
}

TEST_F(PoseLeasesTest, SceneIsThereAfterARestartInWhateverOrderItCame) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  const LeaseGrant grant = *Acquire();
  harness_.Restart();
  ASSERT_THAT(leases().CommitPoses(grant.lease, Report(), SceneFiles()), IsOk());
  harness_.Restart();
  EXPECT_EQ(Get("fox").state, JobState::kSucceeded);
  EXPECT_TRUE(AreEqual(Get("fox").pose_report.value(), Report()));
  EXPECT_THAT(harness_.scenes->Get(QueueHarness::Key("garden")), IsOk());
  ASSERT_THAT(leases().CommitPoses(grant.lease, Report(), SceneFiles()), IsOk());
}

TEST_F(PoseLeasesTest, OnlyWorkersWithColmapGetItAndFilmsNeedFfmpegToo) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  EXPECT_FALSE(Acquire("worker-a", {"ngp", "render/ngp", "ffmpeg"}).has_value());
  EXPECT_FALSE(Acquire("worker-a", {}).has_value()) << "a worker of an older version";
  WorkerRecord worker;
  worker.connected = true;
  worker.description.id = "worker-a";
  worker.description.methods = {"ngp"};
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  const auto wait =
      ExplainWait(Get("fox"), std::vector{worker}, absl::ZeroDuration(), [] { return size_t{0}; });
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(wait->reason, kWaitNoCapableWorker);
  EXPECT_THAT(wait->message, HasSubstr("COLMAP"));
  worker.description.features = {"colmap"};
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  EXPECT_EQ(
      ExplainWait(Get("fox"), std::vector{worker}, absl::ZeroDuration(), [] { return size_t{0}; }),
      std::nullopt);

  JobSpec film = Spec("film", "other");
  film.pose.has_films = true;
  ASSERT_THAT(queue().Create(film), IsOk());
  const auto film_wait =
      ExplainWait(Get("film"), std::vector{worker}, absl::ZeroDuration(), [] { return size_t{0}; });
  ASSERT_TRUE(film_wait.has_value());
  EXPECT_THAT(film_wait->message, HasSubstr("ffmpeg"));
  EXPECT_EQ(Acquire("worker-a")->lease.job.id, "fox");
  EXPECT_FALSE(Acquire("worker-b").has_value());
  worker.description.ffmpeg_version = "5.1";
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  EXPECT_EQ(Acquire("worker-b", worker.description.Capabilities())->lease.job.id, "film");
}

TEST_F(PoseLeasesTest, LostWorkersJobStartsAgainFromTheBeginningAndSaysSo) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  const LeaseGrant lost = *Acquire();
  ASSERT_THAT(leases().ReportProgress(lost.lease, Progress(6)), IsOk());
  harness_.clock.Advance(harness_.options.lease_ttl + absl::Seconds(1));
  harness_.Tick();
  Job job = Get("fox");
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.queue_reason, QueueReason::kWorkerLost);
  EXPECT_EQ(job.queue_message, "worker worker-a was lost; it starts again from the beginning");
  EXPECT_EQ(job.progress.pose().stage(), 0u);
  const LeaseGrant second = *Acquire("worker-b");
  EXPECT_EQ(second.job.attempt, 2u);
  EXPECT_THAT(leases().CommitPoses(lost.lease, Report(), SceneFiles()),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_FALSE(harness_.scenes->Get(QueueHarness::Key("garden")).ok());
  EXPECT_THAT(leases().CommitPoses(second.lease, Report(), SceneFiles()), IsOk());
}

TEST_F(PoseLeasesTest, TooFewPosedPhotographsFailItAndKeepTheReport) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  const LeaseGrant grant = *Acquire();
  ASSERT_THAT(leases().CommitPoses(grant.lease, Report(), {}), IsOk());
  EXPECT_EQ(Get("fox").state, JobState::kRunning);
  EXPECT_THAT(leases().Finish(grant.lease, {}), StatusIs(StatusCode::kFailedPrecondition));
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kFailed;
  outcome.error = {StatusCode::kInvalidArgument,
                   "DATASET_INVALID",
                   "1 of 2 are posed",
                   {},
                   {QueueHarness::SceneProblem("b.jpg", "", "no overlap")}};
  ASSERT_THAT(leases().Finish(grant.lease, outcome), IsOk());
  const Job job = Get("fox");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error.problems.size(), 1u);
  EXPECT_TRUE(AreEqual(job.pose_report.value(), Report()));
  EXPECT_FALSE(harness_.scenes->Get(QueueHarness::Key("garden")).ok());
  // The name is free again, also after a restart.
  harness_.Restart();
  EXPECT_EQ(harness_.AddScene("garden"), "garden");
}

TEST_F(PoseLeasesTest, NobodyTakesThePromisedScene) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  EXPECT_THAT(queue().Create(Spec("other")), StatusIs(StatusCode::kAlreadyExists));
  for (int i = 0; i < 2; ++i) {
    SceneSpec spec;
    spec.project = "default";
    spec.id = "garden";
    spec.files = SceneFiles();
    EXPECT_THAT(harness_.scenes->Create(spec), StatusIs(StatusCode::kAlreadyExists));
    harness_.Restart();
  }
  harness_.AddScene("taken");
  EXPECT_THAT(queue().Create(Spec("other", "taken")), StatusIs(StatusCode::kAlreadyExists));
  const auto drawn = queue().Create(Spec("drawn", ""));
  ASSERT_THAT(drawn, IsOk());
  EXPECT_THAT(drawn->pose.scene, testing::StartsWith("s-"));
}

TEST_F(PoseLeasesTest, CancelIsAtOnceInTheQueueAndThroughItsWorkerLater) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  EXPECT_EQ(queue().Cancel(QueueHarness::Key("fox"))->state, JobState::kCancelled);
  ASSERT_THAT(queue().Create(Spec("hen")), IsOk());
  const LeaseGrant grant = *Acquire();
  EXPECT_EQ(queue().Cancel(QueueHarness::Key("hen"))->state, JobState::kCancelling);
  EXPECT_EQ(*leases().Renew(grant.lease, WorkPhase::kRunning), LeaseOrder::kCancel);
  const absl::Status late = leases().CommitPoses(grant.lease, Report(), SceneFiles());
  EXPECT_THAT(late, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(GetReason(late)->reason, reason::kStateConflict);
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kCancelled;
  ASSERT_THAT(leases().Finish(grant.lease, outcome), IsOk());
  EXPECT_EQ(Get("hen").state, JobState::kCancelled);
  EXPECT_EQ(harness_.AddScene("garden"), "garden");
}

TEST_F(PoseLeasesTest, RefusedCommitMakesNoScene) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  const LeaseGrant grant = *Acquire();
  std::vector<SceneFileRecord> outside = SceneFiles();
  outside[0].path = "../images.bin";
  EXPECT_THAT(leases().CommitPoses(grant.lease, Report(), outside),
              StatusIs(StatusCode::kInvalidArgument));
  harness_.blobs.missing = {QueueHarness::Blob("model").sha256};
  EXPECT_THAT(leases().CommitPoses(grant.lease, Report(), SceneFiles()),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_FALSE(harness_.scenes->Get(QueueHarness::Key("garden")).ok());
  EXPECT_FALSE(Get("fox").pose_report.has_value());
  EXPECT_NE(Get("fox").state, JobState::kSucceeded);
}

TEST_F(PoseLeasesTest, RepeatedRequestFindsTheJobAndAnotherBodyIsRefused) {
  JobSpec spec = Spec("", "");
  spec.request_id = kRequestA;
  const auto first = queue().Create(spec), again = queue().Create(spec);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(first->key, again->key);
  spec.pose.min_posed = 0.5;
  EXPECT_THAT(queue().Create(spec), StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(PoseLeasesTest, ItIsListedWithOtherKindsAndRefusesWhatItCannotDo) {
  harness_.AddScene();
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  ASSERT_THAT(queue().Create(harness_.Spec("training")), IsOk());
  EXPECT_THAT(queue().Pause(QueueHarness::Key("fox")),
              FailsWith(StatusCode::kFailedPrecondition, reason::kKindCannot));
  EXPECT_EQ(queue().List({"default", 0, ""})->records.size(), 2u);
  const auto poses = queue().List({"default", 0, ""}, *JobFilter::Parse("kind = pose"));
  ASSERT_THAT(poses, IsOk());
  ASSERT_EQ(poses->records.size(), 1u);
  EXPECT_EQ(poses->records[0].row->job().key.id, "fox");
}

TEST_F(PoseLeasesTest, ThreeCrashesFailIt) {
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  for (int i = 0; i < 3; ++i) {
    const LeaseGrant grant = *Acquire();
    ASSERT_THAT(leases().ReportEngineCrash(grant.lease, "killed by signal 9"), IsOk());
  }
  EXPECT_EQ(Get("fox").state, JobState::kFailed);
  EXPECT_EQ(Get("fox").error.reason, reason::kEngineCrashed);
}

TEST_F(PoseLeasesTest, WrongFieldsAreAllNamed) {
  JobSpec spec = Spec("Bad Id", "-");
  spec.priority = 1000;
  spec.pose.files.clear();
  std::vector<std::string> fields;
  for (const auto& violation : GetProblems(queue().Create(spec).status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre("job_id", "job.pose.scene", "job.priority",
                                                    "job.pose.files"));
}

TEST_F(PoseLeasesTest, FilesOfAnEndedJobLeaveMemory) {
  const auto in_memory = [&] {
    MutexLock lock(harness_.state->mu);
    return harness_.state->EntryOf(QueueHarness::Key("fox")).job.pose;
  };
  ASSERT_THAT(queue().Create(Spec("fox")), IsOk());
  EXPECT_EQ(in_memory().files.size(), 2u);
  const LeaseGrant grant = *Acquire();
  ASSERT_THAT(leases().Renew(grant.lease, WorkPhase::kRunning), IsOk());
  ASSERT_THAT(leases().CommitPoses(grant.lease, Report(), SceneFiles()), IsOk());
  for (const bool restarted : {false, true}) {
    if (restarted) harness_.Restart();
    EXPECT_EQ(in_memory().files.size(), 0u) << restarted;
    EXPECT_EQ(in_memory().n_stored_files, 2u);
    EXPECT_EQ(Get("fox").pose.files, Spec("fox").pose.files);
    EXPECT_EQ(Get("fox").pose.n_stored_files, 0u);
    EXPECT_TRUE(AreEqual(Get("fox").pose_report.value(), Report()));
    // A change of the job leaves them there.
    JobUpdate update;
    update.priority = restarted ? 2 : 1;
    ASSERT_THAT(queue().Update(QueueHarness::Key("fox"), update), IsOk());
    EXPECT_EQ(in_memory().files.size(), 0u);
    EXPECT_EQ(Get("fox").pose.files, Spec("fox").pose.files);
    EXPECT_EQ(Get("fox").priority, update.priority);
  }
}

}  // namespace
}  // namespace nerf
