// Pictures that are reduced while a data set is read.
#include "engine/scene/reduce_views.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

// Nine pictures of 80x60 with a left half in red and a right half in blue; the first is a test
// view.
void WriteReducedScene(const TempDir& dir) {
  ImageU8 image{.width = 80, .height = 60, .n_channels = 3, .pixels = {}};
  for (int i = 0; i < 80 * 60; ++i) {
    const bool left = i % 80 < 40;
    image.pixels.insert(image.pixels.end(), {uint8_t(left ? 200 : 0), 0, uint8_t(left ? 0 : 200)});
  }
  std::ofstream json(dir / "transforms.json");
  json << R"({"w": 80, "h": 60, "fl_x": 100, "fl_y": 100, "cx": 38, "cy": 31, "frames": [)";
  for (int i = 0; i < 9; ++i) {
    const std::string name = std::to_string(i) + ".png";
    ASSERT_THAT(WritePng(dir / name, image), IsOk());
    json << (i > 0 ? "," : "") << R"({"file_path": ")" << name
         << R"(", "transform_matrix": [[1,0,0,)" << i << "],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}";
  }
  json << "]}";
}

TEST(ReduceViewsTest, PicturesAndIntrinsicsAreReducedTogether) {
  const TempDir dir;
  WriteReducedScene(dir);
  SceneOptions options;
  options.max_side = 40;
  const auto scene = LoadScene(dir.path(), options);
  ASSERT_THAT(scene, IsOk());
  ASSERT_FALSE(scene->train.empty());
  const View& view = scene->train[0];
  EXPECT_EQ(view.camera.width, 40);
  EXPECT_EQ(view.camera.height, 30);
  EXPECT_EQ(view.camera.fl_x, 50);
  EXPECT_EQ(view.camera.cx, 19);
  EXPECT_EQ(view.image.width, 40);
  EXPECT_EQ(view.image.height, 30);
  EXPECT_EQ(view.image.Pixel(19, 10)[0], 200);
  EXPECT_EQ(view.image.Pixel(20, 10)[2], 200);
  EXPECT_EQ(scene->test[0].image.width, 40);
}

TEST(ReduceViewsTest, TestViewsHaveALimitOfTheirOwn) {
  const TempDir dir;
  WriteReducedScene(dir);
  SceneOptions options;
  options.max_test_pixels = 1200;
  options.decode_images = false;
  SceneDescription description = DescribeScene(dir.path(), options);
  EXPECT_EQ(description.train[0].camera.width, 80);
  EXPECT_EQ(description.test[0].camera.width, 40);
  EXPECT_EQ(description.image_bytes,
            3 * (80 * 60 * description.train.size() + 40 * 30 * description.test.size()));
  options.max_side = 20;
  const Reductions reductions = ReduceViews(options, &description);
  EXPECT_EQ(reductions.train.from.width, 80);
  EXPECT_EQ(reductions.train.to.height, 15);
  EXPECT_EQ(reductions.test.to.width, 20);
}

TEST(ReduceViewsTest, SceneKnowsTheSizeOfItsPicturesBeforeTheyWereReduced) {
  const TempDir dir;
  WriteReducedScene(dir);
  SceneOptions options;
  options.max_side = 20;
  const absl::StatusOr<Scene> scene = LoadScene(dir.path(), options);
  ASSERT_THAT(scene, IsOk());
  EXPECT_EQ(scene->picture_width, 80);
  EXPECT_EQ(scene->picture_height, 60);
  EXPECT_EQ(scene->train[0].camera.width, 20);
}

TEST(ReduceViewsTest, SmallPicturesStayAsTheyAre) {
  const TempDir dir;
  WriteReducedScene(dir);
  SceneOptions options;
  options.max_side = 80;
  SceneDescription description = DescribeScene(dir.path());
  EXPECT_EQ(ReduceViews(options, &description).train.from.width, 0);
  EXPECT_EQ(description.train[0].camera.width, 80);
}

}  // namespace
}  // namespace nerf
