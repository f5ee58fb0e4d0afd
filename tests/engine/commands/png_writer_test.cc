#include "engine/output/png_writer.h"

#include <filesystem>

#include "engine/scene/image_io.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

ImageU8 Gray(uint8_t value) { return {5, 4, 3, std::vector<uint8_t>(5 * 4 * 3, value)}; }

class PngWriterTest : public testing::Test {
 protected:
  std::string PathOf(int i) const { return dir_.path() + "/" + std::to_string(i) + ".png"; }
  TempDir dir_;
};

TEST_F(PngWriterTest, EveryPictureIsInItsFileAfterFinish) {
  for (int n_threads : {1, 3}) {
    PngWriter writer(n_threads);
    for (int i = 0; i < 20; ++i) EXPECT_THAT(writer.Add(PathOf(i), Gray(i)), IsOk());
    EXPECT_THAT(writer.Finish(), IsOk());
    for (int i = 0; i < 20; ++i) {
      const absl::StatusOr<ImageU8> read = DecodeImage(PathOf(i));
      ASSERT_THAT(read.status(), IsOk());
      EXPECT_EQ(read->pixels, Gray(i).pixels);
      std::filesystem::remove(PathOf(i));
    }
  }
}

TEST_F(PngWriterTest, DestructorWritesWhatWaits) {
  {
    PngWriter writer(2);
    for (int i = 0; i < 8; ++i) EXPECT_THAT(writer.Add(PathOf(i), Gray(i)), IsOk());
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(std::filesystem::exists(PathOf(i))) << i;
}

TEST_F(PngWriterTest, FirstErrorIsReportedAndEndsTheWriting) {
  PngWriter writer(1);
  EXPECT_THAT(writer.Add(dir_.path() + "/no/such/folder.png", Gray(1)), IsOk());
  EXPECT_FALSE(writer.Finish().ok());
  EXPECT_FALSE(writer.Add(PathOf(1), Gray(1)).ok());
  EXPECT_FALSE(writer.Finish().ok());
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
}

}  // namespace
}  // namespace nerf
