#include "common/files/made_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

TEST(MadeFolderTest, EmptyFoldersThatItMadeGo) {
  TempDir dir;
  {
    const auto made = MadeFolder::Make(dir / "a/b/c/");
    ASSERT_THAT(made, IsOk());
    EXPECT_TRUE(fs::is_directory(dir / "a/b/c"));
  }
  EXPECT_FALSE(fs::exists(dir / "a"));
  EXPECT_TRUE(fs::exists(dir.path()));
}

TEST(MadeFolderTest, FoldersThatHoldSomethingStay) {
  TempDir dir;
  {
    const auto made = MadeFolder::Make(dir / "a/b");
    ASSERT_THAT(made, IsOk());
    dir.Write("a/file", "content");
  }
  EXPECT_FALSE(fs::exists(dir / "a/b"));
  EXPECT_TRUE(fs::exists(dir / "a/file"));
}

TEST(MadeFolderTest, FolderThatWasThereStaysEmpty) {
  TempDir dir;
  fs::create_directory(dir / "there");
  ASSERT_THAT(MadeFolder::Make(dir / "there"), IsOk());
  EXPECT_TRUE(fs::is_directory(dir / "there"));
}

TEST(MadeFolderTest, FileInTheWayIsNamedAndNothingIsMade) {
  TempDir dir;
  dir.Write("file", "content");
  EXPECT_THAT(MadeFolder::Make(dir / "file"),
              StatusIs(absl::StatusCode::kInvalidArgument, "file: is a file"));
  EXPECT_THAT(MadeFolder::Make(dir / "file/x/y"),
              StatusIs(absl::StatusCode::kInvalidArgument, "file: is a file"));
  EXPECT_TRUE(fs::exists(dir / "file"));
}

}  // namespace
}  // namespace nerf
