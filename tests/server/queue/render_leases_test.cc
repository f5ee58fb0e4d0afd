// Render jobs in the queue: parts are granted, committed, lost and finished by workers that are
// calls of this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/queue/kinds/render_work.h"
#include "server/queue/leases/queue_wait.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;

class RenderLeasesTest : public testing::Test {
 protected:
  void SetUp() override {
    harness_.AddScene();
    const LeaseRef lease = harness_.Running("trained");
    ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
    ASSERT_THAT(leases().Finish(lease, {}), IsOk());
  }

  LeaseTable& leases() { return *harness_.leases; }
  Job Get(const std::string& id) { return *harness_.queue->Get(QueueHarness::Key(id)); }

  JobSpec Spec(const std::string& id, uint32_t n_frames, bool movie = false) {
    JobSpec spec;
    spec.project = "default";
    spec.id = id;
    spec.kind = JobKind::kRender;
    spec.model.from_checkpoint = true;
    spec.model.source = QueueHarness::Key("trained");
    spec.render.set_checkpoint("projects/default/jobs/trained/checkpoints/-");
    spec.render.mutable_path()->mutable_scene()->set_frames(n_frames);
    spec.render.add_channels(v1::RGB);
    spec.render.set_images(!movie);
    spec.render.set_movie(movie);
    return spec;
  }

  std::optional<LeaseGrant> Acquire(const std::string& worker,
                                    std::vector<std::string> offers = {"ngp", "render/ngp"}) {
    auto grant = leases().Acquire({worker, std::move(offers)});
    EXPECT_THAT(grant, IsOk());
    return *grant;
  }

  static std::vector<std::pair<uint32_t, FrameRecord>> Frames(uint32_t begin, uint32_t end) {
    std::vector<std::pair<uint32_t, FrameRecord>> frames;
    for (uint32_t i = begin; i < end; ++i) {
      frames.emplace_back(i, FrameRecord{{QueueHarness::Blob("frame " + std::to_string(i))}, 0});
    }
    return frames;
  }

  absl::Status CommitAll(const LeaseGrant& grant) {
    const FrameSpan span = FramesOfPart(grant.job, grant.lease.part);
    return leases().CommitFrames(grant.lease, Frames(span.begin, span.end), std::nullopt);
  }

  QueueHarness harness_;
};

TEST_F(RenderLeasesTest, TwoWorkersShareAJobAndEveryFrameIsStoredOnce) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  EXPECT_EQ(ToBlobRef(Get("film").model.blob()), QueueHarness::Blob("model 7"));
  const auto first = Acquire("worker-a"), second = Acquire("worker-b");
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_NE(first->lease.part, second->lease.part);
  EXPECT_FALSE(Acquire("worker-c").has_value());
  EXPECT_EQ(Get("film").lease.members, (std::vector<std::string>{"worker-a", "worker-b"}));
  for (const LeaseGrant& grant : {*first, *second}) {
    ASSERT_THAT(leases().Renew(grant.lease, WorkPhase::kRunning), IsOk());
    ASSERT_THAT(CommitAll(grant), IsOk());
    ASSERT_THAT(CommitAll(grant), IsOk());  // may be repeated
    ASSERT_THAT(leases().Finish(grant.lease, {}), IsOk());
    ASSERT_THAT(leases().Finish(grant.lease, {}), IsOk());
  }
  const Job job = Get("film");
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(CountFrames(job), 20u);
  EXPECT_TRUE(harness_.state->ReachableBlobs().contains(QueueHarness::Blob("frame 19").sha256));
}

TEST_F(RenderLeasesTest, LostWorkerCostsOnlyTheFramesThatItHadNotCommitted) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  const LeaseGrant lost = *Acquire("worker-a");
  ASSERT_THAT(leases().CommitFrames(lost.lease, Frames(0, 5), std::nullopt), IsOk());
  harness_.clock.Advance(harness_.options.lease_ttl + absl::Seconds(1));
  harness_.Tick();
  EXPECT_EQ(Get("film").state, JobState::kQueued);
  EXPECT_EQ(Get("film").queue_reason, QueueReason::kWorkerLost);
  EXPECT_THAT(leases().CommitFrames(lost.lease, Frames(5, 6), std::nullopt),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  const LeaseGrant next = *Acquire("worker-b");
  EXPECT_EQ(next.lease.part, 0u);
  EXPECT_GT(next.lease.epoch, lost.lease.epoch);
  EXPECT_EQ(CountFrames(next.job), 5u);
}

