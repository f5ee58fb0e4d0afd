#include "server/queue/state/job_queue.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_text.h"

namespace nerf {
namespace {

using absl::StatusCode;
using enum JobState;

class JobQueueTest : public testing::Test {
 protected:
  JobQueueTest() { harness_.AddScene(); }
  QueueHarness harness_;
  JobQueue& queue() { return *harness_.queue; }
  LeaseTable& leases() { return *harness_.leases; }
};

TEST_F(JobQueueTest, CreatedJobIsQueuedAndEchoesEverything) {
  const auto job = queue().Create(harness_.Spec());
  ASSERT_THAT(job, IsOk());
  EXPECT_TRUE(IsResourceId(job->key.id));
  EXPECT_EQ(job->state, kQueued);
  EXPECT_EQ(job->attempt, 0u);
  EXPECT_EQ(TextOf(job->training), TextOf(harness_.Spec().training));
  EXPECT_EQ(job->last_event_sequence, 1u);
  EXPECT_EQ(harness_.Get(job->key.id).display_name, "a job");
  EXPECT_EQ(harness_.observer.n_created, 1);
}

TEST_F(JobQueueTest, SameRequestIdAndBodyGivesTheSameJobAlsoAfterARestart) {
  JobSpec spec = harness_.Spec();
  spec.request_id = kRequestA;
  const auto first = queue().Create(spec);
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(queue().Create(spec)->key, first->key);
  EXPECT_THAT(queue().Cancel(first->key), IsOk());
  harness_.Restart();
  const auto again = queue().Create(spec);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->key, first->key);
  EXPECT_EQ(again->state, kCancelled) << "returns the job's current state";
  EXPECT_EQ(harness_.observer.n_created, 1);
}

TEST_F(JobQueueTest, SameRequestIdWithAnotherBodyIsRefused) {
  JobSpec spec = harness_.Spec();
  spec.request_id = kRequestA;
  ASSERT_THAT(queue().Create(spec), IsOk());
  const auto changed = [&](auto change) {
    JobSpec other = spec;
    change(other);
    return queue().Create(other);
  };
  const auto refused = FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused);
  EXPECT_THAT(changed([](JobSpec& s) { s.id = "other"; }), refused);
  EXPECT_THAT(changed([](JobSpec& s) { s.training.requested_config.set_method("x"); }), refused);
  EXPECT_THAT(changed([](JobSpec& s) { s.request_id = kRequestB; }), IsOk());
  EXPECT_THAT(changed([](JobSpec& s) { (*s.training.config.mutable_settings())["x"] = "1"; }),
              IsOk())
      << "defaults of a newer server, not another request";
  // Requests of other kinds cannot use the id, either.
  SceneSpec scene;
  scene.project = "default";
  scene.request_id = kRequestA;
  scene.files = {{"a", QueueHarness::Blob("a")}};
  EXPECT_THAT(harness_.scenes->Create(scene), refused);
}

