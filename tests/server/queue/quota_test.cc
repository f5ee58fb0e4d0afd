// Quotas of projects, on a queue without a network or a disk.
#include "server/queue/state/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "server/queue/upkeep/queue_admin.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;

class QuotaTest : public testing::Test {
 protected:
  QuotaTest() { harness_.AddScene(); }

  void SetQuota(const ProjectQuota& quota) {
    EXPECT_THAT(admin_.UpdateProject("default", [&](ProjectRecord& r) { r.quota = quota; }),
                IsOk());
  }
  static std::string Metadata(const absl::Status& status, const std::string& key) {
    const auto reason = GetReason(status);
    return reason.has_value() && reason->metadata.contains(key) ? reason->metadata.at(key) : "";
  }

  QueueHarness harness_;
  WorkerTable workers_{&harness_.clock, harness_.options.lease_ttl};
  QueueAdmin admin_{harness_.state.get(), &workers_};
  JobUpkeep upkeep_{harness_.state.get(), &workers_};
};

TEST_F(QuotaTest, QueuedJobsAreRefusedAboveTheLimitWithProjectAndLimit) {
  SetQuota({.max_queued_jobs = 2});
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("one")), IsOk());
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("two")), IsOk());
  const absl::Status refused = harness_.queue->Create(harness_.Spec("three")).status();
  EXPECT_THAT(refused, FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  EXPECT_EQ(Metadata(refused, "project"), "default");
  EXPECT_EQ(Metadata(refused, "limit"), "max_queued_jobs");
  EXPECT_EQ(Metadata(refused, "max"), "2");
  harness_.Grant();
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("three")), IsOk());
}

TEST_F(QuotaTest, JobsAboveTheRunningLimitWaitInTheQueue) {
  SetQuota({.max_running_jobs = 1});
  const LeaseRef first = harness_.Running("one");
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("two")), IsOk());
  EXPECT_FALSE((*harness_.leases->Acquire({"worker-b", {}})).has_value());
  EXPECT_THAT(harness_.queue->PlaceOf(harness_.Get("two")).quota,
              testing::HasSubstr("has 1 job at work, as many as it may"));
  EXPECT_THAT(harness_.leases->Release(first), IsOk());
  EXPECT_TRUE((*harness_.leases->Acquire({"worker-b", {}})).has_value());
}

