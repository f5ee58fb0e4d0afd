// Names and bytes that were not durable although something had been acknowledged that needs them:
// each test is of a fault that the stories have found.
#include <gtest/gtest.h>

#include <filesystem>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "server/store/backup.h"
#include "server/store/folder_blob_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"
#include "tests/torture/torture.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

class FoundFaultsTest : public testing::Test {
 protected:
  static std::unique_ptr<BlobStore> OpenBlobs(const std::string& folder, const Clock* clock) {
    auto blobs = FolderBlobStore::Open(folder, {.min_free_bytes = 0}, clock);
    EXPECT_THAT(blobs, IsOk());
    return *std::move(blobs);
  }

  // What is left after all operations so far.
  std::string Cut(const RecordedDisk& disk, Kept kept = Kept::kNothing, size_t place = SIZE_MAX) {
    CutDisk cut(disk.first_nodes());
    for (size_t i = 0; i < std::min(place, disk.n_ops()); ++i) cut.Apply(disk.ops()[i]);
    const std::string folder = scratch_.Empty("cut");
    cut.WriteTo(folder, kept, random_);
    return folder;
  }

  const Scratch scratch_;
  const std::string live_ = scratch_.Empty("live");
  FakeClock clock_;
  SeededRandom random_{1};
};

TEST_F(FoundFaultsTest, BlobThatAKilledProcessHasRenamedIsDurableOnceItCounts) {
  RecordedDisk disk(live_);
  OpenBlobs(live_, &clock_);
  // Killed between the rename and the sync of its folder.
  bool renamed = false;
  disk.set_choose_fault([&](size_t, const DiskOp& op) {
    if (renamed) return DiskFault::kDead;
    renamed = op.kind == DiskOp::Kind::kRename && op.new_name == Sha256Hex("content");
    return DiskFault::kNone;
  });
  {
    const auto blobs = OpenBlobs(live_, &clock_);
    EXPECT_FALSE(blobs->Put("content").ok());
  }
  disk.set_choose_fault({});
  const auto blob = OpenBlobs(live_, &clock_)->Put("content");
  ASSERT_THAT(blob, IsOk());
  const auto left = OpenBlobs(Cut(disk), &clock_);
  EXPECT_THAT(left->Read(*blob, 0, 100), IsOkAndHolds("content"));
}

TEST_F(FoundFaultsTest, FolderOfBlobsWhoseSyncFailedIsSyncedAgain) {
  RecordedDisk disk(live_);
  const auto blobs = OpenBlobs(live_, &clock_);
  bool has_failed = false;
  disk.set_choose_fault([&](size_t, const DiskOp& op) {
    const bool is_folder = op.kind == DiskOp::Kind::kSync && disk.entries(op.node).size() == 1;
    return is_folder && !std::exchange(has_failed, true) ? DiskFault::kIoError : DiskFault::kNone;
  });
  EXPECT_FALSE(blobs->Put("content").ok());
  EXPECT_TRUE(has_failed);
  const auto blob = blobs->Put("content");
  ASSERT_THAT(blob, IsOk());
  const auto left = OpenBlobs(Cut(disk), &clock_);
  EXPECT_THAT(left->Read(*blob, 0, 100), IsOkAndHolds("content"));
}

class LogCutTest : public FoundFaultsTest {
 protected:
  absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& folder) {
    return SqliteStore::Open(folder + "/queue.db", ids_, {.reserve_bytes = 0});
  }

  static StoreWrite AddScene(uint64_t number) {
    StoreWrite write;
    SceneRecord& scene = write.new_scenes.emplace_back();
    scene.key = {"default", "scene-" + std::to_string(number)};
    scene.create_sequence = number;
    return write;
  }

  static DiskFault FailSyncs(size_t, const DiskOp& op) {
    return op.kind == DiskOp::Kind::kSync ? DiskFault::kIoError : DiskFault::kNone;
  }

  // A killed process has left four commits in the log. The sync of the last one failed.
  void LeaveUnsyncedCommit() {
    auto store = Open(live_);
    ASSERT_THAT(store, IsOk());
    for (uint64_t number = 1; number <= 3; ++number) {
      ASSERT_THAT((*store)->Commit(AddScene(number)), IsOk());
    }
    StoreWrite last = AddScene(4);
    last.drained_workers.emplace_back("worker", true);  // on a page that the log lacks so far
    disk_.set_choose_fault(FailSyncs);
    EXPECT_FALSE((*store)->Commit(last).ok());
    disk_.Kill();
    store->reset();
    disk_.Revive();
    disk_.set_choose_fault({});
    restarted_ = disk_.n_ops();
  }

  // After the store was opened, which was the last that happened.
  void ExpectWholeCommitsAfterEachCut() {
    for (size_t place = restarted_; place <= disk_.n_ops(); ++place) {
      for (int i = 0; i < 20; ++i) {
        const auto store = Open(Cut(disk_, Kept(i % 3), place));
        ASSERT_THAT(store, IsOk()) << place;
        const auto left = (*store)->Load();
        ASSERT_THAT(left, IsOk()) << place;
        EXPECT_GE(left->scenes.size(), place == disk_.n_ops() ? 4u : 3u) << place;
        EXPECT_EQ(left->scenes.size() == 4, left->drained_workers.size() == 1) << place;
      }
    }
  }

  FakeRandom ids_;
  RecordedDisk disk_{live_};
  size_t restarted_ = 0;
};

