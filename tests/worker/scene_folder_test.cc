#include "worker/files/scene_folder.h"

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

TEST(SceneFolderTest, PathsThatLeaveTheSceneAreRefused) {
  for (const std::string path :
       {"", "/etc/passwd", "../a", "a/../../b", "a//b", "a/", "./a", "a/.", "..", "a\\b", "a\nb"}) {
    EXPECT_THAT(CheckScenePath(path), StatusIs(absl::StatusCode::kInvalidArgument)) << path;
  }
  EXPECT_THAT(CheckScenePath(std::string("a\0b", 3)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckScenePath(std::string(513, 'a')), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckScenePath("train/r_0.png"), IsOk());
  EXPECT_THAT(CheckScenePath("..a/b..c"), IsOk());
}

TEST(SceneFolderTest, MessagesNameNoFolderOfThisMachine) {
  EXPECT_EQ(WithoutFolder("/c/j/1/scene/a.png: cut off", "/c/j/1"), "a.png: cut off");
  const std::string here = fs::current_path().string();
  EXPECT_EQ(WithoutFolder("ffmpeg: file:" + here + "/c/j/1/a.mp4: no film", "c/j/1"),
            "ffmpeg: file:a.mp4: no film");
  EXPECT_EQ(WithoutFolder(absl::InternalError("read /c/blobs/ab: I/O error"), "/c/j/1").message(),
            "read ab: I/O error");
  EXPECT_EQ(WithoutFolder(absl::InvalidArgumentError("/mine/a.png: absolute"), "/c/j/1").message(),
            "/mine/a.png: absolute");
  for (const auto& [said, left] :
       {std::pair("open '/var/c/few.db' failed (code 14)", "open 'few.db' failed (code 14)"),
        {"--image_path=/var/c/images/, 7/8 of a/b and / or 3 / 4",
         "--image_path=images/, 7/8 of a/b and / or 3 / 4"},
        {"/usr/bin/colmap", "colmap"},
        {"run /nowhere: no such file", "run nowhere: no such file"},
        {"", ""}}) {
    EXPECT_EQ(WithoutPaths(said), left);
  }
}

class LayOutTest : public ::testing::Test {
 protected:
  LayOutTest() {
    fs::create_directories(dir_ / "blobs");
    cache_ = std::make_unique<BlobCache>(dir_ / "blobs", 1000, server_);
  }
  void Add(const std::string& path, const v1::BlobRef& blob) {
    v1::SceneManifestEntry* file = files_.Add();
    file->set_path(path);
    *file->mutable_blob() = blob;
  }
  absl::Status LayOut() { return LayOutScene(files_, dir_ / "scene", *cache_, {}); }

  TempDir dir_;
  FakeServer server_;
  std::unique_ptr<BlobCache> cache_;
  SceneManifest files_;
};

TEST_F(LayOutTest, FilesStandWhereTheManifestSaysAndMayShareABlob) {
  const v1::BlobRef blob = server_.AddBlob("image");
  Add("a.png", blob);
  Add("deep/er/b.png", blob);
  ASSERT_THAT(LayOut(), IsOk());
  EXPECT_THAT(ReadFile(dir_ / "scene/deep/er/b.png", 100), IsOkAndHolds("image"));
  EXPECT_EQ(server_.reads(), 1);
}

TEST_F(LayOutTest, TwoFilesOfOneNameOrAFileAsFolderAreRefused) {
  Add("a", server_.AddBlob("1"));
  Add("a", server_.AddBlob("2"));
  EXPECT_THAT(LayOut(), StatusIs(absl::StatusCode::kInvalidArgument));
  fs::remove_all(dir_ / "scene");
  files_.RemoveLast();
  Add("a/b", server_.AddBlob("2"));
  EXPECT_THAT(LayOut(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(LayOutTest, MissingBlobNamesItsFile) {
  v1::BlobRef blob = server_.AddBlob("x");
  blob.set_sha256(std::string(64, '0'));
  Add("train/r_0.png", blob);
  EXPECT_THAT(LayOut(), StatusIs(absl::StatusCode::kNotFound, "train/r_0.png"));
}

TEST(SceneFolderTest, FoldersOfTheWorkerAreLeftOut) {
  const std::string folder = "/cache/jobs/1";
  EXPECT_EQ(WithoutFolder("/cache/jobs/1/scene: a.png: bad", folder), "a.png: bad");
  EXPECT_EQ(WithoutFolder("open /cache/jobs/1/scene/a.png, /cache/jobs/1/out/x", folder),
            "open a.png, out/x");
  EXPECT_EQ(WithoutFolder("nothing in /cache/jobs/1/scene", folder), "nothing in the scene");
  EXPECT_EQ(WithoutFolder("no room", folder), "no room");
}

TEST(SceneFolderTest, OnlyRegularFilesInsideTheFolderAreBelieved) {
  TempDir dir;
  fs::create_directories(dir / "out/sub");
  fs::create_directories(dir / "outside");
  std::ofstream(dir / "out/sub/good") << "x";
  std::ofstream(dir / "outside/secret") << "x";
  fs::create_symlink(dir / "outside/secret", dir / "out/link");
  fs::create_directory_symlink(dir / "outside", dir / "out/door");
  EXPECT_THAT(CheckInsideFolder(dir / "out", dir / "out/sub/good"), IsOk());
  EXPECT_THAT(CheckInsideFolder(dir / "out", dir / "out/sub/../sub/good"), IsOk());
  for (const std::string& path :
       {dir / "outside/secret", dir / "out/../outside/secret", dir / "out/link",
        dir / "out/door/secret", dir / "out/sub", dir / "out/none", std::string(""),
        std::string("good"), std::string("/dev/null"), dir / "out"}) {
    EXPECT_THAT(CheckInsideFolder(dir / "out", path), StatusIs(absl::StatusCode::kPermissionDenied))
        << path;
  }
}

}  // namespace
}  // namespace nerf
