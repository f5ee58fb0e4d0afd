// Workers whose engines die and workers whose disks are full: where their jobs go.
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/queue_wait.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

class SickWorkersTest : public testing::Test {
 protected:
  SickWorkersTest() { harness_.AddScene(); }
  ~SickWorkersTest() override { harness_.leases.reset(); }

  void Connect(const std::string& worker) {
    WorkerDescription description;
    description.id = worker;
    description.session = "session-of-" + worker;
    description.methods = {"ngp"};
    description.features = {"colmap", "render", "export"};
    ASSERT_THAT(workers_.Connect(description), IsOk());
  }
  void Create(const std::string& id) {
    ASSERT_THAT(harness_.queue->Create(harness_.Spec(id)), IsOk());
  }
  // A job of another kind than training.
  void Create(const std::string& id, JobKind kind, const std::string& project = "default") {
    JobSpec spec;
    spec.project = project;
    spec.id = id;
    spec.kind = kind;
    spec.pose.files = {{"a.jpg", QueueHarness::Blob("a")}};
    spec.model.from_checkpoint = true;
    spec.model.source = QueueHarness::Key("trained");
    spec.exporting.set_format(v1::ExportSpec::GLB);
    spec.render.mutable_path()->mutable_scene()->set_frames(2);
    spec.render.add_channels(v1::RGB);
    spec.render.set_images(true);
    ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  }
  // The engine of "a" dies on three jobs.
  void CrashThrice() {
    for (int i = 0; i < 3; ++i) {
      const std::string id = "bad-" + std::to_string(++n_bad_);
      Create(id);
      ASSERT_EQ(Take("a"), id);
      Crash();
      ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key(id)), IsOk());
    }
    ASSERT_EQ(Record("a").avoids, std::set<std::string>{"default"});
  }
  // What jobs of other kinds are made of.
  void Train() {
    ASSERT_THAT(harness_.queue->Create(harness_.Spec("trained")), IsOk());
    ASSERT_EQ(Take("trainer"), "trained");
    Commit();
    Finish();
  }
  // The id of the job that the worker is granted; empty without one.
  std::string Take(const std::string& worker) {
    const auto grant = leases_.Acquire({worker, {"ngp", "colmap", "export/ngp", "render/ngp"}});
    EXPECT_THAT(grant, IsOk());
    if (!grant->has_value()) return "";
    held_ = (*grant)->lease;
    return held_.job.id;
  }
  void Crash() { EXPECT_THAT(leases_.ReportEngineCrash(held_, "signal 11"), IsOk()); }
  void NoRoom() { EXPECT_THAT(leases_.Release(held_, QueueReason::kNoRoom), IsOk()); }
  void Commit() {
    EXPECT_THAT(leases_.CommitCheckpoint(held_, QueueHarness::Checkpoint(++step_)), IsOk());
  }
  void Finish() { EXPECT_THAT(leases_.Finish(held_, {}), IsOk()); }
  WorkerRecord Record(const std::string& worker) {
    return workers_.Find(worker).value_or(WorkerRecord());
  }

  QueueHarness harness_{nullptr, {.projects = {"default", "other"}}};
  WorkerTable workers_{&harness_.clock, absl::Hours(24)};
  LeaseTable leases_{harness_.state.get(), &workers_};
  LeaseRef held_;
  uint32_t step_ = 0;
  int n_bad_ = 0;
};

TEST_F(SickWorkersTest, AfterACrashAJobGoesElsewhereFirst) {
  Connect("a");
  Connect("b");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  EXPECT_EQ(Take("a"), "");
  EXPECT_EQ(Take("b"), "one");
  Commit();
  Crash();
  EXPECT_EQ(Take("b"), "");
  EXPECT_EQ(Take("a"), "one") << "a checkpoint since it crashed there";
}

TEST_F(SickWorkersTest, WithoutAnotherWorkerItIsTriedWhereItCrashed) {
  Connect("a");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  EXPECT_EQ(Take("a"), "one");
}

