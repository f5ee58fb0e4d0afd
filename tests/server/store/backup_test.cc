#include "server/store/backup.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
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
    job.state = JobState::kCancelled;
    job.last_event_sequence = 1;
    JobEvent event;
    event.sequence = 1;
    write.jobs.push_back({job, std::nullopt});
    write.events.emplace_back(job.key, event);
    ASSERT_THAT(store_->Commit(write), IsOk());
  }
  std::string data() const { return dir_ / "data"; }

  // A backup with access.db, and with a model whose blob is returned.
  BlobRef WriteBackupOfAModel() {
    CreateJob("one", 1);
    StoreWrite write;
    ModelRecord model;
    model.key = {"default", "model"};
    model.create_sequence = 2;
    model.job = "one";
    model.blob = *blobs_->Put("a model");
    write.models.push_back(model);
    EXPECT_THAT(store_->Commit(write), IsOk());
    const auto access = SqliteAccessStore::Open(data() + "/access.db");
    EXPECT_THAT(WriteBackup(*store_, *blobs_, data(), "monday", access->get()), IsOk());
    return model.blob;
  }
  std::string backup() const { return data() + "/backups/monday"; }
  std::string BlobFile(const BlobRef& blob) const {
    return fmt::format("{}/blobs/{}/{}", backup(), blob.sha256.substr(0, 2), blob.sha256);
  }
  // The check of a backup that leaves it, and the new folder, as they were.
  absl::Status Check(bool accept_data_loss = false) const {
    const std::set<std::string> before = FilesIn(backup());
    const absl::Status status = CheckBackup(backup(), dir_ / "new", accept_data_loss);
    EXPECT_FALSE(fs::exists(dir_ / "new"));
    EXPECT_EQ(FilesIn(backup()), before);
    return status;
  }
  static std::set<std::string> FilesIn(const std::string& folder) {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      files.insert(entry.path().string());
    }
    return files;
  }
  // Replaces a file of the backup, of which the server still has the other link.
  static void Replace(const std::string& path, const std::string& content) {
    ASSERT_THAT(WriteFileAtomically(path, content), IsOk());
  }

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
  ASSERT_THAT(CheckBackup(backup->path, restored), IsOk());
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
  EXPECT_THAT(CheckBackup(backup->path, data()), StatusIs(absl::StatusCode::kFailedPrecondition));
  fs::create_directories(dir_ / "empty/queue.db");
  for (const char* folder : {"empty", "nowhere"}) {
    EXPECT_THAT(CheckBackup(dir_ / folder, dir_ / "new"),
                StatusIs(absl::StatusCode::kNotFound, folder));
  }
  EXPECT_FALSE(fs::exists(dir_ / "new"));
}

TEST_F(BackupTest, CheckTakesAWholeBackupWithAnyCharactersInItsPath) {
  WriteBackupOfAModel();
  EXPECT_THAT(Check(), IsOk());
  const std::string odd = dir_ / "100%41 of it? #1";
  fs::copy(backup(), odd, fs::copy_options::recursive);
  EXPECT_THAT(CheckBackup(odd, dir_ / "new"), IsOk());
}

TEST_F(BackupTest, DamagedOrTruncatedDatabaseIsRefused) {
  WriteBackupOfAModel();
  for (const char* name : {"queue.db", "access.db"}) {
    const std::string path = backup() + "/" + name;
    const std::string whole = *ReadFile(path, 1 << 24);
    std::string damaged = whole;
    damaged.replace(damaged.size() - 4096, 4096, 4096, '\xff');  // the last page
    for (const std::string& content :
         {damaged, whole.substr(0, whole.size() - 4096), whole.substr(0, 100), std::string(),
          std::string(8192, 'x')}) {
      Replace(path, content);
      EXPECT_THAT(Check(), FailsWith(absl::StatusCode::kDataLoss, reason::kStoreCorrupt))
          << content.size();
      EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss, path));
      EXPECT_FALSE(Check(/*accept_data_loss=*/true).ok());
    }
    Replace(path, whole);
    EXPECT_THAT(Check(), IsOk());
  }
}

TEST_F(BackupTest, DatabaseThatContradictsItselfIsRefused) {
  StoreWrite write;
  Job job;
  job.key = {"default", "one"};
  job.last_event_sequence = 3;
  write.jobs.push_back({job, std::nullopt});
  ASSERT_THAT(store_->Commit(write), IsOk());
  ASSERT_THAT(WriteBackup(*store_, *blobs_, data(), "monday"), IsOk());
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss, "queue.db: the store contradicts"));
}

// As in a copied data folder whose log is not taken.
TEST_F(BackupTest, MissingCommitsAreRefusedUnlessAccepted) {
  WriteBackupOfAModel();
  CreateJob("two", 3);
  fs::copy(data() + "/queue.db.commits", backup() + "/queue.db.commits");
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss, "1 of 3 acknowledged commits"));
  EXPECT_THAT(Check(/*accept_data_loss=*/true), IsOk());
}

