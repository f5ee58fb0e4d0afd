#include "engine/scene/pictures/exif.h"

#include <gtest/gtest.h>

#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

TEST(ExifTest, TagsOfBothByteOrdersAreRead) {
  for (const bool is_big : {false, true}) {
    const ExifTags tags = ParseExif(MakeExif({.orientation = 6, .model = "Phone 3"}, is_big));
    EXPECT_EQ(tags.orientation, 6);
    EXPECT_EQ(tags.model, "Phone 3");
    EXPECT_EQ(tags.focal_length_35mm, 26);
  }
}

TEST(ExifTest, BlockOfAJpegIsFound) {
  const std::string exif = MakeExif({.orientation = 8});
  const std::string jpeg = WithExif(*EncodeJpeg(GradientImage(8, 6)), exif);
  EXPECT_EQ(FindExif(jpeg), exif);
  EXPECT_TRUE(DecodeImageBytes(jpeg).ok());
  EXPECT_EQ(FindExif(*EncodeJpeg(GradientImage(8, 6))), "");
  const std::string described = *EncodeJpeg(GradientImage(8, 6), 90, "<a packet>");
  EXPECT_EQ(FindExif(described), "") << "XMP is no EXIF";
  EXPECT_EQ(DecodeImageBytes(described)->pixels,
            DecodeImageBytes(*EncodeJpeg(GradientImage(8, 6)))->pixels);
}

TEST(ExifTest, TakenOffOrientationLeavesTheOtherTags) {
  for (const bool is_big : {false, true}) {
    const std::string exif = MakeExif({.orientation = 6, .model = "Phone 3"}, is_big);
    const ExifTags tags = ParseExif(WithoutOrientation(exif));
    EXPECT_EQ(tags.orientation, 1);
    EXPECT_EQ(tags.model, "Phone 3");
    EXPECT_EQ(tags.focal_length_35mm, 26);
    EXPECT_EQ(WithoutOrientation(exif).size(), exif.size());
  }
}

