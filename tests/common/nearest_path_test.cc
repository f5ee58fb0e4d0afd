#include "common/files/nearest_path.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class NearestPathTest : public ::testing::Test {
 protected:
  NearestPathTest() {
    std::filesystem::create_directories(dir_ / "data/mic");
    std::filesystem::create_directories(dir_ / "data/lego");
    std::ofstream(dir_ / "data/mic/camera_path.json") << "{}";
  }

  TempDir dir_;
};

TEST_F(NearestPathTest, OnePartMayBeMisspelled) {
  EXPECT_EQ(NearestPath(dir_ / "data/mci"), dir_ / "data/mic");
  EXPECT_EQ(NearestPath(dir_ / "dta/mic"), dir_ / "data/mic");
  EXPECT_EQ(NearestPath(dir_ / "data/mic/camrea_path.json"), dir_ / "data/mic/camera_path.json");
}

TEST_F(NearestPathTest, NothingIsSuggestedWhereNothingIsNear) {
  EXPECT_EQ(NearestPath(dir_ / "data/drums"), "");
  EXPECT_EQ(NearestPath(dir_ / "dta/mci"), "");
  EXPECT_EQ(NearestPath(dir_ / "data/mic"), "");
  EXPECT_EQ(NearestPath("/nonexistent-folder/x"), "");
  EXPECT_EQ(NearestPath(""), "");
}

TEST_F(NearestPathTest, ErrorsNameIt) {
  EXPECT_EQ(
      NoSuchFolder(dir_ / "data/mci").message(),
      (dir_ / "data/mci") + ": there is no such folder; did you mean " + (dir_ / "data/mic") + "?");
  const absl::Status other = absl::InternalError("broken");
  EXPECT_EQ(WithNearestPath(other, dir_ / "data/mci"), other);
  EXPECT_EQ(WithNearestPath(absl::NotFoundError("x"), dir_ / "data/mci").message(),
            "x; did you mean " + (dir_ / "data/mic") + "?");
}

}  // namespace
}  // namespace nerf