TEST_F(RenderLeasesTest, OtherWorkersGoOnWhenOneIsLost) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 40)), IsOk());
  const LeaseGrant a = *Acquire("worker-a"), b = *Acquire("worker-b");
  harness_.clock.Advance(harness_.options.lease_ttl / 2);
  ASSERT_THAT(leases().Renew(b.lease, WorkPhase::kRunning), IsOk());
  harness_.clock.Advance(harness_.options.lease_ttl / 2 + absl::Seconds(1));
  harness_.Tick();
  EXPECT_EQ(Get("film").state, JobState::kRunning);
  EXPECT_EQ(Get("film").lease.members, std::vector<std::string>{"worker-b"});
  EXPECT_EQ(Acquire("worker-a")->lease.part, a.lease.part);
}

TEST_F(RenderLeasesTest, RestartKeepsFramesAndTheHoldersLeases) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  const LeaseGrant grant = *Acquire("worker-a");
  ASSERT_THAT(leases().CommitFrames(grant.lease, Frames(0, 5), std::nullopt), IsOk());
  harness_.Restart();
  EXPECT_EQ(CountFrames(Get("film")), 5u);
  ASSERT_THAT(leases().Attach("worker-a", std::vector<LeaseRef>{grant.lease}), IsOk());
  ASSERT_THAT(leases().CommitFrames(grant.lease, Frames(5, 16), std::nullopt), IsOk());
  ASSERT_THAT(leases().Finish(grant.lease, {}), IsOk());
  // A worker that has forgotten its lease does not hold it.
  const LeaseGrant rest = *Acquire("worker-a");
  ASSERT_THAT(leases().Attach("worker-a", {}), IsOk());
  EXPECT_EQ(Get("film").state, JobState::kQueued);
  EXPECT_THAT(leases().Renew(rest.lease, WorkPhase::kRunning),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
}

TEST_F(RenderLeasesTest, MovieIsMadeLastByAWorkerThatHasFfmpegAndItsFramesAreDropped) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 3, /*movie=*/true)), IsOk());
  EXPECT_FALSE(Acquire("worker-f", {"ffmpeg"}).has_value());
  EXPECT_FALSE(Acquire("worker-old", {}).has_value());  // has not said that it renders
  const LeaseGrant frames = *Acquire("worker-a");
  EXPECT_FALSE(Acquire("worker-f", {"ffmpeg"}).has_value());
  ASSERT_THAT(CommitAll(frames), IsOk());
  ASSERT_THAT(leases().Finish(frames.lease, {}), IsOk());
  EXPECT_EQ(Get("film").state, JobState::kRunning);
  EXPECT_FALSE(Acquire("worker-a").has_value());
  const LeaseGrant movie = *Acquire("worker-f", {"ffmpeg"});
  EXPECT_TRUE(IsMoviePart(movie.job, movie.lease.part));
  EXPECT_THAT(leases().Finish(movie.lease, {}),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  ASSERT_THAT(leases().CommitFrames(movie.lease, {}, QueueHarness::Blob("movie")), IsOk());
  harness_.blobs.released.clear();
  ASSERT_THAT(leases().Finish(movie.lease, {}), IsOk());
  EXPECT_EQ(Get("film").state, JobState::kSucceeded);
  const auto reachable = harness_.state->ReachableBlobs();
  EXPECT_TRUE(reachable.contains(QueueHarness::Blob("movie").sha256));
  EXPECT_FALSE(reachable.contains(QueueHarness::Blob("frame 0").sha256));
  EXPECT_TRUE(harness_.blobs.released.contains(QueueHarness::Blob("frame 0").sha256));
  EXPECT_FALSE(harness_.blobs.released.contains(QueueHarness::Blob("movie").sha256));
}

