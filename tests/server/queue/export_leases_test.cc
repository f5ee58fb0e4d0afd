// Export jobs in the queue: granted, reported, lost, finished and cancelled by workers that are
// calls of this test.
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

class ExportLeasesTest : public testing::Test {
 protected:
  void SetUp() override {
    harness_.AddScene();
    const LeaseRef lease = harness_.Running("trained");
    ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
    ASSERT_THAT(leases().Finish(lease, {}), IsOk());
  }

  LeaseTable& leases() { return *harness_.leases; }
  JobQueue& queue() { return *harness_.queue; }
  Job Get(const std::string& id) { return *queue().Get(QueueHarness::Key(id)); }

  static JobSpec Spec(const std::string& id) {
    JobSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.kind = JobKind::kExport;
    spec.model.from_checkpoint = true;
    spec.model.source = QueueHarness::Key("trained");
    spec.exporting.set_format(v1::ExportSpec::GLB);
    spec.exporting.set_checkpoint("projects/default/jobs/trained/checkpoints/-");
    return spec;
  }

  std::optional<LeaseGrant> Acquire(const std::string& worker = "worker-a",
                                    std::vector<std::string> offers = {"ngp", "export/ngp"}) {
    auto grant = leases().Acquire({worker, std::move(offers)});
    EXPECT_THAT(grant, IsOk());
    return *grant;
  }

  static JobOutcome Made(const std::string& content = "mesh") {
    JobOutcome outcome;
    v1::ExportFile& file = *outcome.exported.emplace().add_files();
    file.set_name("mesh.glb");
    *file.mutable_blob() = ToProto(QueueHarness::Blob(content));
    outcome.exported->set_axes("z up");
    return outcome;
  }

  QueueHarness harness_;
};

TEST_F(ExportLeasesTest, FilesThatItsHolderNamesEndTheJobAndAreKeptWithIt) {
  const auto created = queue().Create(Spec("mesh"));
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->exporting->checkpoint(), "projects/default/jobs/trained/checkpoints/7");
  const LeaseGrant grant = *Acquire();
  EXPECT_EQ(grant.job.kind, JobKind::kExport);
  EXPECT_EQ(ToBlobRef(grant.job.model.blob()), QueueHarness::Blob("model 7"));
  internal::JobProgress progress;
  progress.mutable_export_()->set_step("surface");
  ASSERT_THAT(leases().ReportProgress(grant.lease, progress), IsOk());
  EXPECT_EQ(Get("mesh").state, JobState::kRunning);
  EXPECT_EQ(Get("mesh").progress.export_().step(), "surface");
  for (int i = 0; i < 2; ++i) {  // the reply may be lost
    ASSERT_THAT(leases().Finish(grant.lease, Made()), IsOk());
  }
  harness_.Restart();
  EXPECT_EQ(Get("mesh").state, JobState::kSucceeded);
  EXPECT_TRUE(AreEqual(Get("mesh").export_result.value(), *Made().exported));
  EXPECT_TRUE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("mesh").sha256));
  ASSERT_THAT(queue().Delete(QueueHarness::Key("mesh")), IsOk());
  EXPECT_FALSE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("mesh").sha256));
}

