// The picture of all views that `nerfctl render --sheet` writes.
#include "client/contact_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "common/atomic_file.h"
#include "common/error_reason.h"
#include "engine/scene/image_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;
using Color = std::array<int, 3>;

constexpr Color kWhite = {255, 255, 255};
constexpr int kGap = 4;

class ContactSheetTest : public testing::Test {
 protected:
  // A gray picture, lighter from file to file.
  std::string Add(int width, int height, int n_channels = 3) {
    const int gray = 10 * static_cast<int>(files_.size() + 1);
    ImageU8 image{.width = width, .height = height, .n_channels = n_channels, .pixels = {}};
    image.pixels.assign(size_t(width) * height * n_channels, static_cast<uint8_t>(gray));
    files_.push_back(dir_ / ("view-" + std::to_string(files_.size()) + ".png"));
    EXPECT_THAT(WritePng(files_.back(), image), IsOk());
    return files_.back();
  }
  ImageU8 Sheet() {
    EXPECT_THAT(WriteContactSheet(files_, path_), IsOk());
    const absl::StatusOr<ImageU8> sheet = DecodeImage(path_);
    EXPECT_THAT(sheet, IsOk());
    return sheet.ok() ? *sheet : ImageU8();
  }
  static Color At(const ImageU8& image, int x, int y) {
    const uint8_t* pixel = image.Pixel(x, y);
    return {pixel[0], pixel[1], pixel[2]};
  }
  static Color Gray(int level) { return {level, level, level}; }

  TempDir dir_;
  std::vector<std::string> files_;
  const std::string path_ = dir_ / "sheet.png";
};

TEST_F(ContactSheetTest, OneViewIsItsOwnSheet) {
  Add(7, 5);
  const ImageU8 sheet = Sheet();
  EXPECT_EQ(sheet.width, 7);
  EXPECT_EQ(sheet.height, 5);
  EXPECT_EQ(At(sheet, 0, 0), Gray(10));
  EXPECT_EQ(At(sheet, 6, 4), Gray(10));
}

TEST_F(ContactSheetTest, ViewsFillRowsInOrderWithWhiteBetweenAndAfterThem) {
  for (int i = 0; i < 5; ++i) Add(6, 3);
  const ImageU8 sheet = Sheet();
  ASSERT_EQ(sheet.width, 3 * 6 + 2 * kGap) << "five views stand in three columns";
  ASSERT_EQ(sheet.height, 2 * 3 + kGap);
  for (int i = 0; i < 6; ++i) {
    const int left = i % 3 * (6 + kGap), top = i / 3 * (3 + kGap);
    const Color expected = i < 5 ? Gray(10 * (i + 1)) : kWhite;
    for (const auto& [x, y] : {std::pair(0, 0), std::pair(5, 0), std::pair(0, 2), std::pair(5, 2)})
      EXPECT_EQ(At(sheet, left + x, top + y), expected) << i;
  }
  EXPECT_EQ(At(sheet, 6, 0), kWhite);
  EXPECT_EQ(At(sheet, 9, 2), kWhite);
  EXPECT_EQ(At(sheet, 0, 3), kWhite);
  EXPECT_EQ(At(sheet, 0, 6), kWhite);
}

TEST_F(ContactSheetTest, ManyViewsMakeASquareSheet) {
  for (int i = 0; i < 25; ++i) Add(1, 1);
  const ImageU8 sheet = Sheet();
  EXPECT_EQ(sheet.width, 5 + 4 * kGap);
  EXPECT_EQ(sheet.height, 5 + 4 * kGap);
  EXPECT_EQ(At(sheet, sheet.width - 1, sheet.height - 1), Gray(250));
}

TEST_F(ContactSheetTest, ViewsOfSeveralSizesShareTheLargestCell) {
  Add(2, 9);
  Add(8, 1);
  const ImageU8 sheet = Sheet();
  ASSERT_EQ(sheet.width, 2 * 8 + kGap);
  ASSERT_EQ(sheet.height, 9);
  EXPECT_EQ(At(sheet, 1, 8), Gray(10));
  EXPECT_EQ(At(sheet, 2, 0), kWhite);
  EXPECT_EQ(At(sheet, 8 + kGap, 0), Gray(20));
  EXPECT_EQ(At(sheet, 8 + kGap + 7, 0), Gray(20));
  EXPECT_EQ(At(sheet, 8 + kGap, 1), kWhite);
}

TEST_F(ContactSheetTest, AlphaIsIgnored) {
  Add(3, 3, /*n_channels=*/4);
  EXPECT_EQ(At(Sheet(), 1, 1), Gray(10));
}

TEST_F(ContactSheetTest, SheetBeyondTheLimitsIsRefusedBeforeItsPixelsAreMade) {
  // Two of these beside each other are wider than 16384 pixels.
  for (int i = 0; i < 2; ++i) Add(9000, 1);
  EXPECT_THAT(WriteContactSheet(files_, path_),
              FailsWith(StatusCode::kResourceExhausted, reason::kSizeLimit));
  EXPECT_FALSE(std::filesystem::exists(path_));
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