TEST_F(LogCutTest, LogWhoseSyncFailedIsWrittenAgainBeforeItsPagesAreUsed) {
  LeaveUnsyncedCommit();
  ASSERT_THAT(Open(live_), IsOk());
  ExpectWholeCommitsAfterEachCut();
}

TEST_F(LogCutTest, LogWhoseSyncFailsOnceMoreIsNotUsedWhenTheStoreCloses) {
  LeaveUnsyncedCommit();
  bool has_failed = false;
  disk_.set_choose_fault([&](size_t number, const DiskOp& op) {
    const DiskFault fault = has_failed ? DiskFault::kNone : FailSyncs(number, op);
    has_failed |= fault != DiskFault::kNone;
    return fault;
  });
  EXPECT_FALSE(Open(live_).ok());
  EXPECT_TRUE(has_failed);
  ASSERT_THAT(Open(live_), IsOk());
  ExpectWholeCommitsAfterEachCut();
}

TEST_F(LogCutTest, BeginningOfTheLineThatCountsCommitsIsNoOtherStore) {
  ASSERT_THAT(Open(live_), IsOk());
  const std::string path = live_ + "/queue.db.commits";
  const std::string line = *ReadFile(path, 1 << 10);
  for (size_t size = 0; size < line.size(); ++size) {
    ASSERT_THAT(WriteFileAtomically(path, line.substr(0, size)), IsOk());
    EXPECT_THAT(Open(live_), IsOk()) << size;
  }
}

class BackupCutTest : public FoundFaultsTest {
 protected:
  BackupCutTest() {
    fs::create_directory(live_ + "/data");
    fs::create_directory(live_ + "/restored");
    FakeRandom random;
    blobs_ = OpenBlobs(live_ + "/data", &clock_);
    for (int i = 0; i < 5; ++i) EXPECT_THAT(blobs_->Put("content " + std::to_string(i)), IsOk());
    auto store = SqliteStore::Open(live_ + "/data/queue.db", random, {.reserve_bytes = 0});
    EXPECT_THAT(store, IsOk());
    store_ = *std::move(store);
    StoreWrite write;
    SceneRecord scene;
    scene.key = {"default", "scene"};
    for (int i = 0; i < 5; ++i) {
      const std::string content = "content " + std::to_string(i);
      scene.files.push_back({std::to_string(i), {Sha256Hex(content), content.size()}});
    }
    write.new_scenes.push_back(scene);
    EXPECT_THAT(store_->Commit(write), IsOk());
  }

  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(BackupCutTest, FirstBackupOfAFolderIsDurable) {
  RecordedDisk disk(live_);
  ASSERT_THAT(WriteBackup(*store_, *blobs_, live_ + "/data", "first"), IsOk());
  EXPECT_THAT(CheckBackup(Cut(disk) + "/data/backups/first", live_ + "/none"), IsOk());
}

TEST_F(BackupCutTest, RestoredFolderHasItsBlobsOnceItHasItsQueue) {
  ASSERT_THAT(WriteBackup(*store_, *blobs_, live_ + "/data", "first"), IsOk());
  RecordedDisk disk(live_);
  ASSERT_THAT(RestoreBackup(live_ + "/data/backups/first", live_ + "/restored"), IsOk());
  int n_restored = 0;
  for (size_t place = 0; place <= disk.n_ops(); ++place) {
    for (const Kept kept : {Kept::kNothing, Kept::kSome, Kept::kSome, Kept::kEverything}) {
      const std::string cut = Cut(disk, kept, place);
      const std::string restored = cut + "/restored";
      if (!fs::exists(restored + "/queue.db")) {
        EXPECT_LT(place, disk.n_ops());
        // Restoring it once more succeeds.
        ASSERT_THAT(RestoreBackup(cut + "/data/backups/first", restored), IsOk());
      } else {
        ++n_restored;
      }
      // A restored folder has the files of a backup.
      EXPECT_THAT(CheckBackup(restored, live_ + "/none"), IsOk()) << "cut after " << place;
    }
  }
  EXPECT_GE(n_restored, 4);
}

}  // namespace
}  // namespace nerf