TEST_F(QuotaTest, StoredBytesRefuseUploadsScenesAndJobs) {
  SetQuota({.max_stored_bytes = 10});  // the scene has 7
  admin_.CountStoredBytes();
  EXPECT_EQ(admin_.GetProject("default").usage.stored_bytes, 7U);
  EXPECT_THAT(admin_.BeginUpload("default", "one", 3), IsOk());
  EXPECT_THAT(admin_.BeginUpload("default", "one", 3), IsOk()) << "it goes on";
  for (const auto& [upload, size] : {std::pair("one", 4), std::pair("two", 1)}) {
    EXPECT_THAT(admin_.BeginUpload("default", upload, size),
                FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  }
  EXPECT_THAT(admin_.BeginUpload("other", "two", 4), IsOk());
  EXPECT_THAT(admin_.FinishUpload("default", "one", QueueHarness::Blob("abc")), IsOk());
  EXPECT_THAT(admin_.FinishUpload("default", "two", QueueHarness::Blob("abc")), IsOk());
  EXPECT_EQ(admin_.GetProject("default").usage.stored_bytes, 10U);
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("one")),
              FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  SceneSpec scene;
  scene.project = "default";
  scene.files = {{"transforms.json", QueueHarness::Blob("abc")}};
  EXPECT_THAT(harness_.scenes->Create(scene),
              FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
}

TEST_F(QuotaTest, UploadIsCountedOnceWhenASceneNamesIt) {
  SetQuota({.max_stored_bytes = 100});
  for (const char* content : {"json", "unused"}) {  // the first is of the scene
    EXPECT_THAT(admin_.FinishUpload("default", content, QueueHarness::Blob(content)), IsOk());
  }
  admin_.CountStoredBytes();
  EXPECT_EQ(admin_.GetProject("default").usage.stored_bytes, 7U + 6U);
  harness_.clock.Advance(absl::Hours(25));  // collected by then
  admin_.CountStoredBytes();
  EXPECT_EQ(admin_.GetProject("default").usage.stored_bytes, 7U);
}

// One bound for what a project makes the server hold in memory, whatever the kind of record.
class RecordBytesTest : public testing::Test {
 protected:
  static QueueOptions Options() {
    QueueOptions options;
    options.max_record_bytes = kMax;
    options.projects.clear();
    return options;
  }
  static std::vector<SceneFileRecord> Files(size_t n) {
    std::vector<SceneFileRecord> files;
    for (size_t i = 0; i < n; ++i) {
      files.push_back(
          {std::string(200, 'x') + std::to_string(i) + ".jpg", QueueHarness::Blob("a photograph")});
    }
    return files;
  }
  absl::Status Poses(const std::string& id, size_t n_files, const std::string& project = "lab") {
    JobSpec spec;
    spec.project = project;
    spec.id = id;
    spec.kind = JobKind::kPose;
    spec.pose.files = Files(n_files);
    return harness_.queue->Create(spec).status();
  }
  absl::Status Scene(const std::string& id, size_t n_files, const std::string& project = "lab") {
    SceneSpec spec;
    spec.project = project;
    spec.id = id;
    spec.files = Files(n_files);
    spec.files.push_back({"transforms.json", QueueHarness::Blob("json")});
    return harness_.scenes->Create(spec).status();
  }
  absl::Status Training(const std::string& id, size_t n_config_bytes) {
    JobSpec spec = harness_.Spec(id);
    spec.project = "lab";
    spec.training.requested_config.set_method(std::string(n_config_bytes, 'c'));
    return harness_.queue->Create(spec).status();
  }
  uint64_t Counted(const std::string& project = "lab") {
    MutexLock lock(harness_.state->mu);
    return harness_.state->RecordBytesOf(project);
  }
  static auto IsRefused() {
    return FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded);
  }

  static constexpr uint64_t kMax = 1'000'000;
  QueueHarness harness_{nullptr, Options()};
};