TEST_F(JobQueueTest, DeletedJobIsGoneWithItsCheckpointsAndItsModelsStay) {
  const LeaseRef lease = harness_.Running("one");
  internal::JobProgress progress;
  *progress.mutable_training()->mutable_preview_image() = ToProto(QueueHarness::Blob("preview"));
  EXPECT_THAT(leases().ReportProgress(lease, progress), IsOk());
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5)), IsOk());
  ASSERT_THAT(harness_.models->Promote({"default", "model", "", "", {lease.job, {}}}), IsOk());
  EXPECT_THAT(queue().Delete(lease.job),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  JobOutcome outcome;
  outcome.progress = progress.training();
  EXPECT_THAT(leases().Finish(lease, outcome), IsOk());
  ASSERT_THAT(queue().Delete(lease.job), IsOk());
  EXPECT_THAT(queue().Delete(lease.job), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(harness_.blobs.released,
              testing::UnorderedElementsAre(QueueHarness::Blob("checkpoint 5").sha256,
                                            QueueHarness::Blob("model 5").sha256,
                                            QueueHarness::Blob("preview").sha256));
  harness_.Restart();
  EXPECT_THAT(queue().Get(lease.job), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(queue().List({"default", 0, ""})->records, testing::IsEmpty());
  const auto reachable = harness_.state->ReachableBlobs();
  EXPECT_TRUE(reachable.contains(QueueHarness::Blob("model 5").sha256));
  EXPECT_FALSE(reachable.contains(QueueHarness::Blob("checkpoint 5").sha256));
  EXPECT_THAT(harness_.memory_store.Load()->events, testing::IsEmpty());
}

// A worker and a watcher still hold a lease and a token of the deleted job.
TEST_F(JobQueueTest, NeitherLeaseNorTokenOfADeletedJobFitsANewOneOfItsId) {
  const LeaseRef old_lease = harness_.Running("one");
  const std::string old_token = (*queue().Watch(old_lease.job, "", [] {}))->Token();
  EXPECT_THAT(queue().Cancel(old_lease.job), IsOk());
  JobOutcome cancelled;
  cancelled.kind = JobOutcome::Kind::kCancelled;
  EXPECT_THAT(leases().Finish(old_lease, cancelled), IsOk());
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    ASSERT_THAT(queue().Delete(old_lease.job), IsOk());
    harness_.Restart();
    const LeaseRef lease = harness_.Running("one");
    EXPECT_GT(lease.epoch, old_lease.epoch);
    EXPECT_THAT(leases().Renew(old_lease, WorkPhase::kRunning),
                FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
    const auto watcher = queue().Watch(lease.job, old_token, [] {});
    ASSERT_THAT(watcher, IsOk());
    EXPECT_TRUE((*watcher)->TryNext()->gap);
    EXPECT_THAT(leases().Finish(lease, {}), IsOk());
  }
}

// A slow watcher, and a client that deletes finished jobs.
TEST_F(JobQueueTest, WatcherOfADeletedJobStillReadsItsEnd) {
  const LeaseRef lease = harness_.Running("one");
  auto watcher = *queue().Watch(lease.job, "", [] {});
  auto idle = *queue().Watch(lease.job, "", [] {});
  EXPECT_EQ(watcher->TryNext()->job.state, kRunning);
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5)), IsOk());
  EXPECT_THAT(leases().Finish(lease, {}), IsOk());
  ASSERT_THAT(queue().Delete(lease.job), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_EQ(queue().Stats().n_watchers, 2u);

  const std::vector<WatchEvent> events = QueueHarness::Drain(*watcher);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, WatchEventKind::kCheckpointCommitted);
  EXPECT_EQ(events[1].job.state, kSucceeded);
  EXPECT_TRUE(watcher->finished());
  EXPECT_EQ(QueueHarness::Drain(*idle).back().job.state, kSucceeded);
  watcher.reset();
  idle.reset();
  MutexLock lock(harness_.state->mu);
  EXPECT_TRUE(harness_.state->deleted_jobs().empty());
}

TEST_F(JobQueueTest, JobThatEndedLongAgoKeepsItsLastEventAlone) {
  const LeaseRef lease = harness_.Running("one");
  for (uint32_t step = 1; step <= 20; ++step) {
    harness_.clock.Advance(absl::Seconds(20));
    internal::JobProgress progress;
    progress.mutable_training()->set_step(step);
    ASSERT_THAT(leases().ReportProgress(lease, progress), IsOk());
  }
  EXPECT_THAT(leases().Finish(lease, {}), IsOk());
  EXPECT_GT(harness_.memory_store.Load()->events.size(), 20u);
  harness_.clock.Advance(absl::Minutes(61));
  harness_.Tick();
  {
    MutexLock lock(harness_.state->mu);
    EXPECT_EQ(harness_.state->EntryOf(lease.job).log.size(), 1u);
  }
  EXPECT_EQ(harness_.memory_store.Load()->events.size(), 1u);
  harness_.Restart();
  EXPECT_EQ(harness_.StateOf("one"), kSucceeded);
}

TEST_F(JobQueueTest, RequestIdsAreForgottenAfterSevenDaysAndNotBefore) {
  JobSpec spec = harness_.Spec();
  spec.request_id = kRequestA;
  const auto first = queue().Create(spec);
  harness_.clock.Advance(absl::Hours(24 * 7) - absl::Minutes(1));
  harness_.Tick();
  EXPECT_EQ(queue().Create(spec)->key, first->key);
  harness_.clock.Advance(absl::Hours(2));
  harness_.Tick();
  EXPECT_NE(queue().Create(spec)->key, first->key);
}

