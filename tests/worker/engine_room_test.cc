#include "worker/engine/engine_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/fake_server.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

class EngineRoomTest : public ::testing::Test {
 protected:
  EngineRoomTest() {
    fs::create_directory(dir_ / "blobs");
    cache_ = std::make_unique<BlobCache>(dir_ / "blobs", 8, server_);
  }
  TempDir dir_;
  FakeServer server_;
  std::unique_ptr<BlobCache> cache_;
};

TEST_F(EngineRoomTest, ShowsTheFilesInUseAloneByOnePath) {
  EngineRoom room(dir_ / "1");
  const v1::BlobRef used = server_.AddBlob("hello"), other = server_.AddBlob("wo");
  EXPECT_THAT(cache_->Fetch(other, /*pin=*/true, {}), IsOk());
  EXPECT_TRUE(fs::is_empty(room.open()));
  const auto path = room.Open(*cache_, used, {});
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(*path, room.open() + "/" + used.sha256());
  EXPECT_THAT(ReadFile(*path, 100), IsOkAndHolds("hello"));
  EXPECT_THAT(room.Open(*cache_, used, {}), IsOkAndHolds(*path));
  room.Close(*cache_, used.sha256());
  EXPECT_TRUE(fs::exists(*path));
  room.Close(*cache_, used.sha256());
  EXPECT_TRUE(fs::is_empty(room.open()));
  room.Close(*cache_, used.sha256());  // once too often
  EXPECT_THAT(room.Open(*cache_, used, {}), IsOkAndHolds(*path));
  EXPECT_EQ(server_.reads(), 2);
}

TEST_F(EngineRoomTest, OpenFilesOfOneRoomAreNotInAnother) {
  EngineRoom room(dir_ / "1"), other(dir_ / "2");
  const v1::BlobRef blob = server_.AddBlob("hello");
  const auto path = room.Open(*cache_, blob, {});
  ASSERT_THAT(path, IsOk());
  EXPECT_TRUE(fs::is_empty(other.open()));
  ASSERT_THAT(other.Open(*cache_, blob, {}), IsOk());
  other.Close(*cache_, blob.sha256());
  EXPECT_TRUE(fs::exists(*path));
  // Pinned in the cache as long as it is open.
  EXPECT_THAT(cache_->Fetch(server_.AddBlob("a larger one"), /*pin=*/false, {}), IsOk());
  EXPECT_TRUE(fs::exists(dir_ / "blobs/" + blob.sha256()));
  room.Close(*cache_, blob.sha256());
}

TEST_F(EngineRoomTest, FailedFetchOpensNothing) {
  EngineRoom room(dir_ / "1");
  const v1::BlobRef blob = server_.AddBlob("hello");
  server_.CorruptBlob(blob, "jello");
  EXPECT_THAT(room.Open(*cache_, blob, {}), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(fs::is_empty(room.open()));
}

TEST(ProjectOfTest, IsTheSecondPart) {
  EXPECT_EQ(ProjectOf("projects/default/jobs/j-1"), "default");
  EXPECT_EQ(ProjectOf("projects/a/jobs/j/k"), "a");
}

}  // namespace
}  // namespace nerf
