// A training that is shared out among jobs, on a queue without a network or a disk.
#include "server/queue/state/part_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

constexpr char kMerge[] = "merge/ngp-tiles";

class PartJobsTest : public testing::Test {
 protected:
  PartJobsTest() { harness_.AddScene(); }

  JobSpec Spec(const std::string& id = "whole", uint32_t n_parts = 2, uint32_t n_workers = 2) {
    JobSpec spec = harness_.Spec(id);
    spec.training.config.set_method("ngp-tiles");
    spec.training.workers = {1, n_workers};
    for (uint32_t part = 0; part < n_parts; ++part) {
      v1::TrainingConfig config = spec.training.config;
      (*config.mutable_settings())["tile"] = std::to_string(part);
      spec.parts.push_back({config, "", std::nullopt});
    }
    return spec;
  }
  void Create(const JobSpec& spec) { ASSERT_THAT(harness_.queue->Create(spec), IsOk()); }

  // What a server does each second.
  void Tick() {
    harness_.clock.Advance(absl::Seconds(1));
    JobUpkeep(harness_.state.get(), &workers_).Tick();
  }
  std::optional<LeaseGrant> Acquire(const std::string& worker, bool merges = true) {
    std::vector<std::string> capabilities = {"ngp-tiles"};
    if (merges) capabilities.emplace_back(kMerge);
    const auto grant = harness_.leases->Acquire({worker, capabilities});
    EXPECT_THAT(grant, IsOk());
    return *grant;
  }
  LeaseRef Run(const std::string& worker) {
    const LeaseRef lease = Acquire(worker).value().lease;
    EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
    return lease;
  }
  // A checkpoint whose model is named by the job.
  CheckpointRecord CheckpointOf(const LeaseRef& lease, uint32_t step) {
    CheckpointRecord checkpoint = QueueHarness::Checkpoint(step);
    checkpoint.model_blob = ModelOf(lease.job.id);
    checkpoint.seconds = 20;
    checkpoint.checkpoint_blob = QueueHarness::Blob("checkpoint of " + lease.job.id);
    return checkpoint;
  }
  static BlobRef ModelOf(const std::string& id) { return QueueHarness::Blob("model of " + id); }
  void Succeed(const LeaseRef& lease, uint32_t step = 1000) {
    ASSERT_THAT(harness_.leases->CommitCheckpoint(lease, CheckpointOf(lease, step)), IsOk());
    ASSERT_THAT(harness_.leases->Finish(lease, JobOutcome()), IsOk());
  }
  size_t NumberOfJobs() {
    MutexLock lock(harness_.state->mu);
    return harness_.state->jobs().size();
  }
  void SetMaxQueuedJobs(uint64_t n) {
    MutexLock lock(harness_.state->mu);
    ProjectRecord record{.project = "default", .quota = {}, .retention = {}};
    record.quota.max_queued_jobs = n;
    harness_.state->TakeSettings(record);
  }
  Job Get(const std::string& id = "whole") { return harness_.Get(id); }
  JobState StateOf(const std::string& id) { return harness_.StateOf(id); }

  QueueHarness harness_;
  WorkerTable workers_{&harness_.clock, harness_.options.lease_ttl};
};