TEST_F(JobQueueTest, JumpsOfTheWallClockForgetNoRequestAndTrimNoEvents) {
  harness_.clock.Advance(absl::Hours(2));  // so that the next tick sweeps
  const LeaseRef lease = harness_.Running("one");
  EXPECT_THAT(leases().Finish(lease, {}), IsOk());
  JobSpec spec = harness_.Spec();
  spec.request_id = kRequestA;
  const auto first = queue().Create(spec);
  ASSERT_THAT(first, IsOk());
  harness_.clock.JumpWall(absl::Hours(24 * 30));
  const int n_commits = harness_.memory_store.n_commits();
  harness_.Tick();
  EXPECT_GT(harness_.memory_store.n_commits(), n_commits) << "it has swept";
  EXPECT_EQ(queue().Create(spec)->key, first->key);
  EXPECT_EQ(queue().Stats().oldest_queued_age, absl::ZeroDuration());
  MutexLock lock(harness_.state->mu);
  EXPECT_GT(harness_.state->EntryOf(lease.job).log.size(), 1u);
}

TEST_F(JobQueueTest, EveryBadFieldIsNamedAndNothingIsStored) {
  JobSpec spec = harness_.Spec("Bad Id");
  spec.request_id = "7";
  spec.display_name = std::string(129, 'x') + "\n";
  spec.training.scene = "../scene";
  const int before = harness_.memory_store.n_commits();
  const auto job = queue().Create(spec);
  EXPECT_THAT(job, FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  std::set<std::string> fields;
  for (const auto& violation : GetProblems(job.status())) fields.insert(violation.field);
  EXPECT_THAT(fields, testing::ElementsAre("job.display_name", "job.training.scene", "job_id",
                                           "request_id"));
  EXPECT_EQ(harness_.memory_store.n_commits(), before);
}

TEST_F(JobQueueTest, MissingSceneInitAndProjectAreNotFound) {
  const auto not_found = FailsWith(StatusCode::kNotFound, reason::kResourceNotFound);
  JobSpec spec = harness_.Spec();
  spec.training.scene = "other";
  EXPECT_THAT(queue().Create(spec), not_found);
  spec = harness_.Spec();
  spec.project = "other";
  EXPECT_THAT(queue().Create(spec), not_found);
  spec = harness_.Spec();
  spec.training.init = InitReference{InitReference::Kind::kModel, {"default", "m"}, 0, "all", {}};
  EXPECT_THAT(queue().Create(spec), not_found);
  spec.training.init =
      InitReference{InitReference::Kind::kCheckpoint, {"default", "j"}, 5, "all", {}};
  EXPECT_THAT(queue().Create(spec), not_found);
  spec.training.init->source.project = "other";
  EXPECT_THAT(queue().Create(spec), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(queue().Get({"default", "none"}), not_found);
  EXPECT_THAT(queue().Cancel({"default", "none"}), not_found);
}

TEST_F(JobQueueTest, AheadOfAJobAreTheQueuedOnesOfItsMethodThatCameBefore) {
  JobSpec special = harness_.Spec("special");
  special.training.config.set_method("other");
  const Job one = *queue().Create(harness_.Spec("one"));
  const Job other = *queue().Create(special);
  const Job two = *queue().Create(harness_.Spec("two"));
  const Job three = *queue().Create(harness_.Spec("three"));
  EXPECT_EQ(queue().PlaceOf(one).n_ahead, 0u);
  EXPECT_EQ(queue().PlaceOf(other).n_ahead, 0u);
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 2u);
  harness_.Grant("worker-a");
  EXPECT_FALSE(queue().IsQueued(one));
  EXPECT_TRUE(queue().IsQueued(two));
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 1u);
  harness_.Restart();
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 1u);
}

TEST_F(JobQueueTest, StateWithoutJobsHasNoCount) {
  using Counts = std::map<std::pair<std::string, JobState>, size_t>;
  const Job job = *queue().Create(harness_.Spec("one"));
  EXPECT_EQ(queue().Stats().jobs, (Counts{{{"default", JobState::kQueued}, 1}}));
  ASSERT_THAT(queue().Cancel(job.key), IsOk());
  EXPECT_EQ(queue().Stats().jobs, (Counts{{{"default", JobState::kCancelled}, 1}}));
  ASSERT_THAT(queue().Delete(job.key), IsOk());
  EXPECT_EQ(queue().Stats().jobs, Counts());
}

