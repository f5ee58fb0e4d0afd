#include "engine/views/view_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

ImageU8 GrayView(int width, int height, uint8_t level) {
  ImageU8 image{width, height, 3, {}};
  image.pixels.assign(size_t(width) * height * 3, level);
  return image;
}

TEST(ViewComparisonTest, RowsHoldPhotographViewAndDifference) {
  TempDir dir;
  ViewComparison comparison;
  EXPECT_THAT(comparison.Write(dir / "c.png"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_NEAR(comparison.Add(GrayView(90, 60, 100), GrayView(90, 60, 110), "images/a.jpg"), 28.13,
              0.01);
  comparison.Add(GrayView(90, 60, 50), GrayView(90, 60, 50), "b.jpg");
  ASSERT_THAT(comparison.Write(dir / "c.png"), IsOk());
  const auto sheet = DecodeImage(dir / "c.png");
  ASSERT_THAT(sheet, IsOk());
  EXPECT_EQ(sheet->width, 3 * 90 + 2 * 4);
  EXPECT_EQ(sheet->height, 2 * 60 + 4);
  EXPECT_EQ(sheet->Pixel(5, 30)[0], 100);
  EXPECT_EQ(sheet->Pixel(99, 30)[0], 110);
  EXPECT_EQ(sheet->Pixel(270, 55)[0], 30) << "three times the difference";
}

// White letters of the name on black stand in the photograph alone.
TEST(ViewComparisonTest, PhotographsCarryTheirNames) {
  TempDir dir;
  const auto white_of = [&](const std::string& name, int width, int first_column) {
    ViewComparison comparison;
    comparison.Add(GrayView(width, 60, 100), GrayView(width, 60, 100), name);
    EXPECT_THAT(comparison.Write(dir / "c.png"), IsOk());
    const ImageU8 sheet = DecodeImage(dir / "c.png").value();
    int n = 0;
    for (int y = 0; y < 20; ++y) {
      for (int x = 0; x < width; ++x) n += sheet.Pixel(first_column + x, y)[0] == 255;
    }
    return n;
  };
  EXPECT_EQ(white_of("images/l1.jpg", 90, 0), white_of("l1.jpg", 90, 0));
  EXPECT_GT(white_of("l1.jpg", 90, 0), 30);
  EXPECT_GT(white_of("l11.jpg", 90, 0), white_of("l1.jpg", 90, 0));
  EXPECT_EQ(white_of("l1.jpg", 90, 94), 0) << "the view";
  EXPECT_EQ(white_of("", 90, 0), 0);
  EXPECT_EQ(white_of("l1.jpg", 3, 0), 0) << "no room";
  EXPECT_GT(white_of(std::string(5000, 'x'), 90, 0), 30);
}

TEST(NameInPictureTest, LongNamesKeepTheirEnds) {
  EXPECT_EQ(NameInPicture("a/b/IMG_0012.jpg", 20), "IMG_0012.jpg");
  EXPECT_EQ(NameInPicture("a/IMG_20240131_100000.jpg", 14), "IMG_..0000.jpg");
  EXPECT_EQ(NameInPicture("abcdef", 3), "..f");
  EXPECT_EQ(NameInPicture("abcdef", 2), "");
  EXPECT_EQ(NameInPicture("B\xc3\xa4r\n\x7f.png", 20), "B?r??.png");
  EXPECT_EQ(NameInPicture("dir/", 20), "");
}

// A photograph whose left half is black, which EXIF turns clockwise: the upper half of the view.
TEST(ViewComparisonTest, PhotographsAreTurnedUprightWhereTheModelsWere) {
  TempDir dir;
  ImageU8 image = GrayView(40, 20, 200);
  for (int y = 0; y < 20; ++y) std::fill_n(image.pixels.begin() + int64_t{y} * 120, 60, uint8_t{0});
  const std::string jpeg = WithExif(*EncodeJpeg(image), MakeExif({.orientation = 6}));
  dir.Write("a.jpg", jpeg);
  const auto upright = PhotographAs(dir / "a.jpg", 10, 20, {0, 0, 0}, /*apply_exif=*/true);
  ASSERT_THAT(upright, IsOk());
  EXPECT_LT(upright->Pixel(8, 2)[0], 20);
  EXPECT_GT(upright->Pixel(1, 17)[0], 180);
  const auto as_it_lies = PhotographAs(dir / "a.jpg", 20, 10, {0, 0, 0});
  ASSERT_THAT(as_it_lies, IsOk());
  EXPECT_LT(as_it_lies->Pixel(2, 8)[0], 20);
  EXPECT_GT(as_it_lies->Pixel(17, 1)[0], 180);
}

}  // namespace
}  // namespace nerf
