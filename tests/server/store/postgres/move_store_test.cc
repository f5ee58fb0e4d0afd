// From SQLite to PostgreSQL.
#include <sqlite3.h>

#include <filesystem>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/records/stored_job.h"
#include "server/store/postgres/postgres_stores.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/postgres_cluster.h"
#include "tests/testing/queue_story.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;
namespace fs = std::filesystem;

// Everything that a store loads, as text.
std::string ContentOf(JobStore& jobs, AccessStore& access) {
  const StoredState stored = *jobs.Load();
  std::string text = stored.store_epoch + stored.token_secret + absl::FormatTime(*stored.age);
  for (const Job& job : stored.jobs) {
    text +=
        fmt::format("{} {} {} {} {}\n", job.key.id, job.create_sequence, JobStateName(job.state),
                    job.lease.epoch, DeterministicBytes(ToRecord(job)));
    text += jobs.LoadCurve(job.key)->record().ShortDebugString();
  }
  for (const auto& [key, event] : stored.events) {
    text += key.id + std::to_string(event.sequence) + DeterministicBytes(ToRecord(event));
  }
  for (const auto& scene : stored.scenes)
    text += scene.key.id + DeterministicBytes(ToRecord(scene));
  for (const auto& model : stored.models)
    text += model.key.id + DeterministicBytes(ToRecord(model));
  for (const auto& request : stored.requests) text += request.request_id + request.fingerprint;
  for (const auto& project : stored.projects) text += DeterministicBytes(ToRecord(project));
  for (const auto& worker : stored.drained_workers) text += worker;
  const StoredAccess keys = *access.Load();
  for (const auto& token : keys.tokens) text += token.id + token.digest + token.start;
  for (const auto& key : keys.worker_keys) text += key.worker + key.digest;
  return text;
}

class MoveStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (PostgresCluster::Get() == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    database_ = PostgresCluster::Get()->NewDatabase();
    uri_ = PostgresCluster::Get()->Uri(database_);
    const auto store = *SqliteStore::Open(dir_ / "queue.db", random_);
    const auto access = *SqliteAccessStore::Open(dir_ / "access.db");
    QueueHarness harness(store.get());
    const std::vector<StoryStep> story = QueueStory();
    for (size_t i = 0; i < 12; ++i) ASSERT_THAT(story[i].call(harness), IsOk());
    StoreWrite more;
    ProjectRecord lab;
    lab.project = "lab";
    more.projects = {lab};
    more.drained_workers = {{"w-1", true}, {"w-2", true}};
    more.age = absl::FromUnixSeconds(5);
    TrainingCurve curve;
    v1::TrainingMetrics point;
    point.set_step(3);
    curve.Add(point);
    more.curves = {{{"default", "one"}, curve}};
    for (uint64_t i = 0; i < 1500; ++i) {  // more than a trip's rows
      JobEvent event;
      event.sequence = 1000 + i;
      more.events.emplace_back(ResourceKey{"a-project", "j"}, event);
    }
    ASSERT_THAT(store->Commit(more), IsOk());
    ASSERT_THAT(access->AddToken({.id = "sh-1", .digest = "d", .start = std::string("\0x", 2)}),
                IsOk());
    ASSERT_THAT(access->PutWorkerKey({"w-1", "k"}), IsOk());
    content_ = ContentOf(*store, *access);
  }
  absl::StatusOr<uint64_t> Move() { return MoveToPostgres(dir_.path(), uri_, random_); }
  std::string Sql(const std::string& sql) { return PostgresCluster::Get()->Sql(database_, sql); }
  std::string ContentOfDatabase() {
    const auto opened = OpenPostgresStores({.uri = uri_}, random_);
    return opened.ok() ? ContentOf(*opened->jobs, *opened->access) : opened.status().ToString();
  }

  const TempDir dir_;
  FakeRandom random_;
  std::string database_, uri_, content_;
};