TEST_F(PartJobsTest, PartsAreTrainedAndThenMerged) {
  Create(Spec());
  EXPECT_THAT(Get().parts, ElementsAre("whole-part0", "whole-part1"));
  EXPECT_EQ(Get("whole-part1").part_of, "whole");
  EXPECT_EQ(Get("whole-part1").training.config.settings().at("tile"), "1");
  EXPECT_EQ(Get("whole-part1").training.workers, WorkerCount());
  EXPECT_FALSE(Acquire("worker-c", /*merges=*/false).has_value()) << "an older worker";
  EXPECT_FALSE((*harness_.leases->Acquire({"worker-c", {}})).has_value()) << "an unknown offer";
  const LeaseRef first = Run("worker-a"), second = Run("worker-b");
  EXPECT_EQ(first.job.id, "whole-part0");
  EXPECT_EQ(second.job.id, "whole-part1");
  EXPECT_FALSE(Acquire("worker-c").has_value()) << "the whole waits";
  EXPECT_EQ(harness_.queue->PartsDone(Get()), 0u);
  Succeed(second);
  Tick();
  EXPECT_EQ(harness_.queue->PartsDone(Get()), 1u);
  EXPECT_TRUE(WaitsForParts(Get()));
  EXPECT_TRUE(harness_.queue->IsQueued(Get()));
  EXPECT_FALSE(Acquire("worker-b").has_value());
  Succeed(first);
  Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kQueued);
  EXPECT_FALSE(Acquire("worker-c", /*merges=*/false).has_value()) << "an older worker";
  EXPECT_FALSE((*harness_.leases->Acquire({"worker-c", {}})).has_value()) << "an unknown offer";
  const LeaseGrant grant = Acquire("worker-a").value();
  EXPECT_EQ(grant.lease.job.id, "whole");
  EXPECT_EQ(grant.n_ranks, 1u);
  EXPECT_THAT(grant.job.part_models, ElementsAre(ModelOf("whole-part0"), ModelOf("whole-part1")));
  EXPECT_EQ(grant.job.part_seconds, 40);
  ASSERT_THAT(harness_.leases->Renew(grant.lease, WorkPhase::kRunning), IsOk());
  Tick();
  EXPECT_EQ(Get("whole-part0").checkpoints.size(), 1u) << "kept until the merge is over";
  Succeed(grant.lease);
  EXPECT_EQ(StateOf("whole"), JobState::kSucceeded);
  EXPECT_EQ(Get().checkpoints.back().model_blob, ModelOf("whole"));
  Tick();
  for (const char* part : {"whole-part0", "whole-part1"}) {
    EXPECT_EQ(StateOf(part), JobState::kSucceeded);
    EXPECT_TRUE(Get(part).checkpoints.empty());
  }
  const std::set<std::string> reachable = harness_.state->ReachableBlobs();
  EXPECT_TRUE(reachable.contains(ModelOf("whole").sha256));
  EXPECT_FALSE(reachable.contains(ModelOf("whole-part0").sha256));
}

TEST_F(PartJobsTest, AtMostAsManyPartsAreAtWorkAsWorkersWereAskedFor) {
  Create(Spec("whole", 4, 2));
  const LeaseRef first = Run("worker-a");
  Run("worker-b");
  EXPECT_FALSE(Acquire("worker-c").has_value());
  Succeed(first);
  EXPECT_EQ(Run("worker-a").job.id, "whole-part2");
  EXPECT_FALSE(Acquire("worker-c").has_value());
  Create(harness_.Spec("other"));
  EXPECT_EQ((*harness_.leases->Acquire({"worker-c", {"ngp"}}))->lease.job.id, "other");
}

TEST_F(PartJobsTest, OneRequestCreatesAllOrNone) {
  JobSpec spec = Spec();
  spec.request_id = kRequestA;
  Create(spec);
  EXPECT_EQ(harness_.queue->Create(spec)->parts, Get().parts) << "sent again";
  EXPECT_EQ(NumberOfJobs(), 3u);
  harness_.memory_store.before_commit = [](int) { return absl::UnavailableError("full"); };
  EXPECT_THAT(harness_.queue->Create(Spec("refused")), StatusIs(StatusCode::kUnavailable));
  harness_.memory_store.before_commit = nullptr;
  EXPECT_EQ(NumberOfJobs(), 3u);
  ASSERT_THAT(harness_.queue->Create(Spec("checked"), /*validate_only=*/true), IsOk());
  EXPECT_EQ(NumberOfJobs(), 3u);
  harness_.Restart();
  EXPECT_THAT(Get().parts, ElementsAre("whole-part0", "whole-part1"));
  EXPECT_EQ(harness_.queue->Create(spec)->parts, Get().parts);
  EXPECT_EQ(Run("worker-a").job.id, "whole-part0");
}

