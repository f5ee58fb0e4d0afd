// Jobs that go on from the end of another one, to a larger budget.
#include "server/queue/state/extension.h"

#include <algorithm>

#include "server/queue/kinds/kind_policy.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_text.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

class ExtensionTest : public testing::Test {
 protected:
  ExtensionTest() { harness_.AddScene(); }
  JobQueue& queue() { return *harness_.queue; }
  LeaseTable& leases() { return *harness_.leases; }
  static ResourceKey Key(const std::string& id) { return QueueHarness::Key(id); }

  // A job of 40 M samples that ended with a checkpoint at step 20.
  void Succeed(const std::string& id, JobOutcome::Kind kind = JobOutcome::Kind::kSucceeded) {
    const LeaseRef lease = harness_.Running(id);
    ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10, 25.0)), IsOk());
    CheckpointRecord last = QueueHarness::Checkpoint(20, 24.0);
    last.seconds = 33;
    ASSERT_THAT(leases().CommitCheckpoint(lease, last), IsOk());
    JobOutcome outcome;
    outcome.kind = kind;
    outcome.progress.emplace().set_step(20);
    outcome.progress->set_samples(40'000'100);
    ASSERT_THAT(leases().Finish(lease, outcome), IsOk());
  }
  JobSpec Extend(const std::string& of, double samples = 80e6, const std::string& id = "") {
    JobSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.extension = {of, "samples", samples};
    return spec;
  }
  absl::StatusOr<std::optional<LeaseGrant>> Acquire(const std::vector<std::string>& capabilities) {
    return leases().Acquire({"w", capabilities});
  }

  QueueHarness harness_;
};

TEST_F(ExtensionTest, ASucceededJobGoesOnFromItsLastCheckpointAsANewOne) {
  Succeed("one");
  JobUpdate update;
  update.labels = JobLabels{{"team", "blue"}};
  ASSERT_THAT(queue().Update(Key("one"), update), IsOk());
  const Job before = harness_.Get("one");
  const auto job = queue().Create(Extend("one", 80e6, "two"));
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->extension_of, "one");
  EXPECT_EQ(job->retry_of, "");
  EXPECT_EQ(job->state, JobState::kQueued);
  EXPECT_EQ(job->labels, before.labels);
  EXPECT_THAT(QueueHarness::Steps(*job), ElementsAre(20u));
  TrainingSpec expected = before.training;
  expected.config.set_samples(80e6);
  expected.requested_config.set_samples(80e6);
  expected.extend_capability = "extend/ngp";
  EXPECT_EQ(TextOf(job->training), TextOf(expected));
  EXPECT_EQ(EtagOf(harness_.Get("one")), EtagOf(before)) << "the first one stays as it is";

  // Its files are its own.
  ASSERT_THAT(queue().Delete(Key("one")), IsOk());
  harness_.Restart();
  EXPECT_EQ(TextOf(harness_.Get("two").training), TextOf(expected));
  EXPECT_TRUE(harness_.state->ReachableBlobs().contains(
      QueueHarness::Checkpoint(20).checkpoint_blob.sha256));
  const auto grant = Acquire({"extend/ngp"});
  ASSERT_TRUE(grant.ok() && grant->has_value());
  EXPECT_EQ((*grant)->resume->step, 20u);
  EXPECT_EQ((*grant)->job.training.config.samples(), 80e6);
  EXPECT_THAT(leases().CommitCheckpoint((*grant)->lease, QueueHarness::Checkpoint(30)), IsOk());
}

TEST_F(ExtensionTest, RepeatedRequestsMakeOneJob) {
  Succeed("one");
  JobSpec spec = Extend("one");
  spec.request_id = kRequestA;
  const auto first = queue().Create(spec);
  ASSERT_THAT(first, IsOk());
  harness_.Restart();
  EXPECT_EQ(queue().Create(spec)->key, first->key);
  JobSpec other = spec;
  other.extension.total.amount = 90e6;
  EXPECT_THAT(queue().Create(other),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
  other = spec;
  other.extension.total.kind = "steps";
  EXPECT_THAT(queue().Create(other),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
  ASSERT_THAT(queue().Delete(Key("one")), IsOk());
  EXPECT_EQ(queue().Create(spec)->key, first->key) << "also once the first job is deleted";
}

// An engine of an older version would end at once, with the budget of the checkpoint.
TEST_F(ExtensionTest, OnlyWorkersThatSayTheyCanAreGrantedOne) {
  Succeed("one");
  ASSERT_THAT(queue().Create(Extend("one", 80e6, "two")), IsOk());
  for (const std::vector<std::string>& old : std::vector<std::vector<std::string>>{
           {}, {"ngp", "mlp", "frames/ngp"}, {"*"}, {"extend/mlp"}}) {
    const auto grant = Acquire(old);
    ASSERT_THAT(grant, IsOk());
    EXPECT_FALSE(grant->has_value());
  }
  WorkerDescription description;
  description.methods = {"ngp", "mlp"};
  description.features = {"extend"};
  const auto grant = Acquire(description.Capabilities());
  ASSERT_TRUE(grant.ok() && grant->has_value());
  EXPECT_EQ((*grant)->lease.job.id, "two");
}

TEST_F(ExtensionTest, LostWorkersAndRetriesKeepTheNewTotal) {
  Succeed("one");
  ASSERT_THAT(queue().Create(Extend("one", 80e6, "two")), IsOk());
  const std::vector<std::string> capable = {"ngp", "extend/ngp"};
  const auto first = Acquire(capable);
  ASSERT_TRUE(first.ok() && first->has_value());
  const LeaseRef lease = (*first)->lease;
  ASSERT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOk());
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(30)), IsOk());
  harness_.clock.Advance(harness_.options.lease_ttl + absl::Seconds(1));
  leases().ExpireLeases();
  const auto second = leases().Acquire({"other", capable});
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->resume->step, 30u);
  EXPECT_EQ((*second)->job.training.config.samples(), 80e6);
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(40)),
              StatusIs(StatusCode::kFailedPrecondition))
      << "the first worker is fenced";
  ASSERT_THAT(queue().Cancel(Key("two")), IsOk());
  JobOutcome cancelled;
  cancelled.kind = JobOutcome::Kind::kCancelled;
  ASSERT_THAT(leases().Finish((*second)->lease, cancelled), IsOk());
  JobSpec retry;
  retry.project = "default";
  retry.retry_of = "two";
  const auto again = queue().Create(retry);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(TextOf(again->training), TextOf(harness_.Get("two").training));
  EXPECT_EQ(CapabilityOf(*again), "extend/ngp");
  // A cancelled one may get yet another total.
  EXPECT_THAT(queue().Create(Extend("two", 90e6)), IsOk());
}