TEST_F(SickWorkersTest, TheOthersBeingBusyForLongItGoesBackButNotForItsLastAttempt) {
  Connect("a");
  Connect("b");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  harness_.clock.Advance(LeaseTable::kElsewherePause);
  ASSERT_EQ(Take("a"), "one");
  Crash();
  harness_.clock.Advance(10 * LeaseTable::kElsewherePause);
  EXPECT_EQ(Take("a"), "");
  EXPECT_EQ(Take("b"), "one");
}

TEST_F(SickWorkersTest, RestartRemembersWhereAJobCrashed) {
  Connect("a");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  EXPECT_EQ(harness_.memory_store.Load()->jobs[0].crashed_on, std::vector<std::string>{"a"});
}

// An engine that dies at every training beside a healthy one.
TEST_F(SickWorkersTest, WorkerWhoseEngineAlwaysDiesFailsNoJobOfFifty) {
  constexpr int kJobs = 50;
  Connect("sick");
  Connect("healthy");
  for (int i = 0; i < kJobs; ++i) Create("job-" + std::to_string(i));
  int n_crashes = 0, n_done = 0;
  for (int round = 0; round < 1000 && n_done < kJobs; ++round) {
    harness_.clock.Advance(absl::Seconds(10));
    if (!Take("sick").empty()) {
      ++n_crashes;
      Crash();
    }
    if (!Take("healthy").empty()) {
      Commit();
      Finish();
      ++n_done;
    }
  }
  EXPECT_EQ(n_done, kJobs);
  EXPECT_LE(n_crashes, 10);
  for (int i = 0; i < kJobs; ++i) {
    EXPECT_EQ(harness_.StateOf("job-" + std::to_string(i)), JobState::kSucceeded);
  }
  EXPECT_EQ(Record("sick").avoids, std::set<std::string>{"default"});
  EXPECT_THAT(Record("sick").state_message, testing::HasSubstr("died on"));
  EXPECT_EQ(Record("healthy").state, WorkerState::kIdle);
}

// Of a hostile project, whose editor knows what kills COLMAP, exports and engines.
TEST_F(SickWorkersTest, NoProjectTakesAWorkerFromTheOthersByCrashes) {
  Connect("a");
  Train();
  int n_crashes = 0;
  for (const JobKind kind : {JobKind::kPose, JobKind::kExport}) {
    for (int i = 0; i < 5; ++i) {
      const std::string id = "bad-" + std::to_string(i);
      Create(id, kind);
      for (; Take("a") == id; ++n_crashes) Crash();
      EXPECT_EQ(harness_.Get(id).state, JobState::kFailed);
      EXPECT_THAT(harness_.Get(id).error.message,
                  testing::HasSubstr("3 tries in a row broke down"));
      if (kind == JobKind::kPose) {
        EXPECT_THAT(harness_.queue->Delete(QueueHarness::Key(id)), IsOk());
      }
    }
  }
  EXPECT_EQ(n_crashes, 30);
  EXPECT_TRUE(Record("a").avoids.empty());
  for (int i = 0; i < 9; ++i) {
    Create("training-" + std::to_string(i));
    if (!Take("a").empty()) Crash();
  }
  EXPECT_EQ(Record("a").avoids, std::set<std::string>{"default"});
  EXPECT_EQ(Take("a"), "");
  Create("other", JobKind::kPose, "other");
  EXPECT_EQ(Take("a"), "other");
}

TEST_F(SickWorkersTest, WhatAnAvoidedProjectsJobWaitsForIsTheWorker) {
  Connect("a");
  CrashThrice();
  Create("one");
  const Job job = harness_.Get("one");
  const auto wait = ExplainWait(job, *workers_.List(), absl::ZeroDuration(), [] { return 0; });
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(wait->reason, kWaitWorkersUnhealthy);
  EXPECT_THAT(wait->message, testing::HasSubstr("died on 3 jobs of a project"));
  EXPECT_FALSE(workers_.AnotherOffers("default", "ngp", {}));
  EXPECT_TRUE(workers_.AnotherOffers("other", "ngp", {}));
}

