// Jobs whose files are damaged or missing in the blob store: they wait for an upload.
#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "server/queue/state/queue_place.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class InputLeasesTest : public testing::Test {
 protected:
  void SetUp() override { harness_.AddScene(); }

  LeaseTable& leases() { return *harness_.leases; }
  static JobOutcome Failure(absl::StatusCode code, std::string_view reason) {
    JobOutcome outcome;
    outcome.kind = JobOutcome::Kind::kFailed;
    outcome.error.code = code;
    outcome.error.reason = std::string(reason);
    outcome.error.message = "fetching the job's files";
    return outcome;
  }
  static JobOutcome Damaged() { return Failure(absl::StatusCode::kDataLoss, reason::kBlobDamaged); }
  void Lose(const std::string& content) {
    harness_.blobs.missing.insert(QueueHarness::Blob(content).sha256);
  }
  std::string LackOf(const std::string& id) {
    return harness_.queue->PlaceOf(harness_.Get(id)).lack;
  }
  bool MayStart(const std::string& worker = "worker-a") {
    const auto grant = leases().Acquire({worker, {}});
    EXPECT_THAT(grant, IsOk());
    return grant->has_value();
  }

  QueueHarness harness_;
};

TEST_F(InputLeasesTest, JobWithADamagedPictureWaitsWithItsNameUntilTheUpload) {
  const LeaseRef lease = harness_.Running("one");
  int n_wakes = 0;
  const auto woken = leases().SubscribeWork("worker-b", [&] { ++n_wakes; });
  Lose("png");
  ASSERT_THAT(leases().Finish(lease, Damaged()), IsOk());
  const Job job = harness_.Get("one");
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.queue_reason, QueueReason::kBlobsMissing);
  EXPECT_THAT(LackOf("one"), HasSubstr("train/r_0.png is damaged or missing"));
  EXPECT_EQ(harness_.observer.attempts.back(), "blobs_missing");
  const int n_wakes_before = n_wakes;
  harness_.Tick();
  EXPECT_FALSE(MayStart());
  EXPECT_EQ(n_wakes, n_wakes_before) << "nothing has changed";

  harness_.blobs.missing.clear();
  harness_.Tick();
  EXPECT_EQ(n_wakes, n_wakes_before + 1);
  EXPECT_THAT(LackOf("one"), IsEmpty());
  EXPECT_TRUE(MayStart());
}

TEST_F(InputLeasesTest, JobsBehindTheWaitingOneStart) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(harness_.queue->Create(harness_.Spec("two")), IsOk());
  Lose("png");
  ASSERT_THAT(leases().Finish(lease, Damaged()), IsOk());
  EXPECT_EQ(harness_.Grant().job.id, "two");
}

TEST_F(InputLeasesTest, RestartForgetsNeitherTheWaitNorItsEnd) {
  const LeaseRef lease = harness_.Running("one");
  Lose("json");
  Lose("png");
  ASSERT_THAT(leases().Finish(lease, Damaged()), IsOk());
  harness_.Restart();
  EXPECT_FALSE(MayStart());
  harness_.Tick();
  EXPECT_THAT(LackOf("one"), HasSubstr("train/r_0.png and 1 more of its files are"));
  EXPECT_FALSE(MayStart());
  harness_.blobs.missing.clear();
  harness_.Tick();
  EXPECT_TRUE(MayStart());
}

TEST_F(InputLeasesTest, FileThatIsNotThereAtAllIsWaitedForToo) {
  const LeaseRef lease = harness_.Running("one");
  Lose("png");
  ASSERT_THAT(
      leases().Finish(lease, Failure(absl::StatusCode::kNotFound, reason::kResourceNotFound)),
      IsOk());
  EXPECT_EQ(harness_.StateOf("one"), JobState::kQueued);
  EXPECT_FALSE(MayStart());
}