TEST_F(ExtensionTest, JobsThatHaveNotEndedOrHaveNoCheckpointAreRefused) {
  ASSERT_THAT(queue().Create(harness_.Spec("queued")), IsOk());
  const auto conflict = FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict);
  EXPECT_THAT(queue().Create(Extend("queued")), conflict);
  EXPECT_THAT(queue().Create(Extend("queued")),
              StatusIs(StatusCode::kFailedPrecondition, "is QUEUED; only jobs that succeeded"));
  ASSERT_THAT(queue().Pause(Key("queued")), IsOk());
  EXPECT_THAT(queue().Create(Extend("queued")), conflict);
  ASSERT_THAT(queue().Cancel(Key("queued")), IsOk());
  EXPECT_THAT(queue().Create(Extend("queued")),
              StatusIs(StatusCode::kNotFound, "has no checkpoint"));
  const LeaseRef running = harness_.Running("running");
  ASSERT_THAT(leases().CommitCheckpoint(running, QueueHarness::Checkpoint(10)), IsOk());
  EXPECT_THAT(queue().Create(Extend("running")),
              StatusIs(StatusCode::kFailedPrecondition, "is RUNNING"));
  JobOutcome failed;
  failed.kind = JobOutcome::Kind::kFailed;
  ASSERT_THAT(leases().Finish(running, failed), IsOk());
  EXPECT_THAT(queue().Create(Extend("running")),
              StatusIs(StatusCode::kFailedPrecondition, "is FAILED; retry it first"));
  EXPECT_THAT(queue().Create(Extend("none")), StatusIs(StatusCode::kNotFound));
  Succeed("done");
  ASSERT_THAT(queue().Delete(Key("done")), IsOk());
  EXPECT_THAT(queue().Create(Extend("done")), StatusIs(StatusCode::kNotFound));
  JobSpec elsewhere = Extend("running");
  elsewhere.project = "lab";
  EXPECT_THAT(queue().Create(elsewhere), StatusIs(StatusCode::kNotFound));
}

TEST_F(ExtensionTest, TotalsThatAreSpentAreRefusedWithWhatIsTrained) {
  Succeed("one");
  const size_t n_jobs = queue().Stats().jobs.size();
  const struct {
    const char* kind;
    double amount;
    const char* says;
  } cases[] = {{"samples", 20e6, "must be above the 40000100 samples that"},
               {"samples", 40'000'100, "must be above the 40000100 samples that"},
               {"steps", 20, "must be above the 20 steps that"},
               {"seconds", 1e6, "its checkpoint stores no training time"}};
  for (const auto& c : cases) {
    JobSpec spec = Extend("one");
    spec.extension.total.kind = c.kind;
    spec.extension.total.amount = c.amount;
    EXPECT_THAT(queue().Create(spec),
                FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
    EXPECT_THAT(queue().Create(spec), StatusIs(StatusCode::kInvalidArgument, c.says));
  }
  EXPECT_EQ(queue().Stats().jobs.size(), n_jobs);
  JobSpec steps = Extend("one");
  steps.extension.total.kind = "steps";
  steps.extension.total.amount = 21;
  EXPECT_THAT(queue().Create(steps), IsOk());
}

TEST_F(ExtensionTest, TimeIsATotalOfJobsWhoseBudgetIsTime) {
  Job job;
  job.key = Key("one");
  job.state = JobState::kSucceeded;
  job.training.config.set_seconds(1);
  job.checkpoints = {QueueHarness::Checkpoint(20)};
  job.checkpoints[0].seconds = 33;
  EXPECT_THAT(CheckExtension(job, {"one", {"seconds", 33.5}}), IsOk());
  EXPECT_THAT(CheckExtension(job, {"one", {"seconds", 33}}),
              StatusIs(StatusCode::kInvalidArgument, "must be above the 33 seconds"));
  EXPECT_THAT(CheckExtension(job, {"one", {"samples", 1}}), IsOk()) << "the engine knows";
  job.parts = {"one-part0"};
  EXPECT_THAT(CheckExtension(job, {"one", "seconds", 99}),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
}

}  // namespace
}  // namespace nerf
