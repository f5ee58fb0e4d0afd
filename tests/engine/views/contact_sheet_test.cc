#include "engine/views/contact_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/atomic_file.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;
using Sizes = std::vector<std::pair<int, int>>;

// Every cell lies in the sheet, none overlaps another, and rows reach from side to side.
void ExpectFull(const SheetLayout& layout) {
  int64_t covered = 0;
  for (size_t i = 0; i < layout.cells.size(); ++i) {
    const SheetCell& cell = layout.cells[i];
    EXPECT_GE(cell.x, 0);
    EXPECT_GE(cell.y, 0);
    EXPECT_LE(cell.x + cell.width, layout.width);
    EXPECT_LE(cell.y + cell.height, layout.height);
    covered += int64_t{cell.width} * cell.height;
    const bool ends_row = i + 1 == layout.cells.size() || layout.cells[i + 1].y != cell.y;
    if (ends_row) {
      EXPECT_EQ(cell.x + cell.width, layout.width) << "an empty cell behind " << i;
    }
  }
  EXPECT_LE(covered, int64_t{layout.width} * layout.height);
  EXPECT_LE(layout.width, 2400);
  EXPECT_LE(double(layout.width) * layout.height, 12.1e6);
}

TEST(SheetLayoutTest, NoCountLeavesAnEmptyCell) {
  for (int n = 1; n <= 40; ++n) {
    SCOPED_TRACE(n);
    ExpectFull(LayOutSheet(Sizes(static_cast<size_t>(n), {1600, 900})));
    ExpectFull(LayOutSheet(Sizes(static_cast<size_t>(n), {270, 480})));
  }
}

TEST(SheetLayoutTest, SmallPicturesKeepTheirSize) {
  const SheetLayout layout = LayOutSheet(Sizes(6, {100, 100}));
  EXPECT_EQ(layout.cells[0].width, 100);
  EXPECT_EQ(layout.cells[0].height, 100);
  EXPECT_EQ(layout.cells[5].width, 100);
}

TEST(SheetLayoutTest, MixedAndExtremeShapesFit) {
  ExpectFull(LayOutSheet({{400, 300}, {300, 400}, {1000, 200}, {50, 50}, {640, 480}}));
  EXPECT_EQ(LayOutSheet({{1, 16384}, {16384, 1}, {1, 1}}).cells.size(), 3u);
  EXPECT_TRUE(LayOutSheet({}).cells.empty());
}

TEST(SheetLayoutTest, RowsThatAreAskedFor) {
  const SheetLayout layout = LayOutSheet(Sizes(6, {100, 100}), 3);
  ExpectFull(layout);
  EXPECT_EQ(layout.cells[0].y, layout.cells[1].y);
  EXPECT_LT(layout.cells[1].y, layout.cells[2].y);
  EXPECT_EQ(layout.cells[2].x, layout.cells[0].x);
}

class ContactSheetTest : public testing::Test {
 protected:
  // A picture of one gray, which grows from file to file.
  void Add(int width, int height, int n_channels = 3) {
    const int gray = 10 * static_cast<int>(files_.size() + 1);
    ImageU8 image{.width = width, .height = height, .n_channels = n_channels, .pixels = {}};
    image.pixels.assign(size_t(width) * height * n_channels, static_cast<uint8_t>(gray));
    files_.push_back(dir_ / ("view-" + std::to_string(files_.size()) + ".png"));
    EXPECT_THAT(WritePng(files_.back(), image), IsOk());
  }
  ImageU8 Sheet() {
    EXPECT_THAT(WriteContactSheet(files_, path_), IsOk());
    const absl::StatusOr<ImageU8> sheet = DecodeImage(path_);
    EXPECT_THAT(sheet, IsOk());
    return sheet.ok() ? *sheet : ImageU8();
  }

  TempDir dir_;
  std::vector<std::string> files_;
  const std::string path_ = dir_ / "sheet.png";
};

TEST_F(ContactSheetTest, OneViewIsItsOwnSheet) {
  Add(7, 5, /*n_channels=*/4);
  const ImageU8 sheet = Sheet();
  EXPECT_EQ(sheet.width, 7);
  EXPECT_EQ(sheet.height, 5);
  EXPECT_EQ(sheet.Pixel(6, 4)[0], 245) << "10 with an alpha of 10, on white";
}

TEST_F(ContactSheetTest, ViewsStandInOrderWithWhiteBetweenThem) {
  for (int i = 0; i < 6; ++i) Add(60, 60);
  const ImageU8 sheet = Sheet();
  ASSERT_EQ(sheet.width, 3 * 60 + 2 * 4);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(sheet.Pixel(i % 3 * 64 + 30, i / 3 * 64 + 30)[0], 10 * (i + 1));
  }
  EXPECT_EQ(sheet.Pixel(61, 30)[0], 255);
}

TEST_F(ContactSheetTest, HasNoMoreRowsThanPictures) {
  for (int i = 0; i < 3; ++i) Add(60, 60);
  ASSERT_THAT(WriteContactSheet(files_, path_, 129), IsOk());
  const absl::StatusOr<ImageU8> sheet = DecodeImage(path_);
  ASSERT_THAT(sheet, IsOk());
  EXPECT_EQ(sheet->width, 60);
  EXPECT_GE(sheet->height, 180);
}

TEST_F(ContactSheetTest, LargeViewsAreReduced) {
  for (int i = 0; i < 2; ++i) Add(9000, 20);
  EXPECT_LE(Sheet().width, 2400);
}

TEST_F(ContactSheetTest, BadFilesAreNamedAndNothingIsWritten) {
  EXPECT_THAT(WriteContactSheet({}, path_), StatusIs(StatusCode::kInvalidArgument));
  Add(2, 2);
  files_.push_back(dir_ / "none.png");
  EXPECT_THAT(WriteContactSheet(files_, path_), StatusIs(StatusCode::kNotFound, "none.png"));
  ASSERT_THAT(WriteFileAtomically(dir_ / "none.png", "no picture"), IsOk());
  EXPECT_THAT(WriteContactSheet(files_, path_), StatusIs(StatusCode::kInvalidArgument, "none.png"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace nerf