TEST_F(InputLeasesTest, DamageThatWasUploadedAgainMeanwhileIsTriedAtOnce) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().Finish(lease, Damaged()), IsOk());
  EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kBlobsMissing);
  EXPECT_TRUE(MayStart());
}

TEST_F(InputLeasesTest, OtherFailuresFailThough) {
  const LeaseRef one = harness_.Running("one");
  ASSERT_THAT(leases().Finish(one, Failure(absl::StatusCode::kDataLoss, "")), IsOk());
  EXPECT_EQ(harness_.StateOf("one"), JobState::kFailed) << "the server has all of its files";
  const LeaseRef two = harness_.Running("two");
  Lose("png");
  ASSERT_THAT(leases().Finish(two, Failure(absl::StatusCode::kInternal, "TRAINING_DIVERGED")),
              IsOk());
  EXPECT_EQ(harness_.StateOf("two"), JobState::kFailed);
}

TEST_F(InputLeasesTest, WaitEndsWithACancelOrAPause) {
  Lose("png");
  for (const char* id : {"one", "two"}) {
    const LeaseRef lease = harness_.Running(id);
    ASSERT_THAT(leases().Finish(lease, Damaged()), IsOk());
  }
  EXPECT_THAT(harness_.queue->Cancel(QueueHarness::Key("one")), IsOk());
  EXPECT_THAT(harness_.queue->Pause(QueueHarness::Key("two")), IsOk());
  harness_.Tick();
  EXPECT_EQ(harness_.StateOf("one"), JobState::kCancelled);
  EXPECT_EQ(harness_.StateOf("two"), JobState::kPaused);
  EXPECT_THAT(LackOf("two"), IsEmpty());
  harness_.blobs.missing.clear();
  EXPECT_THAT(harness_.queue->Resume(QueueHarness::Key("two")), IsOk());
  EXPECT_EQ(harness_.Grant().job.id, "two");
}

TEST_F(InputLeasesTest, CancelThatCrossesTheFailureEndsCancelled) {
  const LeaseRef lease = harness_.Running("one");
  Lose("png");
  EXPECT_THAT(harness_.queue->Cancel(lease.job), IsOk());
  ASSERT_THAT(leases().Finish(lease, Damaged()), IsOk());
  EXPECT_EQ(harness_.StateOf("one"), JobState::kCancelled);
}

TEST_F(InputLeasesTest, RenderJobWaitsForItsModel) {
  const LeaseRef trained = harness_.Running("trained");
  ASSERT_THAT(leases().CommitCheckpoint(trained, QueueHarness::Checkpoint(7)), IsOk());
  ASSERT_THAT(leases().Finish(trained, {}), IsOk());
  JobSpec spec;
  spec.project = "default";
  spec.id = "film";
  spec.kind = JobKind::kRender;
  spec.model.from_checkpoint = true;
  spec.model.source = QueueHarness::Key("trained");
  spec.render.set_checkpoint("projects/default/jobs/trained/checkpoints/-");
  spec.render.mutable_path()->mutable_scene()->set_frames(4);
  spec.render.add_channels(v1::RGB);
  spec.render.set_images(true);
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  const std::vector<std::string> offers = {"ngp", "render/ngp"};
  const auto grant = *leases().Acquire({"worker-a", offers});
  ASSERT_TRUE(grant.has_value());
  Lose("model 7");
  ASSERT_THAT(leases().Finish(grant->lease, Damaged()), IsOk());
  const Job job = *harness_.queue->Get(QueueHarness::Key("film"));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.queue_reason, QueueReason::kBlobsMissing);
  EXPECT_THAT(harness_.queue->PlaceOf(job).lack, HasSubstr("its model is damaged or missing"));
  EXPECT_FALSE(leases().Acquire({"worker-a", offers})->has_value());
  harness_.blobs.missing.clear();
  harness_.Tick();
  EXPECT_TRUE(leases().Acquire({"worker-a", offers})->has_value());
}

}  // namespace
}  // namespace nerf
