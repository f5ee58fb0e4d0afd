// What every store promises (job_store.h, access_store.h): in memory, in SQLite, and in a
// PostgreSQL that the test starts. Without PostgreSQL its tests are skipped.
#include <filesystem>
#include <functional>
#include <memory>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/records/stored_job.h"
#include "server/store/postgres/postgres_stores.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/fake_access_store.h"
#include "tests/testing/forwarding_job_store.h"
#include "tests/testing/memory_job_store.h"
#include "tests/testing/postgres_cluster.h"
#include "tests/testing/queue_story.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;

// The stores of one server.
struct OpenedStores {
  std::shared_ptr<JobStore> jobs;
  std::shared_ptr<AccessStore> access;
};

// A place for stores. Each call opens what the earlier ones, which are closed, have written.
using StorePlace = std::function<OpenedStores()>;

struct StoreKind {
  const char* name;
  std::function<StorePlace()> make;  // a new place; its result is null where it cannot be had
};

StorePlace InMemory() {
  const OpenedStores stores = {std::make_shared<MemoryJobStore>(),
                               std::make_shared<FakeAccessStore>()};
  return [stores] { return stores; };
}

StorePlace InFiles() {
  return [dir = std::make_shared<TempDir>()] {
    FakeRandom random;
    return OpenedStores{*SqliteStore::Open(*dir / "queue.db", random),
                        *SqliteAccessStore::Open(*dir / "access.db")};
  };
}

StorePlace InPostgres() {
  PostgresCluster* const cluster = PostgresCluster::Get();
  if (cluster == nullptr) return nullptr;
  return [uri = cluster->Uri(cluster->NewDatabase())] {
    FakeRandom random;
    absl::StatusOr<PostgresStores> opened = OpenPostgresStores({.uri = uri}, random);
    EXPECT_THAT(opened, IsOk());
    return OpenedStores{std::move(opened->jobs), std::move(opened->access)};
  };
}

class StoreConformanceTest : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    place_ = GetParam().make();
    if (place_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    stores_ = place_();
  }
  // As a new server would find it.
  void Reopen() {
    stores_ = {};
    stores_ = place_();
  }
  JobStore& jobs() { return *stores_.jobs; }
  AccessStore& access() { return *stores_.access; }
  StoredState Load() { return *jobs().Load(); }

  static Job NewJob(const std::string& id, uint64_t sequence) {
    Job job;
    job.key = {"default", id};
    job.training.scene = "scene";
    job.create_sequence = sequence;
    return job;
  }
  static JobEvent EventAt(uint64_t sequence) {
    JobEvent event;
    event.sequence = sequence;
    return event;
  }

  StorePlace place_;
  OpenedStores stores_;
};

// Adds what every store refuses to the nth write, so that it undoes the rest of it.
class PoisoningStore final : public ForwardingJobStore {
 public:
  PoisoningStore(JobStore* store, int fail_at) : ForwardingJobStore(store), fail_at_(fail_at) {}

