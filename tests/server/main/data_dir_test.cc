#include "server/main/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "common/clock.h"
#include "common/files/file_io.h"
#include "server/main/store_setup.h"
#include "server/store/folder_blob_store.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(DataDirTest, AddressesAreJsonWhateverTheSocketIsCalled) {
  const TempDir dir;
  auto data = DataDir::Open(dir / "data");
  ASSERT_THAT(data, IsOk());
  ASSERT_THAT(
      data->WriteAddresses({"unix:/run/anna's \"nerf\"\n", "127.0.0.1:9464", "127.0.0.1:8080"}),
      IsOk());
  const auto written = ReadFile(data->File("nerfd.ports"), 1000);
  ASSERT_THAT(written, IsOk());
  EXPECT_THAT(*written,
              testing::HasSubstr(R"("grpc":"unix:/run/anna's \"nerf\"\u000a","metrics":"127)"));
}

// What Open logs of a folder with this mode, which it must not change.
std::string LogOfMode(mode_t mode) {
  const TempDir dir;
  const std::string path = dir / "my data";
  EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  testing::internal::CaptureStderr();
  EXPECT_THAT(DataDir::Open(path), IsOk());
  std::string log = testing::internal::GetCapturedStderr();
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, mode);
  return log;
}

TEST(DataDirTest, FolderWithAQueueOrBlobsIsNoReplicas) {
  const TempDir dir;
  const auto data = DataDir::Open(dir / "data");
  ASSERT_THAT(data, IsOk());
  EXPECT_THAT(CheckReplicaFolder(*data), IsOk());
  const RealClock clock;
  {
    const auto blobs = FolderBlobStore::Open(data->path(), {}, &clock);
    EXPECT_THAT(CheckReplicaFolder(*data), IsOk());
    ASSERT_THAT((*blobs)->Put("a", Uploader::kWorker), IsOk());
  }
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, what);
  };
  EXPECT_THAT(CheckReplicaFolder(*data), refused("without --replica-host"));
  std::ofstream(data->File("queue.db")) << "";
  EXPECT_THAT(CheckReplicaFolder(*data), refused("--move-store"));
}

TEST(DataDirTest, FolderThatOthersMayEnterIsWarnedOfWithTheCommand) {
  const std::string log = LogOfMode(0755);
  EXPECT_THAT(log, testing::HasSubstr("other users of this machine may enter the data folder"));
  EXPECT_THAT(log, testing::HasSubstr("mode=0755"));
  EXPECT_THAT(log, testing::HasSubstr("chmod o-rwx '"));
  EXPECT_THAT(LogOfMode(0701), testing::HasSubstr("chmod o-rwx '"));
  EXPECT_EQ(LogOfMode(0700), "");
  EXPECT_EQ(LogOfMode(0750), "") << "a group is chosen, not left over";
}

TEST(DataDirTest, NewFolderIsPrivateAndNotWarnedOf) {
  const TempDir dir;
  testing::internal::CaptureStderr();
  EXPECT_THAT(DataDir::Open(dir / "data"), IsOk());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  struct stat status {};
  ASSERT_EQ(stat((dir / "data").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

}  // namespace
}  // namespace nerf