TEST_F(SickWorkersTest, AnySuccessOfAnyKindHealsAWorker) {
  Train();
  Connect("a");
  CrashThrice();
  harness_.clock.Advance(WorkerHealth::kFirstPause);
  Create("poses", JobKind::kPose);
  ASSERT_EQ(Take("a"), "poses");
  EXPECT_THAT(leases_.CommitPoses(held_, {}, {{"images/a.jpg", QueueHarness::Blob("a")}}), IsOk());
  EXPECT_TRUE(Record("a").avoids.empty());
  CrashThrice();
  harness_.clock.Advance(WorkerHealth::kFirstPause);
  Create("mesh", JobKind::kExport);
  ASSERT_EQ(Take("a"), "mesh");
  JobOutcome made;
  *made.exported.emplace().add_files()->mutable_blob() = ToProto(QueueHarness::Blob("mesh"));
  EXPECT_THAT(leases_.Finish(held_, made), IsOk());
  EXPECT_TRUE(Record("a").avoids.empty());
  CrashThrice();
  harness_.clock.Advance(WorkerHealth::kFirstPause);
  Create("film", JobKind::kRender);
  ASSERT_EQ(Take("a"), "film");
  EXPECT_THAT(leases_.CommitFrames(held_, {{0, FrameRecord{{QueueHarness::Blob("f")}, 0}}}, {}),
              IsOk());
  EXPECT_TRUE(Record("a").avoids.empty());
}

TEST_F(SickWorkersTest, WorkThatFitsNowhereFailsAfterRoundsOnAllWorkersAndSaysWhy) {
  Connect("a");
  Connect("b");
  Train();
  for (const JobKind kind : {JobKind::kPose, JobKind::kExport, JobKind::kRender}) {
    SCOPED_TRACE(JobKindName(kind));
    Create("large", kind);
    int n_tries = 0;
    for (int round = 0; round < LeaseTable::kMaxNoRoomRounds; ++round) {
      for (const char* worker : {"a", "b"}) {
        if (Take(worker) != "large") continue;
        ++n_tries;
        EXPECT_THAT(leases_.Release(held_, QueueReason::kNoRoom, std::nullopt, "1 GB of 3"),
                    IsOk());
        if (round + 1 < LeaseTable::kMaxNoRoomRounds) {
          EXPECT_EQ(harness_.Get("large").queue_reason, QueueReason::kNoRoom);
        }
      }
      harness_.clock.Advance(LeaseTable::kMaxNoRoomPause);
    }
    EXPECT_EQ(n_tries, 2 * LeaseTable::kMaxNoRoomRounds);
    const Job job = harness_.Get("large");
    EXPECT_EQ(job.state, JobState::kFailed);
    EXPECT_EQ(job.error.reason, "NO_ROOM");
    EXPECT_EQ(job.error.code, absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(job.error.message, testing::HasSubstr("3 times in a row; last: 1 GB of 3"));
    EXPECT_TRUE(Record("a").avoids.empty());
    ASSERT_THAT(harness_.queue->Delete(QueueHarness::Key("large")), IsOk());
  }
}

TEST_F(SickWorkersTest, JobThatAWorkerHasNoRoomForGoesToAnother) {
  Connect("full");
  Connect("roomy");
  Create("one");
  ASSERT_EQ(Take("full"), "one");
  NoRoom();
  EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kNoRoom);
  EXPECT_EQ(Take("full"), "");
  EXPECT_EQ(Take("roomy"), "one");
}

TEST_F(SickWorkersTest, JobThatNobodyHasRoomForWaitsAsideWithGrowingPausesAndOthersStart) {
  Connect("a");
  Create("large");
  Create("small");
  int n_woken = 0;
  const auto subscription = leases_.SubscribeWork("a", [&] { ++n_woken; });
  absl::Duration pause = LeaseTable::kFirstNoRoomPause;
  ASSERT_EQ(Take("a"), "large");
  NoRoom();
  ASSERT_EQ(Take("a"), "small");
  Finish();
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(harness_.queue->PlaceOf(harness_.Get("large")).aside, pause);
    harness_.clock.Advance(pause - absl::Seconds(1));
    EXPECT_EQ(Take("a"), "");
    harness_.clock.Advance(absl::Seconds(1));
    n_woken = 0;
    leases_.ExpireLeases();
    EXPECT_EQ(n_woken, 1);
    ASSERT_EQ(Take("a"), "large");
    NoRoom();
    pause = std::min(2 * pause, LeaseTable::kMaxNoRoomPause);
  }
}

}  // namespace
}  // namespace nerf
