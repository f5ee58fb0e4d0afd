#include "server/store/blob_reader.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/store/blob_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr char kReaderUpload[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";

class BlobReaderTest : public testing::Test {
 protected:
  BlobReaderTest() {
    BlobStoreOptions options;
    options.on_damaged = [this](const std::string& sha256) { damaged_.push_back(sha256); };
    blobs_ = *BlobStore::Open(dir_.path(), options, &clock_);
  }

  std::string PathOf(const BlobRef& blob) const {
    return dir_ / ("blobs/" + blob.sha256.substr(0, 2) + "/" + blob.sha256);
  }
  // Turns one bit, as a failing disk would; the time of the file is now.
  void Flip(const BlobRef& blob, uint64_t place) {
    std::fstream file(PathOf(blob), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(place));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(place));
    file.put(byte);
  }
  static std::string Content(size_t n_bytes) {
    std::string content(n_bytes, '\0');
    for (size_t i = 0; i < n_bytes; ++i) content[i] = static_cast<char>(i * 7 + i / 251);
    return content;
  }
  // Every piece that a reader gets before it ends, and how it ends.
  absl::Status ReadAll(const BlobRef& blob, uint64_t offset, uint64_t limit, std::string* bytes) {
    bytes->clear();
    NERF_ASSIGN_OR_RETURN(const auto reader, blobs_->OpenRead(blob, offset, limit));
    while (true) {
      NERF_ASSIGN_OR_RETURN(const bool may_read, reader->Prepare());
      if (may_read) break;
    }
    while (!reader->at_end()) {
      NERF_ASSIGN_OR_RETURN(const std::string piece, reader->Read(1000));
      *bytes += piece;
    }
    return absl::OkStatus();
  }
  bool IsMissing(const BlobRef& blob) { return !blobs_->FindMissing({&blob, 1}).empty(); }

  TempDir dir_;
  FakeClock clock_;
  std::vector<std::string> damaged_;
  std::unique_ptr<BlobStore> blobs_;
};

TEST_F(BlobReaderTest, WholeAndPartsOfAGoodBlobAreItsBytes) {
  const std::string content = Content(3500);
  const BlobRef blob = *blobs_->Put(content);
  std::string bytes;
  for (const uint64_t offset : {0, 1, 999, 1000, 3499, 3500}) {
    for (const uint64_t limit : {uint64_t{1}, uint64_t{1000}, uint64_t{3500}, UINT64_MAX}) {
      ASSERT_THAT(ReadAll(blob, offset, limit, &bytes), IsOk()) << offset << " " << limit;
      EXPECT_EQ(bytes, content.substr(offset, limit)) << offset << " " << limit;
    }
  }
  EXPECT_TRUE(damaged_.empty());
}

TEST_F(BlobReaderTest, TurnedBitAnywhereIsFoundByTheFirstReadBeforeItsEnd) {
  const std::string content = Content(3500);
  const auto lost = FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged);
  for (const uint64_t place : {0, 999, 1000, 3000, 3499}) {
    const BlobRef blob = *blobs_->Put(content);
    Flip(blob, place);
    damaged_.clear();
    EXPECT_FALSE(IsMissing(blob)) << "nobody has read it";
    std::string bytes;
    EXPECT_THAT(ReadAll(blob, 0, UINT64_MAX, &bytes), lost) << place;
    EXPECT_EQ(bytes.size(), 3000u) << "the last piece is withheld";
    EXPECT_EQ(damaged_, std::vector<std::string>{blob.sha256});
    EXPECT_TRUE(IsMissing(blob));
    EXPECT_THAT(ReadAll(blob, 0, UINT64_MAX, &bytes), lost);
    EXPECT_TRUE(bytes.empty());

    ASSERT_THAT(blobs_->Append(kReaderUpload, blob, 0, content), IsOk());
    ASSERT_THAT(blobs_->Finish(kReaderUpload, blob), IsOkAndHolds(Stored::kNew));
    EXPECT_FALSE(IsMissing(blob));
    ASSERT_THAT(ReadAll(blob, 0, UINT64_MAX, &bytes), IsOk());
    EXPECT_EQ(bytes, content);
    EXPECT_EQ(blobs_->Stats().n_blobs, 1u);
  }
}