  absl::Status Commit(const StoreWrite& write) override {
    if (++n_commits_ != fail_at_) return ForwardingJobStore::Commit(write);
    StoreWrite poisoned = write;
    Job nobody;
    nobody.key = {"default", "nobody"};
    poisoned.jobs.push_back({nobody, 7});
    EXPECT_THAT(ForwardingJobStore::Commit(poisoned),
                FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
    return WithReason(absl::UnavailableError("injected"), reason::kStoreReadOnly);
  }
  int n_commits() const { return n_commits_; }

 private:
  const int fail_at_;
  int n_commits_ = 0;
};

TEST_P(StoreConformanceTest, FailureOfAnyCommitChangesNothingAndLosesNothing) {
  const auto story = QueueStory();
  int n_commits = 1;
  for (int fail_at = 0; fail_at <= n_commits; ++fail_at) {  // 0: none
    const OpenedStores stores = GetParam().make()();
    PoisoningStore store(stores.jobs.get(), fail_at);
    QueueHarness harness(&store);
    for (const StoryStep& step : story) {
      const std::string before = DescribeQueue(harness);
      const int commits_before = store.n_commits();
      const absl::Status status = step.call(harness);
      const bool failed_here = store.n_commits() >= fail_at && commits_before < fail_at;
      if (failed_here) {
        EXPECT_THAT(status, StatusIs(step.waits ? StatusCode::kUnavailable : StatusCode::kOk))
            << "commit " << fail_at;
        if (store.n_commits() == commits_before + 1) {
          EXPECT_EQ(DescribeQueue(harness), before) << "commit " << fail_at;
        }
        EXPECT_THAT(step.call(harness), IsOk()) << "trying again works, commit " << fail_at;
      } else {
        EXPECT_THAT(status, IsOk()) << "commit " << fail_at;
      }
      // A restarted queue returns the same as the running one.
      const std::string alive = DescribeQueue(harness);
      QueueHarness reborn(stores.jobs.get());
      EXPECT_EQ(DescribeQueue(reborn), alive);
    }
    if (fail_at == 0) n_commits = store.n_commits();
  }
  EXPECT_GE(n_commits, 15);
}

TEST_P(StoreConformanceTest, EpochAndSecretAreKept) {
  const StoredState before = Load();
  EXPECT_FALSE(before.store_epoch.empty());
  EXPECT_FALSE(before.token_secret.empty());
  EXPECT_FALSE(before.age.has_value());
  Reopen();
  EXPECT_EQ(Load().store_epoch, before.store_epoch);
  EXPECT_EQ(Load().token_secret, before.token_secret);
}

TEST_P(StoreConformanceTest, EverythingComesBackAsItWasWritten) {
  StoreWrite write;
  Job job = NewJob("one", 3);
  job.state = JobState::kRunning;
  job.lease.members = {"w-1", "w-2"};
  job.lease.epoch = 5;
  job.display_name = "Käfer \xf0\x9f\x90\x9e";
  job.training.requested_config.set_method(std::string("\0\x01'", 3));
  job.checkpoints = {QueueHarness::Checkpoint(7, 21.5)};
  job.start_by = absl::FromUnixSeconds(1'800'000'000);
  job.end_age = absl::FromUnixSeconds(1'700'000'000);
  write.jobs = {{NewJob("zwei", 1), std::nullopt}, {job, std::nullopt}};
  write.events = {{job.key, EventAt(1)}, {job.key, EventAt(2)}, {{"default", "zwei"}, EventAt(1)}};
  write.events[1].second.kind = JobEventKind::kCheckpointCommitted;
  SceneRecord scene;
  scene.key = {"default", "scene"};
  scene.create_sequence = 2;
  scene.files = {{"a/b.png", QueueHarness::Blob("b")}};
  scene.byte_size = 1;
  write.new_scenes = {scene};
  ModelRecord model;
  model.key = {"lab", "model"};
  model.create_sequence = 9;
  model.job = "one";
  model.step = 4;
  write.models = {model};
  write.new_requests = {{RequestRecord::Kind::kModel, "lab", kRequestA, "model", "f0",
                         absl::FromUnixMicros(1'234'567)}};
  ProjectRecord lab;
  lab.project = "lab";
  lab.quota.max_renders = 4;
  write.projects = {lab};
  write.drained_workers = {{"w-1", true}, {"w-2", true}};
  write.uploads = {{"default", QueueHarness::Blob("a"), absl::FromUnixMicros(7)},
                   {"lab", QueueHarness::Blob("a"), absl::FromUnixMicros(8)}};
  write.age = absl::FromUnixMicros(77);
  ASSERT_THAT(jobs().Commit(write), IsOk());
  Reopen();
  const StoredState stored = Load();
  ASSERT_EQ(stored.jobs.size(), 2u);
  const Job& loaded = stored.jobs[0].key.id == "one" ? stored.jobs[0] : stored.jobs[1];
  EXPECT_EQ(loaded.key, job.key);
  EXPECT_EQ(loaded.state, job.state);
  EXPECT_EQ(loaded.create_sequence, 3u);
  EXPECT_EQ(loaded.lease, job.lease);
  EXPECT_EQ(DeterministicBytes(ToRecord(loaded)), DeterministicBytes(ToRecord(job)));
  ASSERT_EQ(stored.events.size(), 3u);
  EXPECT_EQ(stored.events[1].first, job.key);
  EXPECT_EQ(stored.events[1].second.kind, JobEventKind::kCheckpointCommitted);
  ASSERT_EQ(stored.scenes.size(), 1u);
  EXPECT_EQ(DeterministicBytes(ToRecord(stored.scenes[0])), DeterministicBytes(ToRecord(scene)));
  ASSERT_EQ(stored.models.size(), 1u);
  EXPECT_EQ(stored.models[0].key, model.key);
  EXPECT_EQ(DeterministicBytes(ToRecord(stored.models[0])), DeterministicBytes(ToRecord(model)));
  StoreWrite change;
  change.models = {model};
  change.models[0].crop.add_size(2);
  ASSERT_THAT(jobs().Commit(change), IsOk());
  Reopen();
  ASSERT_EQ(Load().models.size(), 1u);
  EXPECT_EQ(Load().models[0].crop.size(0), 2);
  ASSERT_EQ(stored.requests.size(), 1u);
  EXPECT_EQ(stored.requests[0].kind, RequestRecord::Kind::kModel);
  EXPECT_EQ(stored.requests[0].resource_id, "model");
  EXPECT_EQ(stored.requests[0].create_time, absl::FromUnixMicros(1'234'567));
  EXPECT_EQ(stored.projects, write.projects);
  EXPECT_EQ(stored.drained_workers, (std::vector<std::string>{"w-1", "w-2"}));
  EXPECT_EQ(stored.uploads, write.uploads);
  EXPECT_EQ(stored.age, write.age);

  StoreWrite end;
  end.deleted_scenes = {scene.key};
  end.deleted_models = {model.key};
  end.deleted_jobs = {job.key};
  end.trimmed_events = {{job.key, 2}};
  end.drained_workers = {{"w-1", false}};
  lab.quota.max_renders = 5;
  end.projects = {lab};
  end.uploads = {{"lab", QueueHarness::Blob("a"), absl::FromUnixMicros(9)}};
  end.deleted_uploads = {{"default", QueueHarness::Blob("a").sha256}};
  ASSERT_THAT(jobs().Commit(end), IsOk());
  Reopen();
  const StoredState left = Load();
  EXPECT_EQ(left.jobs.size(), 1u);
  EXPECT_EQ(left.events.size(), 1u);
  EXPECT_TRUE(left.scenes.empty());
  EXPECT_TRUE(left.models.empty());
  EXPECT_EQ(left.projects, end.projects);
  EXPECT_EQ(left.uploads, end.uploads);
  EXPECT_EQ(left.drained_workers, (std::vector<std::string>{"w-2"}));
}

TEST_P(StoreConformanceTest, FilesOfAnEndedJobAreLoadedWithItAlone) {
  StoreWrite write;
  for (const JobState state : {JobState::kQueued, JobState::kFailed}) {
    Job job = NewJob(std::string(JobStateName(state)), write.jobs.size() + 1);
    job.kind = JobKind::kPose;
    job.state = state;
    job.pose.files = {{"a.jpg", QueueHarness::Blob("a")}, {"b.jpg", QueueHarness::Blob("b")}};
    write.jobs.push_back({job, std::nullopt});
  }
  ASSERT_THAT(jobs().Commit(write), IsOk());
  Reopen();
  const StoredState stored = Load();
  ASSERT_EQ(stored.jobs.size(), 2u);
  for (const Job& job : stored.jobs) {
    const bool ended = job.state == JobState::kFailed;
    EXPECT_EQ(job.pose.files.size(), ended ? 0u : 2u);
    EXPECT_EQ(job.pose.n_stored_files, ended ? 2u : 0u);
    const auto whole = jobs().LoadJob(job.key);
    ASSERT_THAT(whole, IsOk());
    ASSERT_TRUE(whole->has_value());
    EXPECT_EQ((*whole)->pose.files, write.jobs[0].job.pose.files);
  }
  const auto nothing = jobs().LoadJob({"default", "nobody"});
  ASSERT_THAT(nothing, IsOk());
  EXPECT_FALSE(nothing->has_value());
}

TEST_P(StoreConformanceTest, WriteWithAStaleEpochIsFencedWholly) {
  StoreWrite insert;
  insert.jobs.push_back({NewJob("one", 1), std::nullopt});
  ASSERT_THAT(jobs().Commit(insert), IsOk());
  StoreWrite write;
  Job changed = NewJob("one", 1);
  changed.lease.epoch = 1;
  write.jobs.push_back({changed, 0});
  ASSERT_THAT(jobs().Commit(write), IsOk());
  // A second write based on the old epoch, together with other changes.
  StoreWrite stale;
  stale.jobs.push_back({NewJob("two", 2), std::nullopt});
  stale.events.emplace_back(ResourceKey{"default", "two"}, EventAt(1));
  stale.jobs.push_back({changed, 0});
  const absl::Status status = jobs().Commit(stale);
  EXPECT_THAT(status, FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  EXPECT_EQ(GetReason(status)->metadata.at("current_epoch"), "1");
  EXPECT_EQ(Load().jobs.size(), 1u);
  EXPECT_TRUE(Load().events.empty());
  EXPECT_THAT(jobs().Commit(insert), StatusIs(StatusCode::kAlreadyExists));
  StoreWrite unknown;
  unknown.jobs.push_back({NewJob("none", 9), 0});
  const absl::Status fenced = jobs().Commit(unknown);
  EXPECT_THAT(fenced, FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  EXPECT_EQ(GetReason(fenced)->metadata.at("current_epoch"), "none");
}

TEST_P(StoreConformanceTest, GroupOfWritesIsRefusedWriteByWrite) {
  StoreWrite one, same, two, stale;
  one.jobs.push_back({NewJob("one", 1), std::nullopt});
  same.jobs.push_back({NewJob("one", 1), std::nullopt});
  same.events.emplace_back(ResourceKey{"default", "one"}, EventAt(1));
  two.jobs.push_back({NewJob("two", 2), std::nullopt});
  stale.jobs.push_back({NewJob("two", 2), 7});
  const StoreWrite* const writes[] = {&one, &same, &two, &stale};
  const std::vector<absl::Status> statuses = jobs().CommitAll(writes);
  ASSERT_EQ(statuses.size(), 4u);
  EXPECT_THAT(statuses[0], IsOk());
  EXPECT_THAT(statuses[1], StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(statuses[2], IsOk());
  EXPECT_THAT(statuses[3], FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  Reopen();
  EXPECT_EQ(Load().jobs.size(), 2u);
  EXPECT_TRUE(Load().events.empty()) << "a refused write leaves nothing";
}

TEST_P(StoreConformanceTest, LargeGroupIsCommittedWhole) {
  constexpr size_t kWrites = 256;
  std::vector<StoreWrite> writes(kWrites);
  std::vector<const StoreWrite*> pointers;
  for (size_t i = 0; i < kWrites; ++i) {
    Job job = NewJob("job-" + std::to_string(i), i + 1);
    job.training.requested_config.set_method(std::string(20'000, 'x'));
    writes[i].jobs.push_back({job, std::nullopt});
    for (uint64_t event = 1; event <= 4; ++event) {
      writes[i].events.emplace_back(job.key, EventAt(event));
    }
    pointers.push_back(&writes[i]);
  }
  for (const absl::Status& status : jobs().CommitAll(pointers)) EXPECT_THAT(status, IsOk());
  Reopen();
  EXPECT_EQ(Load().jobs.size(), kWrites);
  EXPECT_EQ(Load().events.size(), 4 * kWrites);
}

TEST_P(StoreConformanceTest, EventsAndRequestsAreTrimmedAndForgotten) {
  const ResourceKey key{"default", "one"};
  StoreWrite write;
  write.jobs.push_back({NewJob("one", 1), std::nullopt});
  for (uint64_t i = 1; i <= 5; ++i) write.events.emplace_back(key, EventAt(i));
  const auto at = [](int seconds) { return absl::FromUnixSeconds(seconds); };
  write.new_requests = {{RequestRecord::Kind::kJob, "default", kRequestA, "one", "f", at(10)},
                        {RequestRecord::Kind::kScene, "default", kRequestB, "s", "g", at(20)},
                        {RequestRecord::Kind::kScene, "lab", kRequestA, "s", "g", at(30)}};
  ASSERT_THAT(jobs().Commit(write), IsOk());
  StoreWrite trim;
  trim.trimmed_events.emplace_back(key, 3);
  trim.forget_requests_before = at(15);
  trim.forget_requests_of = {{"lab", at(31)}};
  ASSERT_THAT(jobs().Commit(trim), IsOk());
  const StoredState stored = Load();
  ASSERT_EQ(stored.events.size(), 2u);
  EXPECT_EQ(stored.events[0].second.sequence, 4u);
  ASSERT_EQ(stored.requests.size(), 1u);
  EXPECT_EQ(stored.requests[0].request_id, kRequestB);
  EXPECT_EQ(stored.requests[0].kind, RequestRecord::Kind::kScene);
  StoreWrite again;
  again.new_requests = {{RequestRecord::Kind::kJob, "default", kRequestB, "two", "h", at(40)}};
  ASSERT_THAT(jobs().Commit(again), IsOk());
  ASSERT_EQ(Load().requests.size(), 1u);
  EXPECT_EQ(Load().requests[0].resource_id, "two") << "replaced";
}

TEST_P(StoreConformanceTest, CurveIsReplacedAndGoesWithItsJob) {
  const ResourceKey key{"default", "one"};
  EXPECT_EQ(jobs().LoadCurve(key)->record().points_size(), 0);
  StoreWrite write;
  write.jobs.push_back({NewJob("one", 1), std::nullopt});
  for (uint32_t n = 1; n <= 2; ++n) {
    TrainingCurve curve;
    for (uint32_t step = 1; step <= n; ++step) {
      v1::TrainingMetrics point;
      point.set_step(step);
      point.set_loss(0.1 + 0.2);
      curve.Add(point);
    }
    v1::TestViewScore score;
    score.set_file("test/r_0.png");
    score.set_psnr(31.25);
    curve.SetTestViews({score});
    write.curves = {{key, curve}};
    ASSERT_THAT(jobs().Commit(write), IsOk());
    write.jobs.clear();
    EXPECT_TRUE(AreEqual(jobs().LoadCurve(key)->record(), curve.record()));
  }
  Reopen();
  EXPECT_EQ(jobs().LoadCurve(key)->record().points_size(), 2);
  StoreWrite end;
  end.deleted_jobs = {key};
  ASSERT_THAT(jobs().Commit(end), IsOk());
  EXPECT_EQ(jobs().LoadCurve(key)->record().points_size(), 0);
}

TEST_P(StoreConformanceTest, TokensSharesAndKeysComeBackAsTheyWere) {
  const TokenRecord token = {.id = "t-1",
                             .digest = "aa",
                             .display_name = "ana ø",
                             .role = Role::kEditor,
                             .project = "lab",
                             .create_time = absl::FromUnixSeconds(5)};
  const TokenRecord share = {.id = "sh-1",
                             .digest = "bb",
                             .role = Role::kViewer,
                             .project = "lab",
                             .create_time = absl::FromUnixSeconds(6),
                             .expire_time = absl::FromUnixSeconds(7),
                             .resource = "projects/lab/models/mic",
                             .start = std::string("\0\x01\xff", 3)};
  ASSERT_THAT(access().AddToken(token), IsOk());
  ASSERT_THAT(access().AddToken(share), IsOk());
  ASSERT_THAT(access().PutWorkerKey({"w-1", "old"}), IsOk());
  ASSERT_THAT(access().PutWorkerKey({"w-1", "new"}), IsOk());
  ASSERT_THAT(access().PutWorkerKey({"w-2", "gone"}), IsOk());
  ASSERT_THAT(access().DeleteWorkerKey("w-2"), IsOk());
  EXPECT_THAT(access().DeleteWorkerKey("w-3"), IsOk());
  Reopen();
  auto stored = access().Load();
  ASSERT_THAT(stored, IsOk());
  ASSERT_EQ(stored->tokens.size(), 2U);
  EXPECT_EQ(stored->tokens[0].display_name, token.display_name);
  EXPECT_EQ(stored->tokens[0].role, Role::kEditor);
  EXPECT_EQ(stored->tokens[0].create_time, token.create_time);
  EXPECT_EQ(stored->tokens[0].expire_time, absl::InfiniteFuture());
  EXPECT_EQ(stored->tokens[0].resource, "");
  EXPECT_EQ(stored->tokens[1].expire_time, share.expire_time);
  EXPECT_EQ(stored->tokens[1].resource, share.resource);
  EXPECT_EQ(stored->tokens[1].start, share.start);
  ASSERT_EQ(stored->worker_keys.size(), 1U);
  EXPECT_EQ(stored->worker_keys[0].digest, "new");
  ASSERT_THAT(access().DeleteToken("t-1"), IsOk());
  Reopen();
  stored = access().Load();
  ASSERT_EQ(stored->tokens.size(), 1U);
  EXPECT_EQ(stored->tokens[0].id, "sh-1");
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest,
                         testing::Values(StoreKind{"Memory", InMemory},
                                         StoreKind{"Sqlite", InFiles},
                                         StoreKind{"Postgres", InPostgres}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace nerf
