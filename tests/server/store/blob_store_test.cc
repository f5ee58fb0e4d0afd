#include "server/store/blob_store.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/files/sha256.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;

constexpr char kUploadA[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";
constexpr char kUploadB[] = "7d1e4f60-1c2b-4e5f-8a9b-0c1d2e3f4a5b";

BlobRef RefOf(const std::string& content) { return {Sha256Hex(content), content.size()}; }

class BlobStoreTest : public testing::Test {
 protected:
  BlobStoreTest() { Reopen(); }
  void Reopen() { store_ = *BlobStore::Open(dir_ / "data", options_, &clock_); }
  size_t CountFiles(const std::string& folder) {
    size_t n = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(dir_ / ("data/" + folder))) {
      n += entry.is_regular_file() && entry.path().filename() != "age";
    }
    return n;
  }
  // In a process that ends as one does that is killed.
  void DoAndDie(const std::function<void(BlobStore&)>& work) {
    const pid_t pid = fork();
    if (pid == 0) {
      Reopen();
      work(*store_);
      _exit(0);
    }
    int status = 1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
  }
  BlobRef Upload(BlobStore& store, const std::string& content, Uploader uploader) {
    const BlobRef blob = RefOf(content);
    if (!store.Append(kUploadA, blob, 0, content, uploader).ok()) std::abort();
    if (!store.Finish(kUploadA, blob, uploader).ok()) std::abort();
    return blob;
  }
  BlobStoreOptions options_;
  FakeClock clock_;
  TempDir dir_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, UploadInChunksAppearsOnlyWhenFinished) {
  const std::string content(200'000, 'n');
  const BlobRef blob = RefOf(content);
  for (size_t offset = 0; offset < content.size(); offset += 65536) {
    EXPECT_FALSE(store_->Has(blob));
    const auto status = store_->Append(kUploadA, blob, offset, content.substr(offset, 65536));
    ASSERT_THAT(status, IsOk());
    EXPECT_EQ(status->committed_size, std::min<size_t>(offset + 65536, content.size()));
    EXPECT_FALSE(status->complete);
  }
  EXPECT_FALSE(store_->Has(blob));
  ASSERT_THAT(store_->Finish(kUploadA, blob), IsOk());
  EXPECT_TRUE(store_->Has(blob));
  EXPECT_THAT(store_->Finish(kUploadA, blob), IsOk()) << "may be repeated";
  EXPECT_THAT(store_->Read(blob, 0, 1 << 20), IsOkAndHolds(content));
  EXPECT_THAT(store_->Read(blob, 199'999, 10), IsOkAndHolds(std::string("n")));
  EXPECT_THAT(store_->Read(blob, 200'000, 10), IsOkAndHolds(std::string()));
  EXPECT_EQ(CountFiles("uploads"), 0u);
  EXPECT_EQ(store_->Stats().byte_size, content.size());
}

TEST_F(BlobStoreTest, InterruptedUploadGoesOnAfterARestart) {
  const std::string content = "0123456789";
  const BlobRef blob = RefOf(content);
  ASSERT_THAT(store_->Append(kUploadA, blob, 0, "0123"), IsOk());
  Reopen();
  EXPECT_EQ(store_->GetUpload(kUploadA, blob)->committed_size, 4u);
  // The client repeats some bytes.
  EXPECT_EQ(store_->Append(kUploadA, blob, 2, "2345")->committed_size, 6u);
  EXPECT_EQ(store_->Append(kUploadA, blob, 0, "01")->committed_size, 6u);
  ASSERT_THAT(store_->Append(kUploadA, blob, 6, "6789"), IsOk());
  ASSERT_THAT(store_->Finish(kUploadA, blob), IsOk());
  EXPECT_THAT(store_->Read(blob, 0, 100), IsOkAndHolds(content));
}

TEST_F(BlobStoreTest, WrongBytesAreRefusedAndLeaveNothing) {
  const BlobRef blob = RefOf("right");
  ASSERT_THAT(store_->Append(kUploadA, blob, 0, "wrong"), IsOk());
  EXPECT_THAT(store_->Finish(kUploadA, blob),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_FALSE(store_->Has(blob));
  EXPECT_EQ(CountFiles(""), 0u);
  EXPECT_EQ(store_->GetUpload(kUploadA, blob)->committed_size, 0u);
  ASSERT_THAT(store_->Append(kUploadA, blob, 0, "rig"), IsOk());
  EXPECT_THAT(store_->Finish(kUploadA, blob), StatusIs(StatusCode::kInvalidArgument, "3 bytes"));
  // The right bytes with a wrong size.
  const BlobRef longer{blob.sha256, 6};
  ASSERT_THAT(store_->Append(kUploadB, longer, 0, "right"), IsOk());
  EXPECT_THAT(store_->Finish(kUploadB, longer), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(CountFiles(""), 0u);
}

TEST_F(BlobStoreTest, HostileUploadsAreRefusedBeforeTheDiskIsTouched) {
  const BlobRef blob = RefOf("x");
  const auto invalid = FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid);
  const std::string bad_ids[] = {"",
                                 "..",
                                 "../../x",
                                 "a/b",
                                 std::string(36, 'x'),
                                 std::string(kUploadA) + "/",
                                 std::string("../x.") + kUploadA,
                                 std::string(".") + kUploadA,
                                 std::string("\0", 1)};
  for (const std::string& id : bad_ids) {
    EXPECT_THAT(store_->Append(id, blob, 0, "x"), invalid) << id;
    EXPECT_THAT(store_->GetUpload(id, blob), invalid);
    EXPECT_THAT(store_->Finish(id, blob), invalid);
  }
  const std::string bad_hashes[] = {"",
                                    "..",
                                    std::string(64, 'A'),
                                    std::string(64, '/'),
                                    "../" + std::string(61, 'a'),
                                    std::string(63, 'a'),
                                    std::string(65, 'a')};
  for (const std::string& hash : bad_hashes) {
    EXPECT_THAT(store_->Append(kUploadA, {hash, 1}, 0, "x"), invalid) << hash;
    EXPECT_THAT(store_->Read({hash, 1}, 0, 1), invalid) << hash;
    EXPECT_THAT(store_->Delete({hash, 1}), invalid) << hash;
    EXPECT_FALSE(store_->Has({hash, 1}));
  }
  const BlobRef huge{blob.sha256, options_.max_blob_size + 1};
  EXPECT_THAT(store_->Append(kUploadA, huge, 0, "x"), invalid);
  EXPECT_EQ(CountFiles(""), 0u);
}

TEST_F(BlobStoreTest, OffsetsAndSizesAreChecked) {
  const BlobRef blob = RefOf("0123456789");
  EXPECT_THAT(store_->Append(kUploadA, blob, 1, "1"),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  const auto too_large = FailsWith(StatusCode::kResourceExhausted, reason::kSizeLimit);
  EXPECT_THAT(store_->Append(kUploadA, blob, 0, "0123456789A"), too_large);
  EXPECT_THAT(store_->Append(kUploadA, blob, 0, std::string((1 << 20) + 1, 'x')), too_large);
  EXPECT_THAT(store_->Append(kUploadA, blob, UINT64_MAX, "x"),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(CountFiles(""), 0u);
  EXPECT_THAT(store_->Append(kUploadA, blob, 0, ""), IsOk());
}

TEST_F(BlobStoreTest, ReadsOfWhatIsNotThere) {
  const BlobRef blob = *store_->Put("content");
  EXPECT_THAT(store_->Read(RefOf("other"), 0, 1),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  EXPECT_THAT(store_->Read({blob.sha256, 6}, 0, 1), StatusIs(StatusCode::kNotFound))
      << "the size is part of the name";
  EXPECT_THAT(store_->Read(blob, 8, 1),
              FailsWith(StatusCode::kOutOfRange, reason::kOffsetOutOfRange));
  EXPECT_THAT(store_->Read(blob, UINT64_MAX, UINT64_MAX), StatusIs(StatusCode::kOutOfRange));
}

TEST_F(BlobStoreTest, LinksInTheFolderAreNotFollowed) {
  const BlobRef blob = RefOf("secret");
  ASSERT_THAT(WriteFileAtomically(dir_ / "secret", "secret"), IsOk());
  std::filesystem::create_directories(dir_ / ("data/blobs/" + blob.sha256.substr(0, 2)));
  ASSERT_EQ(
      symlink((dir_ / "secret").c_str(),
              (dir_ / ("data/blobs/" + blob.sha256.substr(0, 2) + "/" + blob.sha256)).c_str()),
      0);
  EXPECT_FALSE(store_->Has(blob));
  EXPECT_FALSE(store_->Read(blob, 0, 6).ok());
}

TEST_F(BlobStoreTest, PresentBlobNeedsNoBytes) {
  const BlobRef blob = *store_->Put("content");
  EXPECT_TRUE(store_->GetUpload(kUploadB, blob)->complete);
  EXPECT_TRUE(store_->Append(kUploadB, blob, 0, "anything")->complete);
  EXPECT_THAT(store_->Finish(kUploadB, blob), IsOk());
  EXPECT_THAT(store_->Read(blob, 0, 100), IsOkAndHolds(std::string("content")));
  EXPECT_EQ(CountFiles(""), 1u);
}

TEST_F(BlobStoreTest, EmptyBlobIsABlob) {
  ASSERT_THAT(store_->Finish(kUploadA, RefOf("")), IsOk());
  EXPECT_TRUE(store_->Has(RefOf("")));
  EXPECT_THAT(store_->Read(RefOf(""), 0, 1), IsOkAndHolds(std::string()));
}

TEST_F(BlobStoreTest, OneIdForTwoBlobsMixesNothing) {
  ASSERT_THAT(store_->Append(kUploadA, RefOf("aa"), 0, "a"), IsOk());
  ASSERT_THAT(store_->Append(kUploadA, RefOf("bb"), 0, "b"), IsOk());
  ASSERT_THAT(store_->Append(kUploadA, RefOf("aa"), 1, "a"), IsOk());
  ASSERT_THAT(store_->Append(kUploadA, RefOf("bb"), 1, "b"), IsOk());
  EXPECT_THAT(store_->Finish(kUploadA, RefOf("aa")), IsOk());
  EXPECT_THAT(store_->Finish(kUploadA, RefOf("bb")), IsOk());
}

TEST_F(BlobStoreTest, UnfinishedUploadsAreListedWithTheirProjects) {
  const std::string of_lab = std::string("lab.") + kUploadA;
  ASSERT_THAT(store_->Append(kUploadA, RefOf("aa"), 0, "a"), IsOk());
  ASSERT_THAT(store_->Append(of_lab, RefOf("bbb"), 0, "bb"), IsOk());
  Reopen();
  std::map<std::string, uint64_t> sizes;
  for (const UnfinishedUpload& upload : store_->ListUploads())
    sizes[upload.name] = upload.byte_size;
  EXPECT_EQ(sizes, (std::map<std::string, uint64_t>{{kUploadA + ("." + RefOf("aa").sha256), 1},
                                                    {of_lab + "." + RefOf("bbb").sha256, 2}}));
  ASSERT_THAT(store_->Append(of_lab, RefOf("bbb"), 2, "b"), IsOk());
  EXPECT_THAT(store_->Finish(of_lab, RefOf("bbb")), IsOk());
  EXPECT_EQ(store_->ListUploads().size(), 1u);
}

TEST_F(BlobStoreTest, FindMissingNamesEachAbsentBlobOnce) {
  const BlobRef here = *store_->Put("here");
  const BlobRef absent = RefOf("absent");
  const BlobRef wrong_size{here.sha256, 5};
  const std::vector<BlobRef> asked = {here, absent, absent, wrong_size, {"..", 1}};
  EXPECT_THAT(store_->FindMissing(asked),
              testing::UnorderedElementsAre(absent, wrong_size, BlobRef{"..", 1}));
}

TEST_F(BlobStoreTest, CollectorTakesOldUnreachableFilesAlone) {
  const BlobRef kept = *store_->Put("kept"), old = *store_->Put("old"),
                asked = *store_->Put("asked");
  ASSERT_THAT(store_->Append(kUploadA, RefOf("idle upload"), 0, "idle"), IsOk());
  clock_.Advance(absl::Hours(25));
  const BlobRef young = *store_->Put("young");
  ASSERT_THAT(store_->Append(kUploadB, RefOf("busy upload"), 0, "busy"), IsOk());
  EXPECT_TRUE(store_->FindMissing(std::span(&asked, 1)).empty());
  EXPECT_THAT(store_->Collect({kept.sha256}), IsOkAndHolds(2u));
  EXPECT_TRUE(store_->Has(kept));
  EXPECT_FALSE(store_->Has(old));
  EXPECT_TRUE(store_->Has(young));
  EXPECT_TRUE(store_->Has(asked)) << "the caller may be about to refer to it";
  EXPECT_EQ(store_->GetUpload(kUploadA, RefOf("idle upload"))->committed_size, 0u);
  EXPECT_EQ(store_->Append(kUploadB, RefOf("busy upload"), 4, " ")->committed_size, 5u);
  EXPECT_EQ(store_->Stats().n_blobs, 3u);
}

// A job in training releases a checkpoint every half minute. Kept for a day they would fill the
// disk.
TEST_F(BlobStoreTest, ReleasedBlobsGoAfterMinutesUnlessSomebodyRefersToThemOrAsks) {
  for (const bool restart : {false, true}) {
    const BlobRef gone = *store_->Put("gone"), kept = *store_->Put("kept"),
                  asked = *store_->Put("asked"), other = *store_->Put("other");
    for (const BlobRef& blob : {gone, kept, asked}) store_->Release(blob);
    store_->Release(RefOf("absent"));
    if (restart) Reopen();
    EXPECT_THAT(store_->Collect({kept.sha256}), IsOkAndHolds(0u))
        << "a render may be about to read it";
    EXPECT_TRUE(store_->Has(asked));
    clock_.Advance(options_.release_grace + absl::Seconds(1));
    EXPECT_THAT(store_->Collect({kept.sha256}), IsOkAndHolds(1u));
    EXPECT_FALSE(store_->Has(gone));
    for (const BlobRef& blob : {kept, asked, other}) EXPECT_TRUE(store_->Has(blob));
  }
}

// What was released is known in memory alone, and so is what was about to be referred to.
TEST_F(BlobStoreTest, BlobsThatNothingNamesAnyMoreGoAlsoAfterAKill) {
  DoAndDie([this](BlobStore& store) {
    for (const Uploader uploader : {Uploader::kClient, Uploader::kWorker}) {
      const std::string who = uploader == Uploader::kClient ? "client" : "worker";
      const std::vector<BlobRef> named = {Upload(store, who + " released", uploader),
                                          Upload(store, who + " named", uploader),
                                          Upload(store, who + " kept", uploader)};
      Upload(store, who + " alone", uploader);
      if (!store.FindMissing(named).empty()) std::abort();
      if (!store.FindToUpload(named).empty()) std::abort();  // a client asks for them again
      store.Release(named[0]);
    }
  });
  Reopen();
  clock_.Advance(options_.release_grace);
  const std::set<std::string> kept = {RefOf("client kept").sha256, RefOf("worker kept").sha256};
  EXPECT_THAT(store_->Collect(kept), IsOkAndHolds(5u));
  for (const char* content : {"client kept", "worker kept"})
    EXPECT_TRUE(store_->Has(RefOf(content))) << content;
  EXPECT_TRUE(store_->Has(RefOf("client alone"))) << "it has time to become part of a scene";
  Reopen();
  clock_.Advance(options_.collect_grace + absl::Seconds(1));
  EXPECT_THAT(store_->Collect(kept), IsOkAndHolds(1u));
}

// Its worker will ask for it again, or has committed it.
TEST_F(BlobStoreTest, UploadOfAWorkerStaysWhileTheServerLives) {
  const BlobRef blob = Upload(*store_, "checkpoint", Uploader::kWorker);
  clock_.Advance(absl::Hours(23));
  EXPECT_THAT(store_->Collect({}), IsOkAndHolds(0u));
  Reopen();
  EXPECT_TRUE(store_->GetUpload(kUploadB, blob)->complete);
  EXPECT_THAT(store_->Collect({}), IsOkAndHolds(0u)) << "it was asked for";
}

TEST_F(BlobStoreTest, DeletedBlobsAreNamedAndReplacedOnesAreNot) {
  std::vector<std::string> deleted;
  options_.on_deleted = [&](const std::string& sha256) { deleted.push_back(sha256); };
  Reopen();
  const BlobRef unused = *store_->Put("unused"), used = *store_->Put("used"),
                lost = *store_->Put("lost"), replaced = *store_->Put("replaced");
  for (const BlobRef& blob : {lost, replaced}) {
    const std::string folder = dir_ / ("data/blobs/" + blob.sha256.substr(0, 2) + "/");
    std::ofstream(folder + blob.sha256) << "bad";
    ASSERT_THAT(store_->Read({blob.sha256, 3}, 0, 3).status(),
                FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  }
  EXPECT_THAT(deleted, testing::IsEmpty()) << "what is damaged may be uploaded again";
  clock_.Advance(options_.collect_grace + absl::Seconds(1));
  ASSERT_THAT(store_->Put("replaced"), IsOk());
  ASSERT_THAT(store_->Collect({used.sha256}), IsOkAndHolds(1u));
  EXPECT_THAT(deleted, testing::UnorderedElementsAre(unused.sha256, lost.sha256));
  ASSERT_THAT(store_->Delete(used), IsOk());
  EXPECT_EQ(deleted.back(), used.sha256);
}

TEST_F(BlobStoreTest, JumpOfTheWallClockCollectsNothing) {
  const BlobRef blob = *store_->Put("young");
  ASSERT_THAT(store_->Append(kUploadA, RefOf("more"), 0, "mo"), IsOk());
  for (const absl::Duration jump : {absl::Hours(48), -absl::Hours(96), absl::Hours(24 * 365)}) {
    for (const bool restart : {false, true}) {
      clock_.JumpWall(jump);
      if (restart) Reopen();
      EXPECT_THAT(store_->Collect({}), IsOkAndHolds(0u));
    }
  }
  EXPECT_TRUE(store_->Has(blob));
  clock_.Advance(absl::Hours(25));
  EXPECT_THAT(store_->Collect({}), IsOkAndHolds(2u)) << "real time ages, after all these jumps";
}

TEST_F(BlobStoreTest, CollectedUploadIsAskedForAgainByAWaitingWriter) {
  ASSERT_THAT(store_->Append(kUploadA, RefOf("0123"), 0, "01"), IsOk());
  clock_.Advance(absl::Hours(25));
  EXPECT_THAT(store_->Collect({}), IsOkAndHolds(1u));
  EXPECT_THAT(store_->Append(kUploadA, RefOf("0123"), 2, "23"),
              StatusIs(StatusCode::kInvalidArgument, "committed size, 0"));
}

TEST_F(BlobStoreTest, DiskFloorRefusesUploadsAndKeepsReads) {
  const BlobRef blob = *store_->Put("content");
  options_.min_free_bytes = UINT64_MAX;
  Reopen();
  EXPECT_THAT(store_->Append(kUploadA, RefOf("more"), 0, "more"),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(store_->Put("more"), FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(store_->Read(blob, 0, 100), IsOkAndHolds(std::string("content")));
  EXPECT_EQ(CountFiles("uploads"), 0u);
}

TEST_F(BlobStoreTest, ClientsLeaveAReserveToWorkers) {
  options_.client_reserve_bytes = uint64_t{1} << 60;
  options_.max_client_reserve_share = 1;
  Reopen();
  EXPECT_THAT(store_->Append(kUploadA, RefOf("more"), 0, "more", Uploader::kClient),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(store_->Put("more", Uploader::kClient),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(store_->Append(kUploadA, RefOf("more"), 0, "more"), IsOk());
}

// The folder cannot be opened for its sync, because the process has no file descriptors left. The
// renamed file is removed again, and a retry must not report that it is stored.
TEST_F(BlobStoreTest, UploadWhoseNameCouldNotBeSyncedStartsOver) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan itself needs file descriptors";
#endif
  const std::string content = "content";
  const BlobRef blob = RefOf(content);
  std::filesystem::create_directories(dir_ / ("data/blobs/" + blob.sha256.substr(0, 2)));
  Reopen();
  ASSERT_THAT(store_->Append(kUploadA, blob, 0, content), IsOk());
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int lowest_free = dup(STDIN_FILENO);
  close(lowest_free);
  const rlimit one_more{static_cast<rlim_t>(lowest_free) + 1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const absl::Status finished = store_->Finish(kUploadA, blob).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_THAT(finished, StatusIs(StatusCode::kResourceExhausted, "sync a folder"));
  EXPECT_THAT(finished.message(), testing::Not(testing::HasSubstr("/"))) << "clients hear no path";
  EXPECT_FALSE(store_->Has(blob));
  EXPECT_EQ(store_->GetUpload(kUploadA, blob)->committed_size, 0u);

  EXPECT_THAT(store_->Finish(kUploadA, blob), StatusIs(StatusCode::kInvalidArgument, "0 bytes"));
  EXPECT_FALSE(store_->Has(blob));
  ASSERT_THAT(store_->Append(kUploadA, blob, 0, content), IsOk());
  ASSERT_THAT(store_->Finish(kUploadA, blob), IsOk());
  EXPECT_THAT(store_->Read(blob, 0, 100), IsOkAndHolds(content));
  EXPECT_EQ(store_->Stats().byte_size, content.size());
}

TEST_F(BlobStoreTest, SizesAreCountedAgainAfterARestart) {
  const BlobRef blob = *store_->Put("content");
  EXPECT_THAT(store_->Put("more"), IsOk());
  Reopen();
  EXPECT_EQ(store_->Stats().n_blobs, 2u);
  EXPECT_EQ(store_->Stats().byte_size, 11u);
  EXPECT_GT(store_->Stats().free_bytes, 0u);
  EXPECT_THAT(store_->Delete(blob), IsOk());
  EXPECT_THAT(store_->Delete(blob), IsOk());
  EXPECT_EQ(store_->Stats().n_blobs, 1u);
  EXPECT_EQ(store_->Stats().byte_size, 4u);
}

}  // namespace
}  // namespace nerf