TEST_F(MoveStoreTest, EveryRowArrivesAndTheFilesAreRetired) {
  const auto n_rows = Move();
  ASSERT_THAT(n_rows, IsOk());
  EXPECT_GT(*n_rows, 1500u);
  EXPECT_EQ(ContentOfDatabase(), content_);
  EXPECT_FALSE(fs::exists(dir_ / "queue.db"));
  EXPECT_FALSE(fs::exists(dir_ / "access.db"));
  EXPECT_TRUE(fs::exists(dir_ / "queue.db.moved"));
  EXPECT_TRUE(fs::exists(dir_ / "access.db.moved"));
  EXPECT_THAT(Move(), StatusIs(StatusCode::kFailedPrecondition, "moved already"));
}

TEST_F(MoveStoreTest, MoveThatWasKilledAfterItsCommitEndsWhenItIsRepeated) {
  ASSERT_THAT(Move(), IsOk());
  for (const char* name : {"queue.db", "access.db"}) {
    fs::rename(dir_ / (std::string(name) + ".moved"), dir_ / name);
  }
  EXPECT_THAT(Move(), IsOk());
  EXPECT_FALSE(fs::exists(dir_ / "queue.db"));
  EXPECT_EQ(ContentOfDatabase(), content_);
}

TEST_F(MoveStoreTest, DatabaseWithOtherRecordsIsRefusedUntouched) {
  {
    const auto opened = OpenPostgresStores({.uri = uri_}, random_);
    ASSERT_THAT(opened, IsOk());
    ASSERT_THAT(opened->access->PutWorkerKey({"w-9", "k"}), IsOk());
  }
  EXPECT_THAT(Move(), StatusIs(StatusCode::kFailedPrecondition, "not empty"));
  EXPECT_EQ(Sql("SELECT count(*) FROM nerfd.jobs"), "0\n");
  EXPECT_EQ(Sql("SELECT count(*) FROM nerfd.worker_keys"), "1\n");
  EXPECT_TRUE(fs::exists(dir_ / "queue.db"));
  EXPECT_FALSE(fs::exists(dir_ / "queue.db.moved"));
}

// A trigger that changes what is inserted stands for whatever could.
TEST_F(MoveStoreTest, RowThatComesBackDifferentUndoesAll) {
  ASSERT_THAT(OpenPostgresStores({.uri = uri_}, random_), IsOk());
  Sql("CREATE FUNCTION nerfd.change() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN IF NEW.sequence = 2000 THEN NEW.kind = 'x'; END IF; RETURN NEW; END$$;"
      "CREATE TRIGGER change BEFORE INSERT ON nerfd.job_events FOR EACH ROW "
      "EXECUTE FUNCTION nerfd.change()");
  const auto moved = Move();
  EXPECT_THAT(moved, FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt));
  EXPECT_THAT(moved.status().message(), testing::HasSubstr("of job_events (a-project)"));
  EXPECT_EQ(Sql("SELECT count(*) FROM nerfd.jobs"), "0\n");
  EXPECT_TRUE(fs::exists(dir_ / "queue.db"));
}

TEST_F(MoveStoreTest, DatabaseInUseIsRefused) {
  const auto opened = OpenPostgresStores({.uri = uri_}, random_);
  ASSERT_THAT(opened, IsOk());
  EXPECT_THAT(Move(), StatusIs(StatusCode::kFailedPrecondition, "in use by nerfd"));
  EXPECT_TRUE(fs::exists(dir_ / "queue.db"));
}

TEST_F(MoveStoreTest, DamagedQueueIsNotMoved) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((dir_ / "queue.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE scenes SET create_sequence = 99", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  EXPECT_THAT(Move(), FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt));
  EXPECT_TRUE(fs::exists(dir_ / "queue.db"));
  EXPECT_EQ(Sql("SELECT to_regclass('nerfd.jobs') IS NULL"), "t\n");
}

TEST_F(MoveStoreTest, FolderWithoutAQueueIsRefused) {
  const TempDir empty;
  EXPECT_THAT(MoveToPostgres(empty.path(), uri_, random_),
              StatusIs(StatusCode::kFailedPrecondition, "nothing to move"));
}

}  // namespace
}  // namespace nerf