TEST_F(JobQueueTest, AheadOfAJobAreFewerWhenThePriorityOfOneFallsOrItIsCancelled) {
  const auto update_priority = [&](const Job& job, int priority) {
    JobUpdate update;
    update.priority = priority;
    ASSERT_THAT(queue().Update(job.key, update), IsOk());
  };
  const Job one = *queue().Create(harness_.Spec("one"));
  const Job two = *queue().Create(harness_.Spec("two"));
  const Job three = *queue().Create(harness_.Spec("three"));
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 2u);
  update_priority(one, -1);
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 1u);
  EXPECT_EQ(queue().PlaceOf(*queue().Get(one.key)).n_ahead, 2u);
  update_priority(one, 1);
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 2u);
  for (const Job& job : {one, two}) ASSERT_THAT(queue().Cancel(job.key), IsOk());
  EXPECT_EQ(queue().PlaceOf(three).n_ahead, 0u);
  ASSERT_THAT(queue().Cancel(three.key), IsOk());
  MutexLock lock(harness_.state->mu);
  EXPECT_TRUE(harness_.state->index().empty());
}

TEST_F(JobQueueTest, TakenIdIsRefused) {
  ASSERT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(queue().Create(harness_.Spec("one")),
              FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
}

TEST_F(JobQueueTest, ValidateOnlyStoresNothing) {
  const int before = harness_.memory_store.n_commits();
  EXPECT_THAT(queue().Create(harness_.Spec("one"), /*validate_only=*/true), IsOk());
  EXPECT_EQ(harness_.memory_store.n_commits(), before);
  EXPECT_THAT(queue().Get({"default", "one"}), StatusIs(StatusCode::kNotFound));
}

TEST_F(JobQueueTest, SceneMayBeLeftOutWhereNothingIsCreated) {
  ASSERT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  JobSpec spec = harness_.Spec("two");
  spec.training.scene.clear();
  EXPECT_THAT(queue().Create(spec, /*validate_only=*/true), IsOk());
  EXPECT_THAT(queue().Create(spec), StatusIs(StatusCode::kInvalidArgument));
  spec.id = "one";
  EXPECT_THAT(queue().Create(spec, /*validate_only=*/true),
              FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
}

TEST_F(JobQueueTest, ErrorsOfNamesCarryThem) {
  EXPECT_EQ(GetReason(queue().Get({"default", "none"}).status())->metadata.at("resource"),
            "projects/default/jobs/none");
  ASSERT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  EXPECT_EQ(GetReason(queue().Create(harness_.Spec("one")).status())->metadata.at("resource"),
            "projects/default/jobs/one");
}

TEST_F(JobQueueTest, FullQueueRefusesMore) {
  QueueOptions options;
  options.max_queued_jobs = 2;
  QueueHarness harness(nullptr, options);
  harness.AddScene();
  ASSERT_THAT(harness.queue->Create(harness.Spec()), IsOk());
  ASSERT_THAT(harness.queue->Create(harness.Spec()), IsOk());
  EXPECT_THAT(harness.queue->Create(harness.Spec()),
              FailsWith(StatusCode::kResourceExhausted, reason::kQueueFull));
  harness.Grant();
  EXPECT_THAT(harness.queue->Create(harness.Spec()), IsOk());
}

TEST_F(JobQueueTest, PagesAreNewestFirstCompleteAndWithoutRepetition) {
  for (int i = 0; i < 7; ++i)
    EXPECT_THAT(queue().Create(harness_.Spec("job-" + std::to_string(i))), IsOk());
  PageRequest request{"default", 3, ""};
  std::vector<std::string> seen;
  int n_pages = 0;
  do {
    const auto page = queue().List(request);
    ASSERT_THAT(page, IsOk());
    for (const ListedJob& listed : page->records) seen.push_back(listed.row->job().key.id);
    request.page_token = page->next_page_token;
    // A job that is created meanwhile is on no later page.
    EXPECT_THAT(queue().Create(harness_.Spec("late-" + std::to_string(n_pages))), IsOk());
    ++n_pages;
  } while (!request.page_token.empty());
  EXPECT_EQ(n_pages, 3);
  EXPECT_THAT(seen,
              testing::ElementsAre("job-6", "job-5", "job-4", "job-3", "job-2", "job-1", "job-0"));
}

TEST_F(JobQueueTest, BadPagesAreRefused) {
  for (int i = 0; i < 3; ++i) EXPECT_THAT(queue().Create(harness_.Spec()), IsOk());
  const auto bad = FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid);
  EXPECT_THAT(queue().List({"default", -1, ""}), bad);
  EXPECT_THAT(queue().List({"default", 0, "%%%"}), bad);
  EXPECT_THAT(queue().List({"default", 0, "AAAA"}), bad);
  const std::string token = queue().List({"default", 1, ""})->next_page_token;
  EXPECT_THAT(queue().List({"other", 1, token}), bad) << "token of another project";
  EXPECT_THAT(harness_.scenes->List({"default", 1, token}), bad) << "token of another list";
  EXPECT_THAT(queue().List({"default", 1 << 30, token}), IsOk()) << "lowered to the maximum";
}

TEST_F(JobQueueTest, CancelIsImmediateWhenQueuedAndMayBeRepeated) {
  const auto job = queue().Create(harness_.Spec());
  EXPECT_EQ(queue().Cancel(job->key)->state, kCancelled);
  EXPECT_EQ(queue().Cancel(job->key)->state, kCancelled);
  EXPECT_THAT(leases().Acquire({"worker-a"}), IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_EQ(harness_.observer.n_finished, 1);
}

TEST_F(JobQueueTest, CancelOfARunningJobGoesThroughItsWorker) {
  const LeaseRef lease = harness_.Running("one");
  EXPECT_EQ(queue().Cancel(lease.job)->state, kCancelling);
  EXPECT_EQ(queue().Cancel(lease.job)->state, kCancelling);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kCancel));
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kCancelled;
  EXPECT_EQ(leases().Finish(lease, outcome)->state, kCancelled);
}