TEST_F(RenderLeasesTest, FramesAndMovieWithAStyleWaitForWorkersThatAnnounceIt) {
  JobSpec spec = Spec("film", 3, /*movie=*/true);
  spec.model.feature = kStyleFeature;
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  WorkerRecord worker;
  worker.connected = true;
  worker.description = {"worker-a", "s", "cpu", "", "", "", {"ngp"}, {"render", "ffmpeg"}};
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  const auto wait = [&] {
    return ExplainWait(Get("film"), std::vector{worker}, absl::ZeroDuration(),
                       [] { return size_t{0}; });
  };
  EXPECT_FALSE(Acquire("worker-a", worker.description.Capabilities()).has_value());
  ASSERT_TRUE(wait().has_value());
  EXPECT_EQ(wait()->reason, kWaitNoCapableWorker);
  EXPECT_THAT(wait()->message, testing::HasSubstr("older versions do not"));
  harness_.Restart();
  EXPECT_FALSE(Acquire("worker-a", worker.description.Capabilities()).has_value());
  worker.description.features.push_back("style");
  worker.capabilities = QueueHarness::CapabilitiesOf(worker);
  EXPECT_EQ(wait(), std::nullopt);
  const LeaseGrant frames = *Acquire("worker-a", worker.description.Capabilities());
  ASSERT_THAT(CommitAll(frames), IsOk());
  ASSERT_THAT(leases().Finish(frames.lease, {}), IsOk());
  EXPECT_FALSE(Acquire("worker-old", {"ngp", "render/ngp", "ffmpeg"}).has_value());
  EXPECT_TRUE(Acquire("worker-a", worker.description.Capabilities()).has_value());
}

TEST_F(RenderLeasesTest, FramesOfAnotherPartAndMissingBlobsAreRefused) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  const LeaseGrant grant = *Acquire("worker-a");
  EXPECT_THAT(leases().CommitFrames(grant.lease, Frames(16, 17), std::nullopt),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(leases().CommitFrames(grant.lease, {}, QueueHarness::Blob("movie")),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  harness_.blobs.missing.insert(QueueHarness::Blob("frame 0").sha256);
  EXPECT_THAT(leases().CommitFrames(grant.lease, Frames(0, 1), std::nullopt),
              FailsWith(StatusCode::kFailedPrecondition, reason::kBlobsMissing));
  EXPECT_EQ(CountFrames(Get("film")), 0u);
}

TEST_F(RenderLeasesTest, CancelWaitsForHoldersAndIsImmediateWithoutThem) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 40)), IsOk());
  const LeaseGrant a = *Acquire("worker-a"), b = *Acquire("worker-b");
  const auto cancel = [&](const std::string& id) {
    return harness_.queue->Cancel(QueueHarness::Key(id));
  };
  EXPECT_EQ(cancel("film")->state, JobState::kCancelling);
  EXPECT_EQ(*leases().Renew(a.lease, WorkPhase::kRunning), LeaseOrder::kCancel);
  JobOutcome cancelled;
  cancelled.kind = JobOutcome::Kind::kCancelled;
  EXPECT_EQ(leases().Finish(a.lease, cancelled)->state, JobState::kCancelling);
  EXPECT_EQ(leases().Finish(b.lease, cancelled)->state, JobState::kCancelled);

  ASSERT_THAT(harness_.queue->Create(Spec("next", 40)), IsOk());
  const LeaseGrant part = *Acquire("worker-a");
  ASSERT_THAT(CommitAll(part), IsOk());
  ASSERT_THAT(leases().Finish(part.lease, {}), IsOk());
  EXPECT_EQ(Get("next").state, JobState::kRunning);
  EXPECT_EQ(cancel("next")->state, JobState::kCancelled);
  EXPECT_THAT(harness_.queue->Delete(QueueHarness::Key("next")), IsOk());
}

TEST_F(RenderLeasesTest, ThreeCrashesInARowWithoutAFrameFailTheJob) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  for (int crash = 1; crash <= 3; ++crash) {
    const LeaseGrant grant = *Acquire("worker-a");
    ASSERT_THAT(leases().ReportEngineCrash(grant.lease, "signal 11"), IsOk());
    EXPECT_EQ(Get("film").state, crash < 3 ? JobState::kQueued : JobState::kFailed);
  }
  EXPECT_EQ(Get("film").error.reason, reason::kEngineCrashed);
}

