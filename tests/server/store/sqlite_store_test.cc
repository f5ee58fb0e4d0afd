#include "server/store/sqlite_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/messages/deterministic_bytes.h"
#include "server/queue/records/stored_job.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/training_text.h"

namespace nerf {
namespace {

using absl::StatusCode;

class SqliteStoreTest : public testing::Test {
 protected:
  std::unique_ptr<SqliteStore> Open(const std::string& name = "nerfd.db") {
    auto store = SqliteStore::Open(dir_ / name, random_);
    EXPECT_THAT(store, IsOk());
    return *std::move(store);
  }
  // Copies the files of the open store: the state that a kill would leave.
  void CopyAsIs(const std::string& to) {
    for (const char* suffix : {"", "-wal"}) {
      const std::string from = dir_ / ("nerfd.db" + std::string(suffix));
      if (std::filesystem::exists(from)) {
        std::filesystem::copy_file(from, dir_ / (to + suffix),
                                   std::filesystem::copy_options::overwrite_existing);
      }
    }
  }
  void Sql(const std::string& name, const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((dir_ / name).c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
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

  TempDir dir_;
  FakeRandom random_;
};

TEST_F(SqliteStoreTest, QueueLivesThroughAKillAtEveryMoment) {
  auto store = Open();
  QueueHarness harness(store.get());
  harness.AddScene();
  const auto check = [&](const std::string& id) {
    CopyAsIs("copy.db");
    auto copy = Open("copy.db");
    QueueHarness reborn(copy.get());
    const Job job = reborn.Get(id), expected = harness.Get(id);
    EXPECT_EQ(job.state, expected.state);
    EXPECT_EQ(job.lease, expected.lease);
    EXPECT_EQ(job.checkpoints.size(), expected.checkpoints.size());
    EXPECT_EQ(job.last_event_sequence, expected.last_event_sequence);
    EXPECT_EQ(TextOf(job.training), TextOf(expected.training));
    const auto watcher = *reborn.queue->Watch(
        {"default", id}, reborn.Token({reborn.state->store_epoch, {"default", id}, 1}), [] {});
    EXPECT_EQ(QueueHarness::Drain(*watcher).size(), expected.last_event_sequence);
  };
  JobSpec spec = harness.Spec("one");
  spec.request_id = kRequestA;
  ASSERT_THAT(harness.queue->Create(spec), IsOk());
  check("one");
  const LeaseRef lease = harness.Grant();
  check("one");
  ASSERT_THAT(harness.leases->Renew(lease, WorkPhase::kRunning), IsOk());
  for (uint32_t step = 1; step <= 5; ++step) {
    ASSERT_THAT(harness.leases->CommitCheckpoint(lease, QueueHarness::Checkpoint(step)), IsOk());
    check("one");
  }
  ModelSpec model{"default", "model", kRequestB, "", {{"default", "one"}, 4}};
  ASSERT_THAT(harness.models->Promote(model), IsOk());
  ASSERT_THAT(harness.leases->Finish(lease, {}), IsOk());
  check("one");
  CopyAsIs("copy.db");
  auto copy = Open("copy.db");
  QueueHarness reborn(copy.get());
  EXPECT_EQ(reborn.queue->Create(spec)->key.id, "one");
  EXPECT_EQ(reborn.models->Get({"default", "model"})->step, 4u);
  EXPECT_EQ(reborn.scenes->Get({"default", "scene"})->files.size(), 2u);
}

TEST_F(SqliteStoreTest, StoreEpochIsDrawnOnceForAFile) {
  const std::string epoch = Open()->Load()->store_epoch;
  EXPECT_TRUE(IsUuid4(epoch));
  EXPECT_EQ(Open()->Load()->store_epoch, epoch);
  EXPECT_NE(Open("other.db")->Load()->store_epoch, epoch);
}

TEST_F(SqliteStoreTest, SecondServerOnTheSameFileIsRefused) {
  auto store = Open();
  EXPECT_THAT(SqliteStore::Open(dir_ / "nerfd.db", random_),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(store->Commit({}), IsOk());
}

TEST_F(SqliteStoreTest, FileOfAnotherVersionIsRefusedUntouched) {
  Open();
  const auto contents = [&] { return *ReadFile(dir_ / "nerfd.db", 1 << 24); };
  for (const auto& [version, advice] :
       {std::pair{99, "run a newer one"}, std::pair{4, "run the one that made it"}}) {
    Sql("nerfd.db", fmt::format("PRAGMA user_version = {}", version).c_str());
    const std::string before = contents();
    EXPECT_THAT(SqliteStore::Open(dir_ / "nerfd.db", random_),
                StatusIs(StatusCode::kFailedPrecondition, advice));
    EXPECT_EQ(contents(), before);
  }
}

TEST_F(SqliteStoreTest, WhatIsNoDatabaseIsDataLoss) {
  ASSERT_THAT(WriteFileAtomically(dir_ / "nerfd.db", std::string(8192, 'x')), IsOk());
  EXPECT_THAT(SqliteStore::Open(dir_ / "nerfd.db", random_),
              FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt));
  EXPECT_THAT(SqliteStore::Open(dir_ / "no/nerfd.db", random_),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
}

TEST_F(SqliteStoreTest, UnreadableRecordsAreDataLossAtTheStart) {
  {
    auto store = Open();
    StoreWrite insert;
    insert.jobs.push_back({NewJob("one", 1), std::nullopt});
    ASSERT_THAT(store->Commit(insert), IsOk());
  }
  const auto corrupt = FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt);
  Sql("nerfd.db", "UPDATE jobs SET state = 'DANCING'");
  EXPECT_THAT(Open()->Load(), corrupt);
  Sql("nerfd.db", "UPDATE jobs SET state = 'QUEUED', body = x'ff00'");
  EXPECT_THAT(Open()->Load(), corrupt);
  Sql("nerfd.db", "DELETE FROM jobs; DELETE FROM meta");
  EXPECT_THAT(SqliteStore::Open(dir_ / "nerfd.db", random_), corrupt);
}

// Watchers of a job without its last event would wait forever.
TEST_F(SqliteStoreTest, LostLastEventIsDataLossAtTheStart) {
  {
    auto store = Open();
    QueueHarness harness(store.get());
    harness.AddScene();
    harness.Running("one");
  }
  Sql("nerfd.db", "DELETE FROM job_events WHERE sequence = 3");
  auto store = Open();
  FakeClock clock;
  FakeBlobIndex blobs;
  EXPECT_THAT(QueueState::Open({}, {&clock, &random_, store.get(), &blobs, nullptr}),
              FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt));
}

TEST_F(SqliteStoreTest, TornPagesNeverGiveAStoreThatLies) {
  {
    auto store = Open();
    QueueHarness harness(store.get());
    harness.AddScene();
    for (int i = 0; i < 20; ++i) ASSERT_THAT(harness.queue->Create(harness.Spec()), IsOk());
  }
  const std::string whole = *ReadFile(dir_ / "nerfd.db", 1 << 24);
  int n_refused = 0;
  for (size_t page = 0; page < whole.size(); page += 4096) {
    std::string torn = whole;
    std::fill_n(torn.begin() + static_cast<ptrdiff_t>(page), 512, '\0');
    ASSERT_THAT(WriteFileAtomically(dir_ / "torn.db", torn), IsOk());
    const auto store = SqliteStore::Open(dir_ / "torn.db", random_);
    const absl::Status status = store.ok() ? (*store)->Load().status() : store.status();
    if (status.ok()) {
      EXPECT_EQ((*store)->Load()->jobs.size(), 20u) << "page at " << page;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status.ToString();
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, 0);
}

TEST_F(SqliteStoreTest, TokenSecretIsDrawnOnceAndReadByNobodyElse) {
  const std::string path = dir_ / "nerfd.db";
  const auto mode_of = [](const std::string& file) {
    return std::filesystem::status(file).permissions();
  };
  const auto private_mode =
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  const std::string secret = Open()->Load()->token_secret;
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(mode_of(path), private_mode);
  // As an earlier version left it.
  std::filesystem::permissions(path, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  {
    const auto store = Open();
    EXPECT_EQ(store->Load()->token_secret, secret);
    EXPECT_EQ(mode_of(path), private_mode);
    EXPECT_EQ(mode_of(path + "-wal"), private_mode);
    ASSERT_THAT(store->CopyTo(dir_ / "copy.db"), IsOk());
    EXPECT_EQ(mode_of(dir_ / "copy.db"), private_mode);
  }
  EXPECT_NE(Open("other.db")->Load()->token_secret, secret);
  const auto restored = SqliteStore::Open(dir_ / "copy.db", random_, {.new_epoch = true});
  ASSERT_THAT(restored, IsOk());
  EXPECT_NE((*restored)->Load()->token_secret, secret) << "a backup may be in other hands";
}

// An older copy of the file, put back without the rest of its folder.
TEST_F(SqliteStoreTest, MissingCommitsAreDataLossUntilTheyAreAccepted) {
  const auto insert = [&](SqliteStore& store, const std::string& id, uint64_t sequence) {
    StoreWrite write;
    write.jobs.push_back({NewJob(id, sequence), std::nullopt});
    ASSERT_THAT(store.Commit(write), IsOk());
  };
  insert(*Open(), "one", 1);
  const std::string older = *ReadFile(dir_ / "nerfd.db", 1 << 24);
  std::string epoch;
  {
    auto store = Open();
    insert(*store, "two", 2);
    insert(*store, "three", 3);
    epoch = store->Load()->store_epoch;
  }
  ASSERT_THAT(WriteFileAtomically(dir_ / "nerfd.db", older), IsOk());
  const auto refused = SqliteStore::Open(dir_ / "nerfd.db", random_);
  EXPECT_THAT(refused, FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt));
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("2 of 3 acknowledged commits"));
  {
    const auto store = SqliteStore::Open(dir_ / "nerfd.db", random_, {.accept_data_loss = true});
    ASSERT_THAT(store, IsOk());
    EXPECT_EQ((*store)->Load()->jobs.size(), 1u);
    EXPECT_NE((*store)->Load()->store_epoch, epoch) << "tokens of what is lost must not fit";
    insert(**store, "four", 4);
  }
  EXPECT_EQ(Open()->Load()->jobs.size(), 2u) << "accepted once and for all";
}

// A kill leaves commits in the log. Every flipped byte of it either costs none of them or is found.
TEST_F(SqliteStoreTest, DamagedLogNeverLosesCommitsWithoutAWord) {
  auto store = Open();
  constexpr size_t kJobs = 8;
  for (size_t i = 0; i < kJobs; ++i) {
    StoreWrite write;
    write.jobs.push_back({NewJob("job-" + std::to_string(i), i + 1), std::nullopt});
    ASSERT_THAT(store->Commit(write), IsOk());
  }
  for (const char* suffix : {"", "-wal", ".commits"}) {
    std::filesystem::copy_file(dir_ / ("nerfd.db" + std::string(suffix)),
                               dir_ / ("killed.db" + std::string(suffix)));
  }
  const std::string log = *ReadFile(dir_ / "killed.db-wal", 1 << 24);
  const std::string file = *ReadFile(dir_ / "killed.db", 1 << 24);
  const std::string commits = *ReadFile(dir_ / "killed.db.commits", 1 << 10);
  ASSERT_GT(log.size(), 32u);
  int n_found = 0;
  for (size_t at = 0; at < log.size(); at += log.size() / 100) {
    std::string damaged = log;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    ASSERT_THAT(WriteFileAtomically(dir_ / "killed.db", file), IsOk());
    ASSERT_THAT(WriteFileAtomically(dir_ / "killed.db-wal", damaged), IsOk());
    ASSERT_THAT(WriteFileAtomically(dir_ / "killed.db.commits", commits), IsOk());
    const auto reopened = SqliteStore::Open(dir_ / "killed.db", random_);
    if (reopened.ok()) {
      EXPECT_EQ((*reopened)->Load()->jobs.size(), kJobs) << "byte " << at;
    } else {
      EXPECT_THAT(reopened, StatusIs(StatusCode::kDataLoss)) << "byte " << at;
      ++n_found;
    }
  }
  EXPECT_GT(n_found, 50);
}

// Every flipped bit of the file is found, or it is in a place that holds nothing.
TEST_F(SqliteStoreTest, DamagedFileIsDataLossOrReadsAsBefore) {
  constexpr uint64_t kJobs = 40;
  const auto contents = [](const StoredState& stored) {
    std::vector<std::string> rows = {stored.store_epoch};
    for (const Job& job : stored.jobs) {
      rows.push_back(job.key.id + JobStateName(job.state).data() + std::to_string(job.lease.epoch) +
                     DeterministicBytes(ToRecord(job)));
    }
    for (const auto& [key, event] : stored.events) {
      rows.push_back(key.id + std::to_string(event.sequence) + DeterministicBytes(ToRecord(event)));
    }
    return rows;
  };
  std::vector<std::string> before;
  {
    auto store = Open();
    for (uint64_t i = 0; i < kJobs; ++i) {
      StoreWrite write;
      Job job = NewJob("job-" + std::to_string(i), i + 1);
      job.lease.epoch = i;
      write.jobs.push_back({job, std::nullopt});
      write.events.emplace_back(job.key, EventAt(1));
      ASSERT_THAT(store->Commit(write), IsOk());
    }
    before = contents(*store->Load());
  }
  const std::string whole = *ReadFile(dir_ / "nerfd.db", 1 << 24);
  std::filesystem::remove(dir_ / "nerfd.db.commits");
  int n_found = 0;
  for (size_t i = 0; i < 200; ++i) {
    std::string damaged = whole;
    const size_t at = whole.size() * i / 200 + i % 7;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << i % 8));
    ASSERT_THAT(WriteFileAtomically(dir_ / "damaged.db", damaged), IsOk());
    for (const char* suffix : {"-wal", ".commits"}) {
      std::filesystem::remove(dir_ / ("damaged.db" + std::string(suffix)));
    }
    const auto store = SqliteStore::Open(dir_ / "damaged.db", random_, {.reserve_bytes = 0});
    const auto stored = store.ok() ? (*store)->Load() : absl::StatusOr<StoredState>(store.status());
    if (!stored.ok()) {
      ++n_found;
      continue;
    }
    EXPECT_EQ(contents(*stored), before) << "byte " << at;
  }
  EXPECT_GT(n_found, 25);
}

TEST_F(SqliteStoreTest, FullDiskRefusesAGroupWriteByWrite) {
  auto store = Open();
  ASSERT_THAT(store->LimitPagesForTest(1), IsOk());
  StoreWrite big, age;
  Job job = NewJob("big", 2);
  job.training.requested_config.set_method(std::string(1 << 20, 'x'));
  big.jobs.push_back({job, std::nullopt});
  age.age = absl::FromUnixSeconds(5);
  const StoreWrite* const writes[] = {&big, &age};
  const std::vector<absl::Status> statuses = store->CommitAll(writes);
  EXPECT_THAT(statuses[0], FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(statuses[1], IsOk()) << "it needs no page";
  EXPECT_EQ(store->Load()->age, absl::FromUnixSeconds(5));
}

TEST_F(SqliteStoreTest, FullDiskGivesTheReserveToWritesThatEndSomething) {
  auto store = Open();
  const std::string reserve = dir_ / "nerfd.db.reserve";
  EXPECT_EQ(std::filesystem::file_size(reserve), SqliteStoreOptions().reserve_bytes);
  StoreWrite insert, end, big;
  insert.jobs.push_back({NewJob("one", 1), std::nullopt});
  ASSERT_THAT(store->Commit(insert), IsOk());
  Job job = NewJob("one", 1);
  job.training.requested_config.set_method(std::string(1 << 20, 'x'));
  end.jobs.push_back({job, 0});
  end.events.emplace_back(job.key, EventAt(1));
  big.jobs.push_back({job, std::nullopt});
  big.jobs[0].job.key.id = "big";
  big.jobs[0].job.create_sequence = 2;
  EXPECT_TRUE(end.MayUseReserve());
  EXPECT_FALSE(big.MayUseReserve());

  ASSERT_THAT(store->LimitPagesForTest(1), IsOk());
  EXPECT_THAT(store->Commit(big), FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_TRUE(store->read_only());
  EXPECT_TRUE(std::filesystem::exists(reserve)) << "not for new work";
  // The limit stays, so it is refused again; a file system would have room now.
  EXPECT_THAT(store->Commit(end), FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_FALSE(std::filesystem::exists(reserve));
  ASSERT_THAT(store->LimitPagesForTest(1 << 30), IsOk());
  EXPECT_THAT(store->Commit(end), IsOk());
  EXPECT_TRUE(store->read_only()) << "that says nothing about others";
  EXPECT_THAT(store->Commit(big), IsOk());
  EXPECT_FALSE(store->read_only());
  EXPECT_TRUE(std::filesystem::exists(reserve));
}

TEST_F(SqliteStoreTest, FullDiskRefusesWritesAndRecoversByItself) {
  auto store = Open();
  StoreWrite insert;
  insert.jobs.push_back({NewJob("one", 1), std::nullopt});
  ASSERT_THAT(store->Commit(insert), IsOk());
  // No more pages than now, which SQLite reports like a full disk.
  ASSERT_THAT(store->LimitPagesForTest(1), IsOk());
  StoreWrite big;
  Job job = NewJob("big", 2);
  job.training.requested_config.set_method(std::string(1 << 20, 'x'));
  big.jobs.push_back({job, std::nullopt});
  EXPECT_THAT(store->Commit(big), FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_EQ(store->Load()->jobs.size(), 1u);
  ASSERT_THAT(store->LimitPagesForTest(1 << 30), IsOk());
  EXPECT_THAT(store->Commit(big), IsOk());
  EXPECT_EQ(store->Load()->jobs.size(), 2u);
}

}  // namespace
}  // namespace nerf