TEST_F(JobQueueTest, EndedJobCannotBeCancelled) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().Finish(lease, {}), IsOk());
  EXPECT_THAT(queue().Cancel(lease.job),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
}

TEST_F(JobQueueTest, PauseAndResumeGoThroughTheirStates) {
  const LeaseRef lease = harness_.Running("one");
  EXPECT_EQ(queue().Pause(lease.job)->state, kPausing);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning),
              IsOkAndHolds(LeaseOrder::kCheckpointAndStop));
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10)), IsOk());
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::kPaused;
  EXPECT_EQ(leases().Finish(lease, outcome)->state, kPaused);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  EXPECT_EQ(queue().Resume(lease.job)->state, kQueued);
  const auto grant = leases().Acquire({"worker-b"});
  ASSERT_THAT(grant, IsOk());
  EXPECT_EQ((*grant)->resume->step, 10u);
}

TEST_F(JobQueueTest, StatsCountStatesLeasesAndAge) {
  harness_.Running("one");
  EXPECT_THAT(queue().Create(harness_.Spec("two")), IsOk());
  harness_.clock.Advance(absl::Seconds(90));
  const QueueStats stats = queue().Stats();
  EXPECT_EQ(stats.jobs.at({"default", kRunning}), 1u);
  EXPECT_EQ(stats.jobs.at({"default", kQueued}), 1u);
  EXPECT_EQ(stats.n_queued, 1u);
  EXPECT_EQ(stats.n_leases, 1u);
  EXPECT_EQ(stats.oldest_queued_age, absl::Seconds(90));
}

TEST_F(JobQueueTest, AgeOfAWaitingJobCountsFromWhenItWasQueuedLast) {
  const LeaseRef lease = harness_.Running("one");
  harness_.clock.Advance(absl::Hours(2));
  ASSERT_THAT(leases().Release(lease), IsOk());
  harness_.clock.Advance(absl::Seconds(5));
  EXPECT_EQ(queue().Stats().oldest_queued_age, absl::Seconds(5));
  harness_.Restart();
  EXPECT_EQ(queue().Stats().oldest_queued_age, absl::Seconds(5));
}

TEST_F(JobQueueTest, WaitIsToldWhenAWorkerTakesTheJobAndOnceForEachTime) {
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("one")), IsOk());
  harness_.clock.Advance(absl::Seconds(7));
  const LeaseRef lease = harness_.Grant();
  EXPECT_EQ(harness_.observer.waits, std::vector{absl::Seconds(7)});
  harness_.clock.Advance(absl::Seconds(5));
  EXPECT_THAT(harness_.leases->Release(lease), IsOk());
  harness_.clock.Advance(absl::Seconds(2));
  harness_.Grant();
  ASSERT_EQ(harness_.observer.waits.size(), 2u);
  EXPECT_EQ(harness_.observer.waits[1], absl::Seconds(2));
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("two")), IsOk());
  EXPECT_THAT(harness_.queue->Cancel({"default", "two"}), IsOk());
  EXPECT_EQ(harness_.observer.waits.size(), 2u) << "no worker took it";
}

}  // namespace
}  // namespace nerf