TEST_F(PartJobsTest, EachPartCountsInQuotas) {
  SetMaxQueuedJobs(2);
  EXPECT_THAT(harness_.queue->Create(Spec()), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(NumberOfJobs(), 0u);
  SetMaxQueuedJobs(3);
  Create(Spec());
}

TEST_F(PartJobsTest, IdsOfPartsAreFreeOnes) {
  Create(harness_.Spec("whole-part1"));
  const std::string longest(63, 'a');
  Create(Spec());
  EXPECT_EQ(Get().parts[0], "whole-part0");
  EXPECT_NE(Get().parts[1], "whole-part1");
  EXPECT_EQ(Get(Get().parts[1]).part_of, "whole");
  Create(Spec(longest));
  for (const std::string& part : Get(longest).parts) {
    EXPECT_LE(part.size(), 63u);
    EXPECT_EQ(Get(part).part_of, longest);
  }
}

TEST_F(PartJobsTest, AFailedPartFailsTheJobWithItsReason) {
  Create(Spec());
  const LeaseRef first = Run("worker-a"), second = Run("worker-b");
  JobOutcome failed, cancelled;
  failed.kind = JobOutcome::Kind::kFailed;
  cancelled.kind = JobOutcome::Kind::kCancelled;
  failed.error.code = StatusCode::kInvalidArgument;
  failed.error.reason = std::string(reason::kDatasetInvalid);
  failed.error.message = "no views";
  failed.error.problems = {QueueHarness::SceneProblem("transforms.json", "frames", "is empty")};
  ASSERT_THAT(harness_.leases->Finish(first, failed), IsOk());
  Tick();
  const Job whole = Get();
  EXPECT_EQ(whole.state, JobState::kFailed);
  EXPECT_EQ(whole.error.reason, reason::kDatasetInvalid);
  EXPECT_EQ(whole.error.message, "no views (part whole-part0)");
  EXPECT_EQ(whole.error.problems.size(), 1u);
  Tick();
  EXPECT_EQ(StateOf("whole-part1"), JobState::kCancelling);
  EXPECT_EQ(OrderFor(Get("whole-part1")), LeaseOrder::kCheckpointAndStop) << "for a retry";
  ASSERT_THAT(harness_.leases->Finish(second, cancelled), IsOk());
  Tick();
  EXPECT_EQ(StateOf("whole-part1"), JobState::kCancelled);
  MutexLock lock(harness_.state->mu);
  EXPECT_TRUE(harness_.state->split_jobs().empty()) << "nothing is left to do";
}

TEST_F(PartJobsTest, PartsArePausedResumedAndCancelledWithTheJob) {
  Create(Spec());
  const LeaseRef first = Run("worker-a");
  ASSERT_THAT(harness_.queue->Pause(QueueHarness::Key("whole")), IsOk());
  EXPECT_FALSE(Acquire("worker-b").has_value()) << "before its parts follow";
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kPausing);
  EXPECT_EQ(StateOf("whole-part1"), JobState::kPaused);
  ASSERT_THAT(harness_.leases->Release(first), IsOk());
  EXPECT_EQ(StateOf("whole-part0"), JobState::kPaused);
  Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kPaused);
  ASSERT_THAT(harness_.queue->Resume(QueueHarness::Key("whole")), IsOk());
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kQueued);
  const LeaseRef again = Run("worker-a");
  EXPECT_EQ(again.job.id, "whole-part0");
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key("whole")), IsOk());
  EXPECT_EQ(StateOf("whole"), JobState::kCancelled);
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kCancelling);
  EXPECT_EQ(StateOf("whole-part1"), JobState::kCancelled);
}

TEST_F(PartJobsTest, APauseThatIsTakenBackBeforeItsWorkerStopsIsNone) {
  Create(Spec());
  const LeaseRef first = Run("worker-a");
  ASSERT_THAT(harness_.queue->Pause(QueueHarness::Key("whole")), IsOk());
  Tick();
  ASSERT_THAT(harness_.queue->Resume(QueueHarness::Key("whole")), IsOk());
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kPreparing);
  ASSERT_THAT(harness_.leases->Release(first), IsOk());
  EXPECT_EQ(StateOf("whole-part0"), JobState::kQueued);
}

TEST_F(PartJobsTest, APartIsNotChangedAlone) {
  Create(Spec());
  const ResourceKey part = QueueHarness::Key("whole-part0");
  const auto refused = StatusIs(StatusCode::kFailedPrecondition, "trains a part of ");
  EXPECT_THAT(harness_.queue->Cancel(part), refused);
  EXPECT_THAT(harness_.queue->Pause(part), refused);
  EXPECT_THAT(harness_.queue->Resume(part), refused);
  JobUpdate update;
  update.priority = 5;
  EXPECT_THAT(harness_.queue->Update(part, update), refused);
  EXPECT_THAT(harness_.queue->Delete(part), refused);
  ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("whole"), update), IsOk());
  Tick();
  EXPECT_EQ(Get("whole-part0").priority, 5);
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key("whole")), IsOk());
  EXPECT_THAT(harness_.queue->Delete(QueueHarness::Key("whole")),
              StatusIs(StatusCode::kFailedPrecondition, "a part of it, is still QUEUED"));
  Tick();
  JobSpec retry = harness_.Spec("again");
  retry.retry_of = "whole-part0";
  EXPECT_THAT(harness_.queue->Create(retry), refused);
  EXPECT_EQ(*harness_.queue->DeleteEnded(std::vector<ResourceKey>{part}), 0u);
  ASSERT_THAT(harness_.queue->Delete(QueueHarness::Key("whole")), IsOk());
  EXPECT_EQ(NumberOfJobs(), 0u);
  harness_.Restart();
  EXPECT_EQ(NumberOfJobs(), 0u);
}

