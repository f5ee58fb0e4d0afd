#include "server/store/blob_scrubber.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr char kUpload[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";

class BlobScrubberTest : public testing::Test {
 protected:
  BlobScrubberTest() {
    BlobStoreOptions options;
    options.on_damaged = [this](const std::string& sha256) { damaged_.push_back(sha256); };
    blobs_ = *BlobStore::Open(dir_.path(), options, &clock_);
  }

  std::string PathOf(const BlobRef& blob) const {
    return dir_ / ("blobs/" + blob.sha256.substr(0, 2) + "/" + blob.sha256);
  }
  // Changes one byte, as a failing disk would.
  void Flip(const BlobRef& blob) {
    std::fstream file(PathOf(blob), std::ios::in | std::ios::out | std::ios::binary);
    file.put('#');
  }
  BlobScrubber Scrubber(const ScrubOptions& options = {}) {
    return BlobScrubber(blobs_.get(), &clock_, options);
  }
  // One pass, in ticks of a second.
  void RunPass(BlobScrubber& scrubber) {
    clock_.Advance(absl::Hours(24));
    for (int i = 0; i < 10; ++i) {
      scrubber.Tick();
      clock_.Advance(absl::Seconds(1));
    }
  }

  TempDir dir_;
  FakeClock clock_;
  std::vector<std::string> damaged_;
  std::unique_ptr<BlobStore> blobs_;
};

TEST_F(BlobScrubberTest, WholeBlobsStay) {
  const BlobRef blob = *blobs_->Put("a picture");
  BlobScrubber scrubber = Scrubber();
  RunPass(scrubber);
  EXPECT_TRUE(damaged_.empty());
  EXPECT_THAT(blobs_->Read(blob, 0, 100), IsOkAndHolds("a picture"));
}

TEST_F(BlobScrubberTest, DamagedBlobIsMissingUntilTheNextUploadReplacesIt) {
  const BlobRef good = *blobs_->Put("another picture");
  const BlobRef blob = *blobs_->Put("a picture");
  Flip(blob);
  EXPECT_TRUE(blobs_->Has(blob));
  BlobScrubber scrubber = Scrubber();
  RunPass(scrubber);
  EXPECT_EQ(damaged_, std::vector<std::string>{blob.sha256});
  EXPECT_THAT(blobs_->Read(blob, 0, 100), FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_EQ(blobs_->FindMissing(std::vector<BlobRef>{good, blob}), std::vector<BlobRef>{blob});
  EXPECT_EQ(blobs_->Stats().n_blobs, 1u);

  ASSERT_THAT(blobs_->Append(kUpload, blob, 0, "a picture"), IsOk());
  ASSERT_THAT(blobs_->Finish(kUpload, blob), IsOk());
  EXPECT_THAT(blobs_->Read(blob, 0, 100), IsOkAndHolds("a picture"));
  EXPECT_FALSE(fs::exists(dir_ / ("damaged/" + blob.sha256)));
  RunPass(scrubber);
  EXPECT_EQ(damaged_.size(), 1u);
}

TEST_F(BlobScrubberTest, TruncatedBlobIsDamaged) {
  const BlobRef blob = *blobs_->Put("a picture");
  fs::resize_file(PathOf(blob), 3);
  BlobScrubber scrubber = Scrubber();
  RunPass(scrubber);
  EXPECT_EQ(damaged_, std::vector<std::string>{blob.sha256});
}

TEST_F(BlobScrubberTest, ReadsNoFasterThanItsRate) {
  const std::string content(size_t{1} << 20, 'x');
  std::vector<BlobRef> all;
  for (int i = 0; i < 8; ++i) all.push_back(*blobs_->Put(content + std::to_string(i)));
  for (const BlobRef& blob : all) Flip(blob);
  // A megabyte a second, so a blob a second.
  BlobScrubber scrubber = Scrubber({.bytes_per_second = 1 << 20});
  clock_.Advance(absl::Hours(24));
  scrubber.Tick();
  for (int second = 0; second < 4; ++second) {
    clock_.Advance(absl::Seconds(1));
    scrubber.Tick();
  }
  EXPECT_GE(damaged_.size(), 2u);
  EXPECT_LE(damaged_.size(), 7u);
  for (int second = 0; second < 10; ++second) {
    clock_.Advance(absl::Seconds(1));
    scrubber.Tick();
  }
  EXPECT_EQ(damaged_.size(), 8u);
}

TEST_F(BlobScrubberTest, NothingIsReadBeforeTheIntervalOrWithoutOne) {
  Flip(*blobs_->Put("a picture"));
  BlobScrubber scrubber = Scrubber(), never = Scrubber({.interval = absl::ZeroDuration()});
  for (int hour = 0; hour < 23; ++hour) {
    clock_.Advance(absl::Hours(1));
    scrubber.Tick();
    never.Tick();
  }
  EXPECT_TRUE(damaged_.empty());
}

TEST_F(BlobScrubberTest, DamagedBlobThatNothingNamesIsCollected) {
  const BlobRef blob = *blobs_->Put("a picture");
  Flip(blob);
  BlobScrubber scrubber = Scrubber();
  RunPass(scrubber);
  ASSERT_TRUE(fs::exists(dir_ / ("damaged/" + blob.sha256)));
  ASSERT_THAT(blobs_->Collect({blob.sha256}), IsOk());
  EXPECT_TRUE(fs::exists(dir_ / ("damaged/" + blob.sha256)));
  ASSERT_THAT(blobs_->Collect({}), IsOk());
  EXPECT_FALSE(fs::exists(dir_ / ("damaged/" + blob.sha256)));
}

}  // namespace
}  // namespace nerf