TEST_F(BackupTest, MissingBlobAndOneOfAnotherSizeAreRefusedUnlessAccepted) {
  const std::string path = BlobFile(WriteBackupOfAModel());
  const auto expect_refused = [&] {
    EXPECT_THAT(Check(), FailsWith(absl::StatusCode::kDataLoss, reason::kBlobDamaged));
    EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss, path));
    EXPECT_THAT(Check(/*accept_data_loss=*/true), IsOk());
  };
  for (const char* content : {"", "a mode", "a model."}) {
    Replace(path, content);
    expect_refused();
  }
  fs::remove(path);
  expect_refused();
  fs::create_directory(path);
  expect_refused();
  fs::remove_all(backup() + "/blobs");
  expect_refused();
  fs::create_directory(dir_ / "new");
  EXPECT_THAT(RestoreBackup(backup(), dir_ / "new"), IsOk());
}

TEST_F(BackupTest, TokensOfTheBackupMayBeDamagedWhereTheFolderHasItsOwn) {
  WriteBackupOfAModel();
  Replace(backup() + "/access.db", "no database");
  dir_.Write("new/access.db", "");
  EXPECT_THAT(CheckBackup(backup(), dir_ / "new"), IsOk());
}

TEST_F(BackupTest, FailedCopyRemovesWhatItHasMade) {
  WriteBackupOfAModel();
  dir_.Write("new/queue.db.part/in the way", "");
  dir_.Write("new/blobs/of another", "");
  const std::set<std::string> before = FilesIn(dir_ / "new");
  EXPECT_FALSE(RestoreBackup(backup(), dir_ / "new").ok());
  EXPECT_EQ(FilesIn(dir_ / "new"), before);
}

TEST_F(BackupTest, RestoreReplacesABlobOfAnotherSizeInTheFolder) {
  const BlobRef blob = WriteBackupOfAModel();
  dir_.Write(fmt::format("new/blobs/{}/{}", blob.sha256.substr(0, 2), blob.sha256), "a mo");
  ASSERT_THAT(RestoreBackup(backup(), dir_ / "new"), IsOk());
  const auto blobs = BlobStore::Open(dir_ / "new", BlobStoreOptions(), &clock_);
  ASSERT_THAT(blobs, IsOk());
  EXPECT_THAT((*blobs)->Read(blob, 0, 100), IsOkAndHolds("a model"));
}

TEST_F(BackupTest, VerifyReadsEveryBlob) {
  const BlobRef blob = WriteBackupOfAModel();
  const auto whole = VerifyBackup(backup());
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->n_blobs, 1u);
  EXPECT_EQ(whole->blob_bytes, 7u);
  const std::set<std::string> before = FilesIn(backup());
  // Of the same size: a restore takes it, and finds it within a day.
  fs::remove(BlobFile(blob));
  ASSERT_THAT(WriteFileAtomically(BlobFile(blob), "a madel"), IsOk());
  EXPECT_THAT(Check(), IsOk());
  const absl::Status damaged = VerifyBackup(backup()).status();
  EXPECT_THAT(damaged, StatusIs(absl::StatusCode::kDataLoss, BlobFile(blob) + " is damaged"));
  EXPECT_EQ(GetReason(damaged)->reason, reason::kBlobDamaged);
  EXPECT_EQ(FilesIn(backup()), before);
  fs::remove(BlobFile(blob));
  EXPECT_THAT(VerifyBackup(backup()).status(),
              StatusIs(absl::StatusCode::kDataLoss, "1 of 1 blobs"));
  EXPECT_THAT(VerifyBackup(dir_ / "none").status(),
              StatusIs(absl::StatusCode::kNotFound, "is no backup"));
}

TEST_F(BackupTest, VerifyReadsTheTokens) {
  WriteBackupOfAModel();
  ASSERT_THAT(WriteFileAtomically(backup() + "/access.db", "no database"), IsOk());
  EXPECT_THAT(VerifyBackup(backup()).status(),
              StatusIs(absl::StatusCode::kDataLoss, backup() + "/access.db"));
}

TEST_F(BackupTest, ListHasWholeAndUnfinishedOnes) {
  EXPECT_THAT(*ListBackups(data()), testing::IsEmpty());
  WriteBackupOfAModel();
  ASSERT_THAT(WriteBackup(*store_, *blobs_, data(), "tuesday"), IsOk());
  fs::create_directories(data() + "/backups/wednesday.part/blobs");
  fs::create_directories(data() + "/backups/notes");
  ASSERT_THAT(WriteFileAtomically(data() + "/backups/README", "ours"), IsOk());
  const auto list = ListBackups(data());
  ASSERT_THAT(list, IsOk());
  std::vector<std::string> names;
  for (const ListedBackup& each : *list)
    names.push_back(each.id + (each.is_whole ? "" : " (unfinished)"));
  EXPECT_THAT(names, testing::ElementsAre("monday", "tuesday", "wednesday (unfinished)"));
  EXPECT_EQ((*list)[0].n_blobs, 1u);
  EXPECT_EQ((*list)[0].blob_bytes, 7u);
  EXPECT_LE((*list)[0].taken, (*list)[1].taken);
}

}  // namespace
}  // namespace nerf
