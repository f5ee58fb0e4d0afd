#include "engine/views/view_comparison.h"

#include <gtest/gtest.h>

#include "engine/scene/image_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

ImageU8 Gray(int width, int height, uint8_t level) {
  ImageU8 image{width, height, 3, {}};
  image.pixels.assign(size_t(width) * height * 3, level);
  return image;
}

TEST(ViewComparisonTest, RowsHoldPhotographViewAndDifference) {
  TempDir dir;
  ViewComparison comparison;
  EXPECT_THAT(comparison.Write(dir / "c.png"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_NEAR(comparison.Add(Gray(90, 60, 100), Gray(90, 60, 110)), 28.13, 0.01);
  comparison.Add(Gray(90, 60, 50), Gray(90, 60, 50));
  ASSERT_THAT(comparison.Write(dir / "c.png"), IsOk());
  const auto sheet = DecodeImage(dir / "c.png");
  ASSERT_THAT(sheet, IsOk());
  EXPECT_EQ(sheet->width, 3 * 90 + 2 * 4);
  EXPECT_EQ(sheet->height, 2 * 60 + 4);
  EXPECT_EQ(sheet->Pixel(5, 30)[0], 100);
  EXPECT_EQ(sheet->Pixel(99, 30)[0], 110);
  EXPECT_EQ(sheet->Pixel(270, 55)[0], 30) << "three times the difference";
}

}  // namespace
}  // namespace nerf