TEST_F(RecordBytesTest, RefuseRecordsOfEveryKindAndSayWhatToDelete) {
  ASSERT_THAT(Scene("scene", 1), IsOk());
  ASSERT_THAT(Poses("one", 1000), IsOk());
  ASSERT_THAT(Poses("two", 1000), IsOk());
  const absl::Status refused = Poses("three", 1000);
  EXPECT_THAT(refused, IsRefused());
  EXPECT_EQ(GetReason(refused)->metadata.at("limit"), "record_bytes");
  const std::string message(refused.message());
  EXPECT_THAT(message, testing::HasSubstr("may have 1000000 bytes"));
  EXPECT_THAT(message, testing::HasSubstr("has " + std::to_string(Counted()) + ","));
  EXPECT_THAT(message, testing::HasSubstr("delete ended jobs, scenes or models"));
  EXPECT_THAT(Scene("much", 1000), IsRefused());
  EXPECT_THAT(Training("much", 500'000), IsRefused());
  EXPECT_THAT(Training("little", 1000), IsOk());
  EXPECT_THAT(Poses("three", 1000, "other"), IsOk());
}

TEST_F(RecordBytesTest, OfAllProjectsAreFourTimesThoseOfOne) {
  for (const char* project : {"a", "b", "d", "e"}) {
    for (const char* id : {"one", "two"}) ASSERT_THAT(Poses(id, 1300, project), IsOk());
  }
  EXPECT_THAT(Poses("one", 1300, "c"), IsRefused());
  EXPECT_THAT(Poses("one", 10, "c"), IsOk());
}

TEST_F(RecordBytesTest, AreCountedAgainAtAStartAndGoWithTheirResources) {
  ASSERT_THAT(Scene("scene", 100), IsOk());
  ASSERT_THAT(Training("one", 1000), IsOk());
  ASSERT_THAT(Poses("two", 1000), IsOk());
  const uint64_t counted = Counted();
  EXPECT_GT(counted, 1100U * 250);
  // The store still has the files of an ended job, and reads them at the next start.
  ASSERT_THAT(harness_.queue->Cancel({"lab", "two"}), IsOk());
  EXPECT_EQ(Counted(), counted);
  harness_.Restart();
  EXPECT_EQ(Counted(), counted);
  ASSERT_THAT(harness_.queue->Cancel({"lab", "one"}), IsOk());
  EXPECT_THAT(harness_.queue->Delete({"lab", "one"}), IsOk());
  EXPECT_THAT(harness_.queue->Delete({"lab", "two"}), IsOk());
  EXPECT_THAT(harness_.scenes->Delete({"lab", "scene"}), IsOk());
  EXPECT_EQ(Counted(), 0U);
}

TEST_F(RecordBytesTest, OfModelsAreCounted) {
  harness_.AddScene();
  const LeaseRef lease = harness_.Running("one");
  CheckpointRecord checkpoint = QueueHarness::Checkpoint(1);
  checkpoint.tensors.assign(1000, {std::string(50, 't'), "F16", {16, 4096, 2}});
  ASSERT_THAT(harness_.leases->CommitCheckpoint(lease, checkpoint), IsOk());
  std::vector<ResourceKey> models;
  absl::Status refused;
  while (refused.ok() && models.size() < 100) {
    const auto model = harness_.models->Promote({"default", "", "", "", {lease.job, {}}});
    refused = model.status();
    if (model.ok()) models.push_back(model->key);
  }
  EXPECT_THAT(refused, IsRefused());
  EXPECT_GT(models.size(), 3U);
  const uint64_t counted = Counted("default");
  EXPECT_LE(counted, kMax);
  harness_.Restart();
  EXPECT_EQ(Counted("default"), counted);
  EXPECT_THAT(harness_.models->Delete(models[0]), IsOk());
  EXPECT_THAT(harness_.models->Promote({"default", "", "", "", {lease.job, {}}}), IsOk());
}

TEST_F(QuotaTest, UsedDayStopsJobsAndEndsAtMidnight) {
  SetQuota({.max_device_seconds_per_day = 60});
  const LeaseRef lease = harness_.Running("one");
  for (int i = 0; i < 61; ++i) {
    harness_.clock.Advance(absl::Seconds(1));
    EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
    upkeep_.Tick();
  }
  EXPECT_EQ(*harness_.leases->Renew(lease, WorkPhase::kRunning), LeaseOrder::kCheckpointAndStop);
  EXPECT_THAT(harness_.leases->Release(lease), IsOk());
  EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kQuota);
  EXPECT_FALSE((*harness_.leases->Acquire({"worker-b", {}})).has_value());
  EXPECT_NEAR(admin_.GetProject("default").usage.device_seconds, 61, 1);
  harness_.clock.Advance(absl::Hours(24));
  EXPECT_TRUE((*harness_.leases->Acquire({"worker-b", {}})).has_value());
}

// They begin again from the start, so they may use twice the day to end. One that has not ended on
// the second day never would.
TEST_F(QuotaTest, DayUsedTwiceStopsPoseJobs) {
  SetQuota({.max_device_seconds_per_day = 60});
  JobSpec spec;
  spec.project = "default";
  spec.id = "fox";
  spec.kind = JobKind::kPose;
  spec.pose.files = {{"a.jpg", QueueHarness::Blob("a")}};
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  const auto use_the_day_twice = [&] {
    const LeaseRef lease = (*harness_.leases->Acquire({"worker-a", {"colmap"}}))->lease;
    int n_seconds = 0;
    while (*harness_.leases->Renew(lease, WorkPhase::kRunning) == LeaseOrder::kTrain &&
           n_seconds < 200) {
      ++n_seconds;
      harness_.clock.Advance(absl::Seconds(1));
      upkeep_.Tick();
    }
    EXPECT_NEAR(n_seconds, 120, 5);
    EXPECT_THAT(harness_.leases->Release(lease), IsOk());
    return *harness_.queue->Get(QueueHarness::Key("fox"));
  };
  const Job job = use_the_day_twice();
  EXPECT_EQ(job.queue_reason, QueueReason::kQuota);
  EXPECT_EQ(job.crashes_in_row, 0u);
  EXPECT_FALSE((*harness_.leases->Acquire({"worker-b", {"colmap"}})).has_value());
  harness_.clock.Advance(absl::Hours(24));
  const Job second = use_the_day_twice();
  EXPECT_EQ(second.state, JobState::kFailed);
  EXPECT_EQ(second.error.reason, "QUOTA_EXCEEDED");
}

TEST_F(QuotaTest, RendersInProgressAreLimitedPerProject) {
  SetQuota({.max_renders = 1});
  auto ticket = admin_.BeginRender("default");
  ASSERT_THAT(ticket, IsOk());
  EXPECT_THAT(admin_.BeginRender("default"),
              FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  EXPECT_THAT(admin_.BeginRender("other"), IsOk());
  ticket->reset();
  EXPECT_THAT(admin_.BeginRender("default"), IsOk());
}

TEST_F(QuotaTest, MetersOfAProjectThatIsBeingChangedAreStoredLater) {
  const LeaseRef lease = harness_.Running("one");
  std::optional<Claim> change;
  {
    QueueLock lock(*harness_.state);
    change.emplace(*harness_.state,
                   std::vector<ClaimKey>{{ClaimKey::Kind::kProject, {"default", ""}}});
  }
  for (int i = 0; i < 30; ++i) {
    harness_.clock.Advance(absl::Seconds(1));
    EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
    upkeep_.Tick();
  }
  // No other lease brings the project's meter up again.
  EXPECT_THAT(harness_.leases->Release(lease), IsOk());
  harness_.clock.Advance(absl::Minutes(1));
  upkeep_.Tick();
  {
    QueueLock lock(*harness_.state);
    change.reset();
  }
  harness_.clock.Advance(absl::Minutes(1));
  upkeep_.Tick();
  harness_.Restart();
  QueueAdmin after(harness_.state.get(), &workers_);
  EXPECT_NEAR(after.GetProject("default").usage.device_seconds, 30, 1);
}

TEST_F(QuotaTest, SettingsAndMetersSurviveARestart) {
  SetQuota({.max_running_jobs = 3});
  const LeaseRef lease = harness_.Running("one");
  for (int i = 0; i < 60; ++i) {
    harness_.clock.Advance(absl::Seconds(1));
    EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
    upkeep_.Tick();
  }
  harness_.Restart();
  QueueAdmin after(harness_.state.get(), &workers_);
  const ProjectView view = after.GetProject("default");
  EXPECT_EQ(view.record.quota.max_running_jobs, 3U);
  EXPECT_NEAR(view.usage.device_seconds, 60, 1);
}

TEST_F(QuotaTest, UploadsThatNoSceneNamesAreBounded) {
  constexpr int kMost = 100'000;
  for (int i = 0; i < kMost; ++i) {
    ASSERT_THAT(admin_.BeginUpload("default", std::to_string(i), 1), IsOk());
  }
  EXPECT_THAT(admin_.BeginUpload("default", "7", 1), IsOk()) << "it goes on";
  const absl::Status refused = admin_.BeginUpload("default", "next", 1);
  EXPECT_THAT(refused, FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  EXPECT_EQ(Metadata(refused, "limit"), "unnamed_uploads");
  EXPECT_THAT(admin_.BeginUpload("other", "next", 1), IsOk());
  harness_.clock.Advance(absl::Hours(25));  // collected by then
  admin_.CountStoredBytes();
  EXPECT_THAT(admin_.BeginUpload("default", "next", 1), IsOk());
}

TEST_F(QuotaTest, UploadsSurviveARestartUntilASceneNamesThemOrADayHasPassed) {
  for (const char* content : {"json", "unused"}) {  // the first is of the scene
    EXPECT_THAT(admin_.FinishUpload("default", content, QueueHarness::Blob(content)), IsOk());
  }
  EXPECT_THAT(admin_.BeginUpload("default", "unfinished", 100), IsOk());
  const auto uploaded = [&] {
    harness_.Restart();
    QueueAdmin after(harness_.state.get(), &workers_);
    const uint64_t before = after.GetProject("default").usage.stored_bytes;
    after.CountStoredBytes();
    return before;
  };
  EXPECT_EQ(uploaded(), 10U);
  EXPECT_EQ(uploaded(), 6U) << "one was named by then";
  harness_.clock.Advance(absl::Hours(25));
  {
    MutexLock lock(harness_.state->mu);
    EXPECT_EQ(harness_.state->stored_use().Of("default")->uploads.size(), 1U);
  }
  QueueAdmin(harness_.state.get(), &workers_).CountStoredBytes();
  EXPECT_EQ(uploaded(), 0U);
}

TEST_F(QuotaTest, MetersOfEarlierDaysAreForgottenUnlessTheProjectHasSettings) {
  SetQuota({.max_queued_jobs = 7});
  for (int i = 0; i < 3; ++i) {
    MutexLock lock(harness_.state->mu);
    harness_.state->Meter("p" + std::to_string(i), DayOf(harness_.clock.WallNow()), 1);
  }
  const auto count = [&] {
    harness_.clock.Advance(absl::Minutes(2));
    upkeep_.Tick();
    MutexLock lock(harness_.state->mu);
    return harness_.state->projects().size();
  };
  EXPECT_EQ(count(), 4u);
  harness_.clock.JumpWall(absl::Hours(24));
  EXPECT_EQ(count(), 1u);
  EXPECT_EQ(admin_.GetProject("default").record.quota.max_queued_jobs, 7u);
}

TEST_F(QuotaTest, ProjectsBeyondTheMostAreNotMetered) {
  {
    MutexLock lock(harness_.state->mu);
    for (size_t i = 0; i < kMaxProjectRecords; ++i) {
      harness_.state->Meter("p" + std::to_string(i), DayOf(harness_.clock.WallNow()), 0);
    }
  }
  harness_.Running("one");
  harness_.clock.Advance(absl::Seconds(1));
  upkeep_.Tick();
  MutexLock lock(harness_.state->mu);
  EXPECT_EQ(harness_.state->projects().size(), kMaxProjectRecords);
}

TEST_F(QuotaTest, ProjectsWithSettingsAreBounded) {
  {
    MutexLock lock(harness_.state->mu);
    for (size_t i = 0; i < kMaxProjectRecords / 2; ++i) {
      ProjectRecord record{.project = "p" + std::to_string(i), .quota = {}, .retention = {}};
      record.quota.max_renders = 1;
      harness_.state->TakeSettings(record);
    }
  }
  const auto update = [&](const std::string& project) {
    return admin_.UpdateProject(project, [](ProjectRecord& r) { r.quota.max_renders = 2; })
        .status();
  };
  const absl::Status refused = update("one-more");
  EXPECT_THAT(refused, FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded));
  EXPECT_EQ(Metadata(refused, "limit"), "projects");
  EXPECT_THAT(update("p7"), IsOk());
}

}  // namespace
}  // namespace nerf