TEST_F(PartJobsTest, RetentionDeletesAJobWithItsParts) {
  Create(Spec());
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key("whole")), IsOk());
  const std::vector<ResourceKey> keys = {QueueHarness::Key("whole")};
  EXPECT_EQ(*harness_.queue->DeleteEnded(keys), 0u) << "its parts have not ended";
  Tick();
  EXPECT_EQ(*harness_.queue->DeleteEnded(keys), 3u);
}

TEST_F(PartJobsTest, ARetryGoesOnFromThePartsCheckpoints) {
  Create(Spec());
  const LeaseRef first = Run("worker-a");
  Succeed(first, 700);
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key("whole")), IsOk());
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kSucceeded);
  JobSpec retry = harness_.Spec("again");
  retry.retry_of = "whole";
  Create(retry);
  EXPECT_THAT(Get("again").parts, ElementsAre("again-part0", "again-part1"));
  EXPECT_EQ(Get("again-part0").retry_of, "whole-part0");
  EXPECT_THAT(QueueHarness::Steps(Get("again-part0")), ElementsAre(700u));
  EXPECT_TRUE(Get("again-part1").checkpoints.empty());
  EXPECT_EQ(Get("again-part1").training.config.settings().at("tile"), "1");
  EXPECT_EQ(Acquire("worker-a")->resume->step, 700u);
}

TEST_F(PartJobsTest, RestartsLoseNothing) {
  Create(Spec());
  Succeed(Run("worker-a"));
  harness_.Restart();
  Succeed(Run("worker-a"));
  harness_.Restart();
  Tick();
  harness_.Restart();
  const LeaseGrant grant = Acquire("worker-a").value();
  EXPECT_EQ(grant.lease.job.id, "whole");
  EXPECT_EQ(grant.job.part_models.size(), 2u);
  ASSERT_THAT(harness_.leases->CommitCheckpoint(grant.lease, CheckpointOf(grant.lease, 1000)),
              IsOk());
  harness_.Restart();
  // The worker is lost after its commit: whoever trains the method goes on from there.
  harness_.clock.Advance(absl::Minutes(1));
  harness_.leases->ExpireLeases();
  const LeaseGrant again = Acquire("worker-b", /*merges=*/false).value();
  EXPECT_EQ(again.resume->step, 1000u);
  ASSERT_THAT(harness_.leases->Finish(again.lease, JobOutcome()), IsOk());
  harness_.Restart();
  Tick();
  EXPECT_TRUE(Get("whole-part0").checkpoints.empty());
}

TEST_F(PartJobsTest, ProgressIsTheMeanOfTheParts) {
  Create(Spec());
  const LeaseRef first = Run("worker-a"), second = Run("worker-b");
  const auto report = [&](const LeaseRef& lease, uint32_t step, double fraction, double eta) {
    internal::JobProgress progress;
    v1::Progress& training = *progress.mutable_training();
    training.set_step(step);
    training.set_eta_seconds(eta);
    training.set_fraction(fraction);
    training.set_samples(1000);
    training.set_samples_per_second(10);
    ASSERT_THAT(harness_.leases->ReportProgress(lease, progress), IsOk());
  };
  report(first, 100, 0.1, 90);
  report(second, 300, 0.3, 70);
  auto watcher = *harness_.queue->Watch(QueueHarness::Key("whole"), "", [] {});
  QueueHarness::Drain(*watcher);
  Tick();
  const v1::Progress whole = Get().progress.training();
  EXPECT_EQ(whole.step(), 200u);
  EXPECT_NEAR(whole.fraction(), 0.2, 1e-9);
  EXPECT_EQ(whole.samples(), 2000);
  EXPECT_EQ(whole.samples_per_second(), 20);
  EXPECT_EQ(whole.eta_seconds(), 90);
  ASSERT_EQ(QueueHarness::Drain(*watcher).size(), 1u);
  Succeed(first);
  Tick();
  EXPECT_NEAR(Get().progress.training().fraction(), 0.65, 1e-9);
  EXPECT_EQ(Get().progress.training().samples_per_second(), 10);
}