TEST_F(RenderLeasesTest, ListsHaveEveryKindOrThoseThatTheFilterNames) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  const auto ids = [&](const std::string& filter) {
    const auto page = harness_.queue->List({"default", 0, ""}, *JobFilter::Parse(filter));
    std::vector<std::string> found;
    for (const ListedJob& listed : page->records) found.push_back(listed.row->job().key.id);
    return found;
  };
  EXPECT_THAT(ids(""), ElementsAre("film", "trained"));
  EXPECT_THAT(ids("kind = render"), ElementsAre("film"));
  EXPECT_THAT(ids("kind = training"), ElementsAre("trained"));
  EXPECT_THAT(ids("kind != pose AND state = QUEUED"), ElementsAre("film"));
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("film")),
              FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
}

TEST_F(RenderLeasesTest, WhatOnlyTrainingsDoIsRefusedByName) {
  const ResourceKey film = QueueHarness::Key("film");
  JobQueue& queue = *harness_.queue;
  ASSERT_THAT(queue.Create(Spec("film", 20)), IsOk());
  const auto refused = [](const std::string& why) {
    return AllOf(FailsWith(StatusCode::kFailedPrecondition, reason::kKindCannot),
                 StatusIs(StatusCode::kFailedPrecondition,
                          "projects/default/jobs/film is a render job: it " + why));
  };
  EXPECT_THAT(queue.Pause(film), refused("cannot be paused"));
  EXPECT_THAT(queue.Resume(film), refused("is never paused"));
  EXPECT_THAT(queue.Cancel(film, /*keep_checkpoint=*/true), refused("has no checkpoint to keep"));
  EXPECT_THAT(queue.GetCurve(film), refused("has no curves"));
  JobSpec retry;
  retry.project = "default";
  retry.retry_of = "film";
  EXPECT_THAT(queue.Create(retry), refused("cannot be retried"));
  JobSpec extension;
  extension.project = "default";
  extension.extension = {.of = "film", .total = {"steps", 2000}};
  EXPECT_THAT(queue.Create(extension), refused("cannot be extended"));
  const LeaseRef lease = Acquire("worker-a")->lease;
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(8)),
              refused("commits no checkpoints"));
  EXPECT_THAT(leases().CommitPoses(lease, {}, {}), refused("has no poses"));
  // Its parts have leases of their own, so that a part is no rank.
  const LeaseRef second = Acquire("worker-b")->lease;
  ASSERT_EQ(second.part, 1u);
  EXPECT_THAT(leases().TellRanks(second, 0, "here"), refused("has no ranks"));
  EXPECT_THAT(leases().RankTexts(second, 0), refused("has no ranks"));
}

TEST_F(RenderLeasesTest, ItsNamesPriorityAndLabelsChangeButNoDeadlineAndCrop) {
  const ResourceKey film = QueueHarness::Key("film");
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  JobUpdate update;
  update.display_name = "night";
  update.priority = 7;
  update.labels = JobLabels{{"team", "blue"}};
  ASSERT_THAT(harness_.queue->Update(film, update), IsOk());
  EXPECT_EQ(Get("film").priority, 7);
  const auto field_of = [&](const absl::Status& refused) {
    const auto problems = GetProblems(refused);
    return problems.size() == 1 ? problems[0].field : "";
  };
  const absl::Time later = harness_.clock.WallNow() + absl::Hours(1);
  std::vector<std::pair<std::string, JobUpdate>> wrong(3);
  wrong[0].first = "job.training.crop";
  wrong[0].second.crop.emplace();
  wrong[1].first = "job.start_by_time";
  wrong[1].second.start_by = later;
  wrong[2].first = "job.end_by_time";
  wrong[2].second.end_by = later;
  for (const auto& [field, change] : wrong) {
    EXPECT_EQ(field_of(harness_.queue->Update(film, change).status()), field);
  }
  JobSpec spec = Spec("late", 20);
  spec.end_by = later;
  EXPECT_EQ(field_of(harness_.queue->Create(spec).status()), "job.end_by_time");
}

TEST_F(RenderLeasesTest, OlderWorkComesFirstWhateverItsKind) {
  ASSERT_THAT(harness_.queue->Create(Spec("film", 20)), IsOk());
  ASSERT_THAT(harness_.queue->Create(harness_.Spec("training")), IsOk());
  EXPECT_EQ(Acquire("worker-a")->job.kind, JobKind::kRender);
  EXPECT_EQ(Acquire("worker-b")->job.kind, JobKind::kRender);
  EXPECT_EQ(Acquire("worker-c")->job.kind, JobKind::kTraining);
}

}  // namespace
}  // namespace nerf
