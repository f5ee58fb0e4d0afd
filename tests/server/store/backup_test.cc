#include "server/store/backup.h"

#include <filesystem>

#include "common/error_reason.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

class BackupTest : public testing::Test {
 protected:
  BackupTest() {
    fs::create_directory(data());
    blobs_ = *BlobStore::Open(data(), BlobStoreOptions(), &clock_);
    store_ = *SqliteStore::Open(data() + "/queue.db", random_);
  }

  void CreateJob(const std::string& id, uint64_t sequence) {
    StoreWrite write;
    Job job;
    job.key = {"default", id};
    job.create_sequence = sequence;
    write.jobs.push_back({job, std::nullopt});
    ASSERT_THAT(store_->Commit(write), IsOk());
  }
  std::string data() const { return dir_ / "data"; }

  TempDir dir_;
  FakeClock clock_;
  FakeRandom random_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(BackupTest, HoldsWhatWasAcknowledgedBeforeItAndIsRestoredWithANewEpoch) {
  CreateJob("one", 1);
  const BlobRef blob = *blobs_->Put("a picture");
  const auto backup = WriteBackup(*store_, *blobs_, data(), "monday");
  ASSERT_THAT(backup, IsOk());
  EXPECT_EQ(backup->path, data() + "/backups/monday");
  EXPECT_EQ(backup->n_blobs, 1u);
  EXPECT_EQ(backup->blob_bytes, blob.byte_size);
  CreateJob("two", 2);
  ASSERT_THAT(blobs_->Delete(blob), IsOk());

  const std::string restored = dir_ / "restored";
  fs::create_directory(restored);
  ASSERT_THAT(RestoreBackup(backup->path, restored), IsOk());
  const auto store = SqliteStore::Open(restored + "/queue.db", random_, {.new_epoch = true});
  ASSERT_THAT(store, IsOk());
  const auto stored = (*store)->Load();
  ASSERT_THAT(stored, IsOk());
  ASSERT_EQ(stored->jobs.size(), 1u);
  EXPECT_EQ(stored->jobs[0].key.id, "one");
  EXPECT_NE(stored->store_epoch, store_->Load()->store_epoch);
  const auto blobs = BlobStore::Open(restored, BlobStoreOptions(), &clock_);
  ASSERT_THAT(blobs, IsOk());
  EXPECT_THAT((*blobs)->Read(blob, 0, 100), IsOkAndHolds("a picture"));
}

TEST_F(BackupTest, TokensAndWorkerKeysComeBackWithAFolderThatHasNone) {
  auto access = SqliteAccessStore::Open(data() + "/access.db");
  ASSERT_THAT(access, IsOk());
  TokenRecord token;
  token.id = "t-1";
  token.digest = "digest";
  token.project = "lab";
  ASSERT_THAT((*access)->AddToken(token), IsOk());
  ASSERT_THAT((*access)->PutWorkerKey({"w-1", "key"}), IsOk());
  const auto backup = WriteBackup(*store_, *blobs_, data(), "monday", access->get());
  ASSERT_THAT(backup, IsOk());
  const std::string restored = dir_ / "restored";
  fs::create_directory(restored);
  ASSERT_THAT(RestoreBackup(backup->path, restored), IsOk());
  const fs::perms mode = fs::status(restored + "/access.db").permissions();
  EXPECT_EQ(mode & fs::perms::others_all, fs::perms::none);
  const auto stored = (*SqliteAccessStore::Open(restored + "/access.db"))->Load();
  ASSERT_THAT(stored, IsOk());
  ASSERT_EQ(stored->tokens.size(), 1u);
  EXPECT_EQ(stored->tokens[0].id, "t-1");
  ASSERT_EQ(stored->worker_keys.size(), 1u);
  EXPECT_EQ(stored->worker_keys[0].worker, "w-1");
}

TEST_F(BackupTest, RestoreKeepsTheNewerTokensOfTheFolder) {
  auto access = SqliteAccessStore::Open(data() + "/access.db");
  ASSERT_THAT(access, IsOk());
  const auto backup = WriteBackup(*store_, *blobs_, data(), "monday", access->get());
  ASSERT_THAT(backup, IsOk());
  const std::string restored = dir_ / "restored";
  fs::create_directory(restored);
  {
    auto newer = SqliteAccessStore::Open(restored + "/access.db");
    ASSERT_THAT(newer, IsOk());
    ASSERT_THAT((*newer)->PutWorkerKey({"w-2", "key"}), IsOk());
  }
  ASSERT_THAT(RestoreBackup(backup->path, restored), IsOk());
  EXPECT_EQ((*SqliteAccessStore::Open(restored + "/access.db"))->Load()->worker_keys.size(), 1u);
}

TEST_F(BackupTest, SameNameTwiceIsRefused) {
  ASSERT_THAT(WriteBackup(*store_, *blobs_, data(), "monday"), IsOk());
  EXPECT_THAT(WriteBackup(*store_, *blobs_, data(), "monday"),
              FailsWith(absl::StatusCode::kAlreadyExists, reason::kAlreadyExists));
}

TEST_F(BackupTest, InterruptedBackupIsWrittenAnew) {
  fs::create_directories(data() + "/backups/monday.part/blobs");
  CreateJob("one", 1);
  EXPECT_THAT(WriteBackup(*store_, *blobs_, data(), "monday"), IsOk());
}

TEST_F(BackupTest, RestoreNeedsABackupAndAnEmptyFolder) {
  const auto backup = WriteBackup(*store_, *blobs_, data(), "monday");
  ASSERT_THAT(backup, IsOk());
  EXPECT_THAT(RestoreBackup(backup->path, data()), StatusIs(absl::StatusCode::kFailedPrecondition));
  fs::create_directory(dir_ / "empty");
  EXPECT_THAT(RestoreBackup(dir_ / "empty", dir_ / "empty"), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace nerf
