#include "worker/files/blob_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/fake_server.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

class BlobCacheTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Fetch(BlobCache& cache, const v1::BlobRef& blob, bool pin = false) {
    return cache.Fetch(blob, pin, {});
  }
  TempDir dir_;
  FakeServer server_;
};

TEST_F(BlobCacheTest, SecondFetchComesFromTheFolder) {
  BlobCache cache(dir_.path(), 1000, server_);
  const v1::BlobRef blob = server_.AddBlob("hello");
  const auto path = Fetch(cache, blob);
  ASSERT_THAT(path, IsOk());
  EXPECT_THAT(ReadFile(*path, 100), IsOkAndHolds("hello"));
  EXPECT_THAT(Fetch(cache, blob), IsOk());
  EXPECT_EQ(server_.reads(), 1);
}

// The cache has room for one blob. Two threads repeatedly fetch different blobs.
TEST_F(BlobCacheTest, PinnedFileIsThereWhoeverMakesRoomMeanwhile) {
  BlobCache cache(dir_.path(), 8, server_);
  const v1::BlobRef blobs[] = {server_.AddBlob("hello"), server_.AddBlob("world")};
  std::atomic<int> n_lost = 0;
  const auto fetch_often = [&](int seed) {
    for (int i = 0; i < 1000; ++i) {
      const v1::BlobRef& blob = blobs[(i / 3 + seed) % 2];
      const auto path = Fetch(cache, blob, /*pin=*/true);
      if (!path.ok() || !fs::exists(*path)) ++n_lost;
      cache.Unpin(blob.sha256());
    }
  };
  std::thread other([&] { fetch_often(1); });
  fetch_often(0);
  other.join();
  EXPECT_EQ(n_lost, 0);
}

TEST_F(BlobCacheTest, WrongDigestIsRefusedAndLeavesNothing) {
  BlobCache cache(dir_.path(), 1000, server_);
  const v1::BlobRef blob = server_.AddBlob("hello");
  for (const std::string bytes : {"jello", "hell", "hello!", ""}) {
    server_.CorruptBlob(blob, bytes);
    EXPECT_THAT(Fetch(cache, blob), StatusIs(absl::StatusCode::kDataLoss, blob.sha256()));
  }
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(BlobCacheTest, ServerIsToldOfAWrongDigestAndItsWordOfDamageIsTheError) {
  BlobCache cache(dir_.path(), 1000, server_);
  const v1::BlobRef blob = server_.AddBlob("hello");
  server_.CorruptBlob(blob, "jello");
  // Its file is right, it does not know the call, or it does not answer.
  for (const absl::Status& answer :
       {absl::OkStatus(), absl::UnimplementedError("old"), absl::UnavailableError("away")}) {
    server_.SetCheckResult(answer);
    EXPECT_THAT(Fetch(cache, blob), StatusIs(absl::StatusCode::kDataLoss, "another digest"));
  }
  server_.SetCheckResult(WithReason(absl::DataLossError("damaged"), reason::kBlobDamaged));
  EXPECT_THAT(Fetch(cache, blob), FailsWith(absl::StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_EQ(server_.checks(), std::vector<std::string>(4, blob.sha256()));
}

TEST_F(BlobCacheTest, MalformedBlobsAreRefusedWithoutACall) {
  BlobCache cache(dir_.path(), 1000, server_);
  v1::BlobRef path = server_.AddBlob("x"), size = path, fraction = path, nan = path;
  path.set_sha256("../../etc/passwd");
  size.set_size_bytes(-1);
  fraction.set_size_bytes(0.5);
  nan.set_size_bytes(std::numeric_limits<double>::quiet_NaN());
  for (const v1::BlobRef& blob : {path, size, fraction, nan}) {
    EXPECT_THAT(Fetch(cache, blob), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(server_.reads(), 0);
}

TEST_F(BlobCacheTest, LeastRecentlyUsedGoesFirstAndPinnedStays) {
  BlobCache cache(dir_.path(), 10, server_);
  const v1::BlobRef a = server_.AddBlob("aaaa"), b = server_.AddBlob("bbbb"),
                    c = server_.AddBlob("cccc"), d = server_.AddBlob("dddd");
  const auto path_a = Fetch(cache, a, /*pin=*/true);
  const auto path_b = Fetch(cache, b);
  const auto path_c = Fetch(cache, c);
  EXPECT_TRUE(fs::exists(*path_a));
  EXPECT_FALSE(fs::exists(*path_b));
  EXPECT_TRUE(fs::exists(*path_c));
  EXPECT_EQ(cache.byte_size(), 8u);
  cache.Unpin(a.sha256());
  ASSERT_THAT(Fetch(cache, d), IsOk());
  EXPECT_FALSE(fs::exists(*path_a));
}

TEST_F(BlobCacheTest, ChangedFileIsCheckedAgain) {
  BlobCache cache(dir_.path(), 1000, server_);
  const v1::BlobRef blob = server_.AddBlob("fine");
  ASSERT_THAT(Fetch(cache, blob), IsOk());
  fs::permissions(dir_ / blob.sha256(), fs::perms::owner_all);
  std::ofstream(dir_ / blob.sha256()) << "evil";
  const auto path = Fetch(cache, blob);
  ASSERT_THAT(path, IsOk());
  EXPECT_THAT(ReadFile(*path, 100), IsOkAndHolds("fine"));
  EXPECT_EQ(server_.reads(), 2);
}

TEST_F(BlobCacheTest, LaterProcessTakesOverAndChecksWhatItFinds) {
  const v1::BlobRef good = server_.AddBlob("good"), bad = server_.AddBlob("fine");
  {
    BlobCache cache(dir_.path(), 1000, server_);
    ASSERT_THAT(Fetch(cache, good), IsOk());
    ASSERT_THAT(Fetch(cache, bad), IsOk());
  }
  fs::permissions(dir_ / bad.sha256(), fs::perms::owner_all);
  std::ofstream(dir_ / bad.sha256()) << "evil";
  std::ofstream(dir_ / "half.tmp") << "leftover";
  BlobCache cache(dir_.path(), 1000, server_);
  EXPECT_FALSE(fs::exists(dir_ / "half.tmp"));
  EXPECT_EQ(cache.byte_size(), 8u);
  ASSERT_THAT(Fetch(cache, good), IsOk());
  EXPECT_EQ(server_.reads(), 2);
  const auto path = Fetch(cache, bad);
  ASSERT_THAT(path, IsOk());
  EXPECT_THAT(ReadFile(*path, 100), IsOkAndHolds("fine"));
  EXPECT_EQ(server_.reads(), 3);
}

}  // namespace
}  // namespace nerf
