#include "engine/program/written_views/picture_writer.h"

#include "common/files/file_io.h"
#include "engine/scene/pictures/exr_codec.h"

#include <filesystem>

#include "engine/scene/pictures/image_io.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

ImageU8 Gray(uint8_t value) { return {5, 4, 3, std::vector<uint8_t>(5 * 4 * 3, value)}; }

class PictureWriterTest : public testing::Test {
 protected:
  std::string PathOf(int i) const { return dir_.path() + "/" + std::to_string(i) + ".png"; }
  TempDir dir_;
};

TEST_F(PictureWriterTest, EveryPictureIsInItsFileAfterFinish) {
  for (int n_threads : {1, 3}) {
    PictureWriter writer(n_threads);
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

TEST_F(PictureWriterTest, NamesThatEndSoGetExr) {
  const std::string path = dir_.path() + "/a.exr";
  PictureWriter writer(1);
  EXPECT_THAT(writer.Add(path, Gray(7)), IsOk());
  EXPECT_THAT(writer.Finish(), IsOk());
  EXPECT_EQ(ReadFile(path, 1 << 20), EncodeExrPicture(Gray(7)));
}

TEST_F(PictureWriterTest, DestructorWritesWhatWaits) {
  {
    PictureWriter writer(2);
    for (int i = 0; i < 8; ++i) EXPECT_THAT(writer.Add(PathOf(i), Gray(i)), IsOk());
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(std::filesystem::exists(PathOf(i))) << i;
}

TEST_F(PictureWriterTest, FirstErrorIsReportedAndEndsTheWriting) {
  PictureWriter writer(1);
  EXPECT_THAT(writer.Add(dir_.path() + "/no/such/folder.png", Gray(1)), IsOk());
  EXPECT_FALSE(writer.Finish().ok());
  EXPECT_FALSE(writer.Add(PathOf(1), Gray(1)).ok());
  EXPECT_FALSE(writer.Finish().ok());
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
}

}  // namespace
}  // namespace nerf