TEST_F(ExportLeasesTest, EndWithoutFilesIsRefusedAndFilesThatAreNotThereFailTheJob) {
  ASSERT_THAT(queue().Create(Spec("mesh")), IsOk());
  const LeaseGrant grant = *Acquire();
  EXPECT_EQ(leases().Finish(grant.lease, {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(HoldsLease(Get("mesh").state));
  harness_.blobs.missing.insert(QueueHarness::Blob("mesh").sha256);
  ASSERT_THAT(leases().Finish(grant.lease, Made()), IsOk());
  EXPECT_EQ(Get("mesh").state, JobState::kFailed);
  EXPECT_EQ(Get("mesh").error.reason, "BLOBS_MISSING");
  EXPECT_FALSE(Get("mesh").export_result.has_value());
}

TEST_F(ExportLeasesTest, OtherKindsNeverHaveItsResult) {
  const LeaseRef lease = harness_.Running("training");
  ASSERT_THAT(leases().Finish(lease, Made()), IsOk());
  EXPECT_FALSE(harness_.Get("training").export_result.has_value());
}

TEST_F(ExportLeasesTest, OnlyWorkersThatExportModelsOfItsMethodGetIt) {
  ASSERT_THAT(queue().Create(Spec("mesh")), IsOk());
  EXPECT_FALSE(Acquire("worker-a", {"ngp", "render/ngp", "export/mlp"}).has_value());
  EXPECT_FALSE(Acquire("worker-a", {}).has_value()) << "a worker of an older version";
  WorkerRecord worker;
  worker.connected = true;
  worker.description.id = "worker-a";
  worker.description.methods = {"ngp"};
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  const auto wait = [&] {
    return ExplainWait(Get("mesh"), std::vector{worker}, absl::ZeroDuration(),
                       [] { return size_t{0}; });
  };
  ASSERT_TRUE(wait().has_value());
  EXPECT_EQ(wait()->reason, kWaitNoCapableWorker);
  EXPECT_THAT(wait()->message, HasSubstr("exports models"));
  worker.description.features = {"export"};
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  EXPECT_EQ(wait(), std::nullopt);
  EXPECT_EQ(Acquire("worker-a", worker.description.Capabilities())->lease.job.id, "mesh");
}

TEST_F(ExportLeasesTest, LostWorkersJobStartsAgainAndItsLateFilesChangeNothing) {
  ASSERT_THAT(queue().Create(Spec("mesh")), IsOk());
  const LeaseGrant lost = *Acquire();
  harness_.clock.Advance(harness_.options.lease_ttl + absl::Seconds(1));
  harness_.Tick();
  EXPECT_EQ(Get("mesh").state, JobState::kQueued);
  EXPECT_THAT(Get("mesh").queue_message, HasSubstr("starts again from the beginning"));
  const LeaseGrant second = *Acquire("worker-b");
  EXPECT_EQ(second.job.attempt, 2u);
  EXPECT_EQ(GetReason(leases().Finish(lost.lease, Made("late")).status())->reason,
            reason::kLeaseFenced);
  ASSERT_THAT(leases().Finish(second.lease, Made()), IsOk());
  EXPECT_TRUE(AreEqual(Get("mesh").export_result.value(), *Made().exported));
}

TEST_F(ExportLeasesTest, CancelledJobEndsWithoutFiles) {
  ASSERT_THAT(queue().Create(Spec("waiting")), IsOk());
  ASSERT_THAT(queue().Cancel(QueueHarness::Key("waiting")), IsOk());
  EXPECT_EQ(Get("waiting").state, JobState::kCancelled);
  ASSERT_THAT(queue().Create(Spec("mesh")), IsOk());
  const LeaseGrant grant = *Acquire();
  ASSERT_THAT(queue().Cancel(QueueHarness::Key("mesh")), IsOk());
  EXPECT_THAT(leases().Renew(grant.lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kCancel));
  ASSERT_THAT(leases().Finish(grant.lease, Made()), IsOk());  // it was just done
  EXPECT_EQ(Get("mesh").state, JobState::kCancelled);
  EXPECT_FALSE(Get("mesh").export_result.has_value());
}

TEST_F(ExportLeasesTest, SourceThatIsNotThereAndARequestIdOfOtherContentAreRefused) {
  JobSpec spec = Spec("mesh");
  spec.model.step = 8;
  EXPECT_EQ(queue().Create(spec).status().code(), StatusCode::kNotFound);
  spec.model.from_checkpoint = false;
  EXPECT_EQ(queue().Create(spec).status().code(), StatusCode::kNotFound);
  spec = Spec("mesh");
  spec.model.source.project = "other";
  EXPECT_EQ(queue().Create(spec).status().code(), StatusCode::kInvalidArgument);
  spec = Spec("mesh");
  spec.request_id = "123e4567-e89b-42d3-a456-426614174000";
  ASSERT_THAT(queue().Create(spec), IsOk());
  ASSERT_THAT(queue().Create(spec), IsOk()) << "the same request";
  spec.exporting.set_format(v1::ExportSpec::PLY);
  EXPECT_EQ(GetReason(queue().Create(spec).status())->reason, reason::kRequestIdReused);
}

}  // namespace
}  // namespace nerf
