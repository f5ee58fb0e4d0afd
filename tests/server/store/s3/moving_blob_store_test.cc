// Blobs that move from a folder into a bucket of a real S3 server. Skipped where none is installed.
#include "server/store/s3/moving_blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "tests/server/store/s3/scripted_http_server.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/swift.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class MovingBlobStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    s3_ = OptionsOfSwift();
    if (s3_.endpoint.empty()) GTEST_SKIP() << "OpenStack Swift is not installed";
    options_.on_damaged = [this](const std::string& sha256) { damaged_.push_back(sha256); };
    options_.on_deleted = [this](const std::string& sha256) { deleted_.push_back(sha256); };
    const auto folder = BlobStore::Open(root(), options_, &clock_);
    for (const std::string& content : contents_) blobs_.push_back(*(*folder)->Put(content));
    client_ = std::make_unique<S3Client>(s3_, &signing_clock_, &random_);
  }
  std::string root() const { return dir_ / "server"; }
  std::string FileOf(const BlobRef& blob) const {
    return root() + "/blobs/" + blob.sha256.substr(0, 2) + "/" + blob.sha256;
  }
  void Open() {
    store_.reset();
    auto store = MovingBlobStore::Open(root(), s3_, options_, &clock_, &random_);
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  // Moves up to `n` blobs; failures count, too.
  void MoveSome(int n) {
    store_->MoveAll([&n](absl::Duration) { return n-- > 0; });
  }
  void ExpectAllReadable() {
    EXPECT_THAT(store_->FindMissing(blobs_), IsEmpty());
    for (size_t i = 0; i < blobs_.size(); ++i) {
      EXPECT_THAT(store_->Read(blobs_[i], 0, contents_[i].size()), IsOkAndHolds(contents_[i]));
    }
  }
  size_t NInBucket() {
    const auto objects = client_->List("blobs/");
    EXPECT_THAT(objects, IsOk());
    return objects->size();
  }

  TempDir dir_;
  FakeClock clock_;
  RealClock signing_clock_;
  FakeRandom random_;
  S3Options s3_;
  BlobStoreOptions options_;
  std::vector<std::string> contents_ = {"", "a", std::string(300'000, 'b'),
                                        std::string(11'000'000, 'c')};
  std::vector<BlobRef> blobs_;
  std::vector<std::string> damaged_, deleted_;
  std::unique_ptr<MovingBlobStore> store_;
  std::unique_ptr<S3Client> client_;
};

TEST_F(MovingBlobStoreTest, EveryBlobIsReadBeforeBetweenAndAfterAndBytesEndInTheBucketAlone) {
  Open();
  EXPECT_THAT(store_->LinkAll(dir_ / "backup", [] { return absl::OkStatus(); }).status(),
              StatusIs(StatusCode::kFailedPrecondition, "4 blobs have yet to move"));
  for (int n = 0; n < 5; ++n) {
    ExpectAllReadable();
    EXPECT_EQ(store_->Stats().n_blobs, 4u);
    EXPECT_EQ(NInBucket(), static_cast<size_t>(std::min(n, 4)));
    MoveSome(1);
    if (n == 1) Open();  // as after a crash
  }
  EXPECT_FALSE(HasBlobFiles(root()).value());
  EXPECT_THAT(deleted_, IsEmpty()) << "owners are forgotten with a blob";
  EXPECT_THAT(store_->LinkAll(dir_ / "backup", [] { return absl::OkStatus(); }), IsOk());
  auto bucket = S3BlobStore::Open(dir_ / "other", s3_, options_, &clock_, &random_);
  ASSERT_THAT(bucket, IsOk());
  for (size_t i = 0; i < blobs_.size(); ++i) {
    EXPECT_THAT((*bucket)->Read(blobs_[i], 0, contents_[i].size()), IsOkAndHolds(contents_[i]));
  }
}

TEST_F(MovingBlobStoreTest, WhatIsNewGoesIntoTheBucketAndWhatNothingNamesIsDeletedInBoth) {
  Open();
  const BlobRef fresh = *store_->Put("fresh", Uploader::kWorker);
  EXPECT_FALSE(fs::exists(FileOf(fresh)));
  EXPECT_EQ(NInBucket(), 1u);
  EXPECT_TRUE(store_->Has(fresh));
  MoveSome(1);
  clock_.Advance(options_.collect_grace + absl::Seconds(1));
  ASSERT_THAT(store_->Collect({}), IsOk());
  EXPECT_EQ(NInBucket(), 0u);
  EXPECT_FALSE(HasBlobFiles(root()).value());
  EXPECT_EQ(store_->FindMissing(blobs_).size(), 4u);
  EXPECT_EQ(deleted_.size(), 5u);
  MoveSome(9);
  EXPECT_EQ(NInBucket(), 0u);
}

TEST_F(MovingBlobStoreTest, BlobOfWhichOneStoreDeletesAnOldCopyKeepsItsOwners) {
  Open();
  clock_.Advance(options_.collect_grace + absl::Seconds(1));
  ASSERT_THAT(store_->Put(contents_[1], Uploader::kWorker), IsOkAndHolds(blobs_[1]));
  ASSERT_THAT(store_->Collect({}), IsOk());
  EXPECT_FALSE(fs::exists(FileOf(blobs_[1])));
  EXPECT_TRUE(store_->Has(blobs_[1]));
  EXPECT_EQ(deleted_.size(), 3u);
  EXPECT_THAT(deleted_, Not(Contains(blobs_[1].sha256)));
}

TEST_F(MovingBlobStoreTest, DamagedFileIsMovedAsideAndHealedByTheNextUpload) {
  std::fstream(FileOf(blobs_[2]), std::ios::in | std::ios::out).put('x');
  Open();
  MoveSome(9);
  EXPECT_THAT(damaged_, ElementsAre(blobs_[2].sha256));
  EXPECT_THAT(store_->FindMissing(blobs_), ElementsAre(blobs_[2]));
  EXPECT_THAT(store_->Read(blobs_[2], 0, 5),
              FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_EQ(NInBucket(), 3u);
  ASSERT_THAT(store_->Put(contents_[2], Uploader::kClient), IsOk());
  ExpectAllReadable();
}

// An earlier process was killed before it deleted the file, or the bucket had other bytes.
TEST_F(MovingBlobStoreTest, ObjectThatIsThereIsReadBeforeTheFileIsDeleted) {
  ASSERT_THAT(client_->PutFile("blobs/" + blobs_[1].sha256, FileOf(blobs_[1]), 1, blobs_[1].sha256),
              IsOk());
  const std::string other(300'000, 'x');
  std::ofstream(dir_ / "other") << other;
  ASSERT_THAT(
      client_->PutFile("blobs/" + blobs_[2].sha256, dir_ / "other", other.size(), Sha256Hex(other)),
      IsOk());
  Open();
  MoveSome(9);
  EXPECT_FALSE(HasBlobFiles(root()).value());
  ExpectAllReadable();
}

TEST_F(MovingBlobStoreTest, NothingIsDeletedWhileTheBucketTakesNothingOrTheFileIsAnother) {
  ScriptedHttpServer server;
  const S3Options right = s3_;
  s3_.endpoint = server.endpoint();
  s3_.max_attempts = 1;
  const std::string ok = ScriptedHttpServer::Reply(200, "<ListBucketResult></ListBucketResult>");
  server.Answer({ok, ok, ScriptedHttpServer::Reply(503, "")});
  Open();
  MoveSome(9);
  ExpectAllReadable();
  EXPECT_THAT(server.requests(), testing::SizeIs(testing::Gt(4u)));
  // Of a large file the digest is compared on the way.
  EXPECT_THAT(client_->PutFile("blobs/" + blobs_[2].sha256, FileOf(blobs_[3]), contents_[3].size(),
                               blobs_[2].sha256),
              StatusIs(StatusCode::kDataLoss, "another digest"));
  EXPECT_EQ(NInBucket(), 0u);
  s3_ = right;
  Open();
  MoveSome(9);
  EXPECT_FALSE(HasBlobFiles(root()).value());
  ExpectAllReadable();
}

}  // namespace
}  // namespace nerf
