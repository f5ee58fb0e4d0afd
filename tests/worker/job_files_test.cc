#include "worker/files/job_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/files/file_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/fake_server.h"

namespace nerf {
namespace {

class JobFilesTest : public ::testing::Test {
 protected:
  JobFilesTest() {
    std::filesystem::create_directories(dir_ / "blobs");
    cache_ = std::make_unique<BlobCache>(dir_ / "blobs", 1000, server_);
    v1::SceneManifestEntry* file = grant_.add_files();
    file->set_path("transforms.json");
    *file->mutable_blob() = server_.AddBlob("{}");
  }
  absl::StatusOr<JobFiles> Fetch() { return FetchJobFiles(grant_, dir_ / "job", *cache_, {}); }

  TempDir dir_;
  FakeServer server_;
  std::unique_ptr<BlobCache> cache_;
  v1::DesiredJob grant_;
};

TEST_F(JobFilesTest, ModelsToMergeAreFetchedInOrder) {
  *grant_.add_merge() = server_.AddBlob("tile 0");
  *grant_.add_merge() = server_.AddBlob("tile 1");
  const auto files = Fetch();
  ASSERT_THAT(files, IsOk());
  ASSERT_EQ(files->merge.size(), 2u);
  EXPECT_THAT(ReadFile(files->merge[0], 100), IsOkAndHolds("tile 0"));
  EXPECT_THAT(ReadFile(files->merge[1], 100), IsOkAndHolds("tile 1"));
  EXPECT_EQ(files->resume + files->init, "");
  EXPECT_THAT(ReadFile(dir_ / "job/scene/transforms.json", 100), IsOkAndHolds("{}"));
}

TEST_F(JobFilesTest, ACheckpointComesBeforeModelsToMerge) {
  *grant_.add_merge() = server_.AddBlob("tile 0");
  *grant_.mutable_resume()->mutable_checkpoint_blob() = server_.AddBlob("merged");
  const auto files = Fetch();
  ASSERT_THAT(files, IsOk());
  EXPECT_TRUE(files->merge.empty());
  EXPECT_THAT(ReadFile(files->resume, 100), IsOkAndHolds("merged"));
}

TEST_F(JobFilesTest, AModelThatIsGoneFailsTheFetch) {
  v1::BlobRef gone;
  gone.set_sha256(std::string(64, 'a'));
  gone.set_size_bytes(5);
  *grant_.add_merge() = gone;
  EXPECT_FALSE(Fetch().ok());
}

}  // namespace
}  // namespace nerf