TEST(ExifTest, EveryOrientationIsTakenOff) {
  for (const bool is_big : {false, true}) {
    std::string exif = MakeExif({.orientation = 6}, is_big);
    // The first entry, of the model, becomes another orientation: 8.
    const std::string entry = is_big ? std::string("\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 12)
                                     : std::string("\x12\x01\x03\0\x01\0\0\0\x08\0\0\0", 12);
    exif.replace(6 + 8 + 2, entry.size(), entry);
    ASSERT_EQ(ParseExif(exif).orientation, 6);
    const ExifTags tags = ParseExif(WithoutOrientation(exif));
    EXPECT_EQ(tags.orientation, 1);
    EXPECT_EQ(tags.focal_length_35mm, 26);
  }
}

TEST(ExifTest, OrientationOutOfRangeIsIgnored) {
  EXPECT_EQ(ParseExif(MakeExif({.orientation = 0})).orientation, 1);
  EXPECT_EQ(ParseExif(MakeExif({.orientation = 9})).orientation, 1);
  EXPECT_EQ(ParseExif(MakeExif({.orientation = 65535})).orientation, 1);
}

// Every block that is cut off, and every block with one byte changed: nothing is read out of
// bounds.
TEST(ExifTest, DamagedBlocksAreReadAsFarAsTheyGo) {
  const std::string exif = MakeExif({.orientation = 6, .model = "Phone 3"});
  for (size_t size = 0; size < exif.size(); ++size) {
    ParseExif(exif.substr(0, size));
    EXPECT_EQ(WithoutOrientation(exif.substr(0, size)).size(), size);
  }
  for (size_t at = 0; at < exif.size(); ++at) {
    for (const char value : {'\0', '\xff', '\x7f', '\x01'}) {
      std::string changed = exif;
      changed[at] = value;
      ParseExif(changed);
      EXPECT_EQ(WithoutOrientation(changed).size(), exif.size());
    }
  }
}

TEST(ExifTest, FolderThatNamesItselfEnds) {
  std::string exif = MakeExif({.orientation = 6});
  // The pointer to the nested folder leads back to the first one.
  const size_t at = exif.find(std::string("\x69\x87", 2));
  ASSERT_NE(at, std::string::npos);
  exif[at + 8] = 8;
  exif[at + 9] = 0;
  EXPECT_EQ(ParseExif(exif).orientation, 6);
}

// A second folder describes the thumbnail that the camera embedded.
TEST(ExifTest, OrientationOfTheThumbnailIsNotThePictures) {
  std::string exif = MakeExif({.orientation = 1});
  const size_t next = 6 + 8 + 2 + 3 * 12;  // behind the three entries of the first folder
  exif[next] = static_cast<char>(exif.size() - 6);
  exif +=
      std::string("\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00", 18);
  EXPECT_EQ(ParseExif(exif).orientation, 1);
}

TEST(ExifTest, OrientationThatIsNoNumberIsIgnored) {
  std::string exif = MakeExif({.orientation = 6});
  const size_t entry = exif.find(std::string("\x12\x01", 2));
  ASSERT_NE(entry, std::string::npos);
  exif[entry + 2] = 2;  // says that it is text
  EXPECT_EQ(ParseExif(exif).orientation, 1);
}

TEST(ExifTest, BlockOfTheLargestSizeIsRead) {
  std::string exif = MakeExif({.orientation = 6, .model = "Phone 3"});
  exif.resize(65'533, 'x');  // a segment's length has 16 bits and counts its own two bytes
  const std::string jpeg = WithExif(*EncodeJpeg(GradientImage(8, 6)), exif);
  EXPECT_EQ(ParseExif(FindExif(jpeg)).orientation, 6);
  EXPECT_EQ(ParseExif(WithoutOrientation(exif)).orientation, 1);
}

TEST(ExifTest, BlockBehindOtherSegmentsIsFound) {
  const std::string exif = MakeExif({.orientation = 3});
  const std::string jpeg = WithExif(*EncodeJpeg(GradientImage(8, 6)), exif);
  // XMP lies in a segment of the same number.
  const std::string xmp = "http://ns.adobe.com/xap/1.0/" + std::string(1, '\0') + "<x/>";
  const std::string head = std::string("\xff\xe1\x00", 3) + static_cast<char>(xmp.size() + 2);
  EXPECT_EQ(FindExif(jpeg.substr(0, 2) + head + xmp + jpeg.substr(2)), exif);
}

TEST(ExifTest, HugeCountsAreBounded) {
  std::string exif = MakeExif({.orientation = 6, .model = "Phone 3"});
  const size_t folder = 6 + 8;
  exif[folder] = exif[folder + 1] = '\xff';  // 65535 entries
  EXPECT_EQ(ParseExif(exif).orientation, 6);
  WithoutOrientation(exif);
}

TEST(ExifTest, SegmentThatIsTooLongIsLeftOut) {
  const std::string jpeg = *EncodeJpeg(GradientImage(8, 6));
  EXPECT_EQ(WithExif(jpeg, std::string(70'000, 'x')), jpeg);
}

TEST(ExifTest, FilesThatAreNoJpegHaveNoBlock) {
  EXPECT_EQ(FindExif(""), "");
  EXPECT_EQ(FindExif("\xff\xd8\xff"), "");
  EXPECT_EQ(FindExif(std::string("\xff\xd8\xff\xe1\xff\xff"
                                 "Exif\0\0",
                                 12)),
            "");
  EXPECT_EQ(FindExif(std::string(1000, '\xff')), "");
}

// A picture of 3 x 2: the red channel numbers its pixels row by row.
TEST(UprightTest, AllOrientationsShowThePictureUpright) {
  ImageU8 image;
  image.width = 3;
  image.height = 2;
  image.n_channels = 1;
  image.pixels = {0, 1, 2, 3, 4, 5};
  const auto turned = [&](int orientation) { return Upright(image, orientation).pixels; };
  using Pixels = std::vector<uint8_t>;
  EXPECT_EQ(turned(1), (Pixels{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(turned(2), (Pixels{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(turned(3), (Pixels{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(turned(4), (Pixels{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(turned(5), (Pixels{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(turned(6), (Pixels{3, 0, 4, 1, 5, 2}));  // a quarter clockwise
  EXPECT_EQ(turned(7), (Pixels{5, 2, 4, 1, 3, 0}));
  EXPECT_EQ(turned(8), (Pixels{2, 5, 1, 4, 0, 3}));
  EXPECT_EQ(Upright(image, 6).width, 2);
}

// Four photographs of 40x30 that lie on their side, with intrinsics for `w` x `h`.
void WriteSideways(const TempFolder& folder, int orientation, int w, int h) {
  std::string frames;
  for (int i = 0; i < 4; ++i) {
    const std::string file = std::to_string(i) + ".jpg";
    folder.Write(
        file, WithExif(*EncodeJpeg(GradientImage(40, 30)), MakeExif({.orientation = orientation})));
    frames += (i == 0 ? "" : ",") + FrameJson(file, i, 0, 4);
  }
  folder.Write("transforms.json", R"({"fl_x":50,"w":)" + std::to_string(w) + R"(,"h":)" +
                                      std::to_string(h) + R"(,"frames":[)" + frames + "]}");
}

TEST(ExifTest, PicturesThatTheFlagTurnedAwayFromTheirIntrinsicsNameTheFlag) {
  const TempFolder folder;
  WriteSideways(folder, 6, 40, 30);
  EXPECT_TRUE(DescribeScene(folder.path()).ok());
  SceneOptions options;
  options.reading.apply_exif = true;
  const SceneDescription scene = DescribeScene(folder.path(), options);
  ASSERT_EQ(scene.problems.size(), 1u) << SummaryOf(scene.problems);
  EXPECT_EQ(ToString(scene.problems[0]),
            "0.jpg: EXIF orientation: 4 pictures turned upright by --apply-exif, and the "
            "intrinsics are for the pictures as they are stored: leave out --apply-exif (setting "
            "apply_exif=0)");
}

TEST(ExifTest, PhotographsOnTheirSideAreOneProblemThatNamesExif) {
  const TempFolder folder;
  WriteSideways(folder, 6, 30, 40);
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_EQ(scene.problems.size(), 1u) << SummaryOf(scene.problems);
  EXPECT_EQ(ToString(scene.problems[0]),
            "0.jpg: EXIF orientation: 4 pictures lie on their side, and the intrinsics are for the "
            "upright ones: --apply-exif (setting apply_exif=1) turns them by their EXIF "
            "orientation");
  SceneOptions options;
  options.reading.apply_exif = true;
  const auto upright = LoadScene(folder.path(), options);
  ASSERT_TRUE(upright.ok()) << upright.status();
  EXPECT_TRUE(DescribeScene(folder.path(), options).ok());
  const View& view = upright->train[0];
  EXPECT_EQ(view.camera.width, 30);
  EXPECT_EQ(view.camera.height, 40);
  EXPECT_EQ(view.image.width, 30);
  // Turned clockwise, what was at the lower left is at the upper left.
  EXPECT_LT(view.image.Pixel(1, 1)[0], 40);
  EXPECT_GT(view.image.Pixel(1, 1)[1], 200);
}

TEST(ExifTest, OrientationIsNoCauseWhereNothingLiesOnItsSide) {
  const TempFolder folder;
  WriteSideways(folder, 6, 40, 30);
  EXPECT_TRUE(DescribeScene(folder.path()).ok()) << "poses for the pixels as they lie";
  WriteSideways(folder, 1, 30, 40);
  EXPECT_NE(SummaryOf(DescribeScene(folder.path()).problems).find("EXIF does not say so"),
            std::string::npos)
      << "no orientation";
  WriteSideways(folder, 6, 50, 40);
  EXPECT_NE(SummaryOf(DescribeScene(folder.path()).problems).find("another aspect ratio"),
            std::string::npos)
      << "neither shape";
  WriteSideways(folder, 3, 40, 30);  // upside down
  SceneOptions options;
  options.reading.apply_exif = true;
  const auto upright = LoadScene(folder.path(), options);
  ASSERT_TRUE(upright.ok()) << upright.status();
  EXPECT_GT(upright->train[0].image.Pixel(1, 1)[0], 200);
}

}  // namespace
}  // namespace nerf