TEST_F(PartJobsTest, ListsShowPartsOnlyWhereTheyAreAskedFor) {
  Create(Spec());
  const auto ids = [&](const std::string& filter) {
    std::vector<std::string> found;
    const auto page = harness_.queue->List({"default", 10, ""}, *JobFilter::Parse(filter));
    for (const ListedJob& listed : page->records) found.push_back(listed.row->job().key.id);
    return found;
  };
  EXPECT_THAT(ids(""), ElementsAre("whole"));
  EXPECT_THAT(ids("state = QUEUED"), ElementsAre("whole"));
  EXPECT_THAT(ids("part_of = whole"), ElementsAre("whole-part1", "whole-part0"));
  EXPECT_THAT(ids("part_of != \"\""), ElementsAre("whole-part1", "whole-part0"));
  EXPECT_THAT(ids("part_of = other"), ElementsAre());
}

TEST_F(PartJobsTest, PartsGetTheEndDeadlineThatTheJobIsGivenLater) {
  JobSpec spec = Spec();
  const absl::Time start = harness_.clock.WallNow();
  spec.end_by = start + absl::Minutes(5);
  Create(spec);
  Run("worker-a");
  Run("worker-b");
  JobUpdate update;
  update.end_by = start + absl::Hours(2);
  ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("whole"), update), IsOk());
  Tick();
  harness_.clock.Advance(absl::Minutes(6));
  Tick();
  harness_.clock.Advance(harness_.options.lease_ttl);
  Tick();
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kRunning);
  EXPECT_EQ(StateOf("whole"), JobState::kQueued);
  update.end_by = absl::InfiniteFuture();
  ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("whole"), update), IsOk());
  Tick();
  EXPECT_EQ(Get("whole-part1").end_by, absl::InfiniteFuture());
}

TEST_F(PartJobsTest, AJobWithoutAStartedPartFailsAtItsStartDeadline) {
  Create(Spec());
  JobUpdate update;
  update.start_by = harness_.clock.WallNow() + absl::Minutes(1);
  ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("whole"), update), IsOk());
  Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kQueued);
  harness_.clock.Advance(absl::Minutes(2));
  Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kFailed);
  EXPECT_EQ(Get().error.reason, reason::kStartDeadlineExceeded);
  Tick();
  EXPECT_EQ(StateOf("whole-part0"), JobState::kCancelled);
}

TEST_F(PartJobsTest, PartsThatWaitForOthersHaveNoStartDeadline) {
  JobSpec spec = Spec("whole", 2, 1);
  spec.start_by = harness_.clock.WallNow() + absl::Minutes(1);
  Create(spec);
  const LeaseRef first = Run("worker-a");
  harness_.clock.Advance(absl::Minutes(2));
  for (int i = 0; i < 3; ++i) Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kQueued);
  EXPECT_EQ(StateOf("whole-part1"), JobState::kQueued);
  Succeed(first);
  EXPECT_EQ(Run("worker-a").job.id, "whole-part1");
}

TEST_F(PartJobsTest, NobodyIsPreemptedForAPartThatMayNotStart) {
  const auto run = [&](const std::string& worker) {
    const uint64_t connection = *workers_.Connect(
        {worker, "session of " + worker, "cpu", "", "1", "", {"ngp-tiles"}, {kMerge}});
    const LeaseRef lease = Run(worker);
    EXPECT_TRUE(workers_.Heard(worker, connection, /*draining=*/false, lease.job));
    return lease;
  };
  JobSpec low = harness_.Spec("low");
  low.training.config.set_method("ngp-tiles");
  Create(low);
  const LeaseRef lease = run("worker-a");
  ASSERT_EQ(lease.job.id, "low");
  JobSpec spec = Spec("whole", 2, 1);
  spec.priority = 5;
  Create(spec);
  ASSERT_EQ(run("worker-b").job.id, "whole-part0");
  for (int i = 0; i < 5; ++i) Tick();
  EXPECT_EQ(OrderFor(Get("low")), LeaseOrder::kTrain) << "one part at a time was asked for";
}

TEST_F(PartJobsTest, AJobOutOfItsDeadlineEndsItsParts) {
  JobSpec spec = Spec();
  spec.start_by = harness_.clock.WallNow() + absl::Seconds(5);
  spec.end_by = harness_.clock.WallNow() + absl::Minutes(5);
  Create(spec);
  Run("worker-a");
  Run("worker-b");
  harness_.clock.Advance(absl::Seconds(10));
  JobUpkeep upkeep(harness_.state.get(), &workers_);
  upkeep.Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kQueued) << "its parts have started";
  harness_.clock.Advance(absl::Minutes(5));
  upkeep.Tick();
  EXPECT_EQ(StateOf("whole"), JobState::kFailed);
  EXPECT_EQ(Get().error.reason, reason::kEndDeadlineExceeded);
}

}  // namespace
}  // namespace nerf