TEST_F(BlobReaderTest, PartOfADamagedBlobIsRefusedBeforeItsFirstByte) {
  const BlobRef blob = *blobs_->Put(Content(3500));
  Flip(blob, 3400);
  std::string bytes;
  // The wanted part is right.
  EXPECT_THAT(ReadAll(blob, 0, 10, &bytes), FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_TRUE(bytes.empty());
  EXPECT_TRUE(IsMissing(blob));
}

TEST_F(BlobReaderTest, BlobIsCheckedForPartsOnceUntilItsFileChanges) {
  const BlobRef blob = *blobs_->Put(Content((size_t{16} << 20) + 1));
  const auto first = *blobs_->OpenRead(blob, 5, 10), other = *blobs_->OpenRead(blob, 1, 1);
  EXPECT_THAT(first->Prepare(), IsOkAndHolds(false)) << "in slices of 16 MiB";
  EXPECT_THAT(first->Prepare(), IsOkAndHolds(true));
  EXPECT_THAT(other->Prepare(), IsOkAndHolds(true)) << "another reader has checked it";
  EXPECT_THAT((*blobs_->OpenRead(blob, 7, 1))->Prepare(), IsOkAndHolds(true));
  Flip(blob, 100);
  const auto later = *blobs_->OpenRead(blob, 7, 1);
  EXPECT_THAT(later->Prepare(), IsOkAndHolds(false));
  EXPECT_THAT(later->Prepare().status(), FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
}

TEST_F(BlobReaderTest, FileThatShrinksWhileItIsReadIsDamaged) {
  const BlobRef blob = *blobs_->Put(Content(3500));
  const auto reader = *blobs_->OpenRead(blob, 0, UINT64_MAX);
  EXPECT_THAT(reader->Read(1000), IsOk());
  fs::resize_file(PathOf(blob), 1500);
  EXPECT_THAT(reader->Read(1000).status(), FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_TRUE(IsMissing(blob));
}

TEST_F(BlobReaderTest, ReaderOfADamagedFileLeavesTheOneThatReplacedItAlone) {
  const std::string content = Content(3500);
  const BlobRef blob = *blobs_->Put(content);
  Flip(blob, 0);
  const auto slow = *blobs_->OpenRead(blob, 0, UINT64_MAX);
  std::string bytes;
  ASSERT_FALSE(ReadAll(blob, 0, UINT64_MAX, &bytes).ok());
  ASSERT_THAT(blobs_->Put(content), IsOk());
  EXPECT_THAT(slow->Read(3500).status(), FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_FALSE(IsMissing(blob));
  EXPECT_EQ(damaged_.size(), 1u);
}

// damaged/ is no folder, so nothing can be moved there.
TEST_F(BlobReaderTest, DamagedBlobThatCannotBeMovedIsMissingToo) {
  fs::remove(dir_ / "damaged");
  std::ofstream(dir_ / "damaged") << "in the way";
  const std::string content = Content(3500);
  const BlobRef blob = *blobs_->Put(content);
  Flip(blob, 0);
  std::string bytes;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ReadAll(blob, 0, UINT64_MAX, &bytes),
                FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  }
  EXPECT_TRUE(IsMissing(blob));
  EXPECT_EQ(damaged_.size(), 1u);
  ASSERT_THAT(blobs_->Put(content), IsOk());
  EXPECT_FALSE(IsMissing(blob));
  EXPECT_THAT(ReadAll(blob, 0, UINT64_MAX, &bytes), IsOk());
  EXPECT_EQ(blobs_->Stats().n_blobs, 1u);
}

}  // namespace
}  // namespace nerf
