#include "engine/views/view_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(ViewFilesTest, OnlyFilesOfARenderAreNamed) {
  const TempDir dir;
  for (const char* name : {"rgb_0001.png", "rgbaz_1.exr", "depth_color_a.png", "opacity_0001.png",
                           "depth.json", "sheet.png", "notes.txt", "photo.jpg", "compare.jpg"}) {
    dir.Write(name, "x");
  }
  EXPECT_THAT(ViewFilesIn(dir / ""),
              ::testing::ElementsAre("depth.json", "depth_color_a.png", "opacity_0001.png",
                                     "rgb_0001.png", "rgbaz_1.exr", "sheet.png"));
  EXPECT_THAT(ViewFilesIn(dir / "none"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace nerf
