#include "engine/scene/posing/photographs/photographs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <utility>

#include "common/files/file_io.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/photographs/photo_measures.h"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PhotographsTest : public ::testing::Test {
 protected:
  PhotographsTest() {
    std::filesystem::create_directories(out_);
    std::filesystem::create_directories(masks_);
  }

  void WriteJpeg(const std::string& name, const ImageU8& image, const std::string& exif = "") {
    dir_.Write("in/" + name, WithExif(*EncodeJpeg(image, 90), exif));
  }

  // A gray mask of 0 to 255.
  void WriteMask(const std::string& name, int width, int height,
                 const std::function<int(int x, int y)>& value) {
    ImageU8 mask{width, height, 1, {}};
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) mask.pixels.push_back(static_cast<uint8_t>(value(x, y)));
    dir_.Write("in/masks/" + name, *EncodePng(mask));
  }

  absl::StatusOr<std::vector<Photo>> Try() {
    const auto sources = ListPhotoSources(dir_ / "in");
    EXPECT_THAT(sources, IsOk());
    PrepareOptions options;
    options.pool = &pool_;
    options.masks = masks_;
    return PreparePhotos(sources->pictures, out_, options);
  }
  std::vector<Photo> Prepare() {
    auto photos = Try();
    EXPECT_THAT(photos, IsOk());
    return *std::move(photos);
  }
  std::set<std::string> MaskNames() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(masks_))
      names.insert(entry.path().filename());
    return names;
  }

  TempDir dir_;
  ThreadPool pool_{2};
  const std::string out_ = dir_ / "out", masks_ = dir_ / "out_masks";
};

TEST_F(PhotographsTest, TurnedPictureIsTurnedUprightAndItsTagTakenOff) {
  WriteJpeg("a.jpg", GradientImage(32, 20), MakeExif({.orientation = 6, .model = "Phone"}));
  const std::vector<Photo> photos = Prepare();
  EXPECT_EQ(photos[0].width, 20);
  EXPECT_EQ(photos[0].height, 32);
  const std::string written = *ReadFile(out_ + "/a.jpg", 1 << 20);
  EXPECT_EQ(ParseExif(FindExif(written)).orientation, 1);
  EXPECT_EQ(ParseExif(FindExif(written)).model, "Phone");
  const ImageU8 image = *DecodeImageBytes(written);
  ASSERT_EQ(image.width, 20);
  // What was at the bottom left is at the top left now.
  EXPECT_NEAR(image.Pixel(1, 1)[1], 240, 15);
  EXPECT_NEAR(image.Pixel(1, 1)[0], 5, 15);
}

TEST_F(PhotographsTest, UprightPictureIsCopiedByteForByte) {
  WriteJpeg("a.jpg", GradientImage(32, 20), MakeExif({.orientation = 1}));
  Prepare();
  EXPECT_EQ(*ReadFile(out_ + "/a.jpg", 1 << 20), *ReadFile(dir_ / "in/a.jpg", 1 << 20));
}

TEST_F(PhotographsTest, DamagedPictureIsNamedAndTheOthersAreUsed) {
  WriteJpeg("a.jpg", TexturedImage(64, 48, 1));
  dir_.Write("in/b.jpg", "no picture");
  const std::vector<Photo> photos = Prepare();
  ASSERT_EQ(photos.size(), 2u);
  EXPECT_EQ(photos[0].error, "");
  EXPECT_NE(photos[1].error, "");
  EXPECT_EQ(photos[1].file, "");
  EXPECT_FALSE(std::filesystem::exists(out_ + "/b.jpg"));
}

TEST_F(PhotographsTest, DoublesAreLeftOut) {
  WriteJpeg("a.jpg", TexturedImage(300, 240, 1));
  WriteJpeg("b.jpg", TexturedImage(300, 240, 2));
  dir_.Write("in/c.jpg", *EncodeJpeg(TexturedImage(300, 240, 1), 70));  // saved anew
  const std::vector<Photo> photos = Prepare();
  EXPECT_EQ(photos[1].double_of, "");
  EXPECT_EQ(photos[2].double_of, "a.jpg");
  EXPECT_FALSE(std::filesystem::exists(out_ + "/c.jpg"));
}

// As a request makes them that names one photograph often.
TEST_F(PhotographsTest, LinksToOneFileAreReadOnce) {
  WriteJpeg("a.jpg", TexturedImage(300, 240, 1));
  dir_.Write("in/x.jpg", "no picture");
  for (const char* name : {"b.jpg", "c.jpg"}) {
    std::filesystem::create_hard_link(dir_ / "in/a.jpg", (dir_ / "in/") + name);
  }
  std::filesystem::create_hard_link(dir_ / "in/x.jpg", dir_ / "in/y.jpg");
  EXPECT_EQ(FirstLinks(ListPhotoSources(dir_ / "in")->pictures),
            (std::vector<size_t>{0, 0, 0, 3, 3}));
  const std::vector<Photo> photos = Prepare();
  EXPECT_EQ(photos[1].double_of, "a.jpg");
  EXPECT_EQ(photos[2].double_of, "a.jpg");
  EXPECT_EQ(photos[2].name, "c.jpg");
  EXPECT_NE(photos[4].error, "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out_), {}), 1);
}

TEST_F(PhotographsTest, MasksAreTurnedAndScaledWithTheirPictures) {
  const auto turned = MakeExif({.orientation = 6, .model = "Phone"});
  WriteJpeg("a b.jpg", TexturedImage(64, 48, 1), turned);
  WriteJpeg("c.jpg", TexturedImage(64, 48, 2), turned);
  WriteJpeg("d.jpg", TexturedImage(64, 48, 3));
  // As the file holds the picture, at half its size: black in the upper half.
  WriteMask("a b.jpg.png", 32, 24, [](int, int y) { return y < 12 ? 0 : 1; });
  // As the picture is shown.
  WriteMask("c.png", 48, 64, [](int, int y) { return y < 32 ? 0 : 255; });
  const std::vector<Photo> photos = Prepare();
  ASSERT_THAT(MaskNames(), ElementsAre("a_b.jpg.png", "c.jpg.png"));
  const ImageU8 first = *DecodeImage(masks_ + "/a_b.jpg.png");
  ASSERT_EQ(std::pair(first.width, first.height), std::pair(48, 64));
  EXPECT_EQ(first.Pixel(10, 32)[0], 255) << "what was below is to the left";
  EXPECT_EQ(first.Pixel(38, 32)[0], 0);
  const ImageU8 second = *DecodeImage(masks_ + "/c.jpg.png");
  EXPECT_EQ(second.Pixel(24, 10)[0], 0);
  EXPECT_EQ(second.Pixel(24, 54)[0], 255);
  EXPECT_EQ(photos[1].mask_use.kept, 0.5 * 48 * 64);
}

TEST_F(PhotographsTest, MasksOfPicturesInImagesLieBesideThat) {
  WriteJpeg("images/a.jpg", TexturedImage(64, 48, 1));
  WriteMask("a.PNG", 64, 48, [](int x, int) { return x < 8 ? 0 : 255; });
  WriteMask("other.png", 64, 48, [](int, int) { return 0; });
  Prepare();
  EXPECT_THAT(MaskNames(), ElementsAre("a.jpg.png"));
}

TEST_F(PhotographsTest, MasksThatDoNotFitAreNamed) {
  const auto refuses = [&](const std::string& words) {
    EXPECT_THAT(Try().status(), StatusIs(absl::StatusCode::kInvalidArgument, words));
  };
  WriteJpeg("a.jpg", TexturedImage(64, 48, 1));
  WriteMask("a.png", 64, 64, [](int, int) { return 255; });
  refuses("masks/a.png: is 64x64, its picture 64x48");
  dir_.Write("in/masks/a.png", "no picture");
  refuses("masks/a.png: ");
  WriteMask("a.png", 64, 48, [](int, int) { return 0; });
  refuses("all of them are black");
  WriteMask("a.png", 64, 48, [](int, int) { return 255; });
  dir_.Write("in/a.jpg", *EncodePng({64, 48, 4, std::vector<uint8_t>(64 * 48 * 4, 128)}));
  refuses("picture with alpha");
  dir_.Write("in/b.png", *EncodePng({64, 48, 4, std::vector<uint8_t>(64 * 48 * 4, 128)}));
  WriteJpeg("a.jpg", TexturedImage(64, 48, 1));
  refuses("b.png: has alpha, and others have masks");
}

TEST_F(PhotographsTest, MaskOfTwoPhotographsIsRefusedUnlessTheyAreDoubles) {
  WriteJpeg("a.jpg", TexturedImage(64, 48, 1));
  dir_.Write("in/a.png", *EncodePng(TexturedImage(64, 48, 1)));
  WriteMask("a.png", 64, 48, [](int x, int) { return x < 8 ? 0 : 255; });
  Prepare();
  EXPECT_THAT(MaskNames(), ElementsAre("a.jpg.png"));
  dir_.Write("in/a.png", *EncodePng(TexturedImage(64, 48, 2)));
  EXPECT_THAT(Try().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "masks/a.png: may belong to a.jpg or to a.png: name it a.jpg.png or "
                       "a.png.png"));
}

// A mask a.jpg.png is found for a.jpg by its name and for a.jpg.jpg by its stem.
TEST(PhotoNamesTest, NoNameIsAnothersStem) {
  PhotoNames names;
  names.Add("a.jpg");
  EXPECT_FALSE(names.IsFree("a.jpg"));
  EXPECT_FALSE(names.IsFree("a.jpg.jpg"));
  EXPECT_FALSE(names.IsFree("a"));
  EXPECT_TRUE(names.IsFree("a.png"));
  names.Add("b.jpg.jpg");
  EXPECT_FALSE(names.IsFree("b.jpg"));
}

TEST_F(PhotographsTest, BlurredPicturesAreFound) {
  for (int i = 0; i < 6; ++i) {
    WriteJpeg("s" + std::to_string(i) + ".jpg", TexturedImage(200, 150, i));
  }
  WriteJpeg("z.jpg", TexturedImage(200, 150, 9, /*blur=*/5));
  const std::vector<Photo> photos = Prepare();
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(photos[i].is_blurred) << photos[i].sharpness;
  EXPECT_TRUE(photos[6].is_blurred) << photos[6].sharpness;
}

TEST_F(PhotographsTest, SizesAndModelsTellLensesApart) {
  WriteJpeg("a.jpg", TexturedImage(64, 48, 1), MakeExif({.model = "Model A"}));
  WriteJpeg("b.jpg", TexturedImage(64, 48, 2), MakeExif({.model = "Model B"}));
  WriteJpeg("c.jpg", TexturedImage(48, 64, 3), MakeExif({.model = "Model A"}));
  WriteJpeg("d.jpg", TexturedImage(64, 48, 4), MakeExif({.model = "Model A"}));
  const std::vector<Photo> photos = Prepare();
  EXPECT_EQ(photos[0].lens, photos[3].lens);
  EXPECT_NE(photos[0].lens, photos[1].lens);
  EXPECT_NE(photos[0].lens, photos[2].lens);
}

TEST_F(PhotographsTest, NamesThatListsCannotHoldAreReplaced) {
  WriteJpeg("IMG 1.jpg", TexturedImage(64, 48, 1));
  WriteJpeg("IMG_1.jpg", TexturedImage(64, 48, 2));
  WriteJpeg("-x.jpg", TexturedImage(64, 48, 3));
  WriteJpeg("#y\n.jpg", TexturedImage(64, 48, 4));
  std::vector<std::string> files;
  for (const Photo& photo : Prepare()) files.push_back(photo.file);
  EXPECT_THAT(files, ElementsAre("_y_.jpg", "_x.jpg", "IMG_1.jpg", "2_IMG_1.jpg"));
}

TEST_F(PhotographsTest, FormatsThatAreNotReadAreNamed) {
  WriteJpeg("a.JPG", TexturedImage(64, 48, 1));
  dir_.Write("in/b.TIFF", "x");
  dir_.Write("in/notes.txt", "x");
  dir_.Write("in/.hidden.jpg", "x");
  const auto sources = ListPhotoSources(dir_ / "in");
  ASSERT_THAT(sources, IsOk());
  EXPECT_EQ(sources->pictures.size(), 1u);
  EXPECT_THAT(sources->unreadable, ElementsAre(HasSubstr("b.TIFF: tiff is not read")));
}

TEST_F(PhotographsTest, LongNamesAreCutForTheCopiesAlone) {
  std::string two_bytes;  // a letter at an odd place
  while (two_bytes.size() < 248) two_bytes += "\u00e4";
  const std::string name = "a" + two_bytes.substr(0, 246) + ".jpeg";
  ASSERT_EQ(name.size(), 252u);
  WriteJpeg(name, TexturedImage(64, 48, 1));
  WriteJpeg(std::string(250, 'b') + "1.jpg", TexturedImage(64, 48, 2));
  WriteJpeg(std::string(250, 'b') + "2.jpg", TexturedImage(64, 48, 3));
  WriteMask(std::string(250, 'b') + "2.png", 64, 48, [](int x, int) { return x < 32 ? 0 : 255; });
  const std::vector<Photo> photos = Prepare();
  EXPECT_EQ(photos[0].name, name);
  EXPECT_EQ(photos[0].file, "a" + two_bytes.substr(0, 194) + ".jpeg");
  EXPECT_EQ(photos[1].file, std::string(196, 'b') + ".jpg");
  EXPECT_EQ(photos[2].file, "2_" + photos[1].file);
  for (const Photo& photo : photos) EXPECT_TRUE(DecodeImage(out_ + "/" + photo.file).ok());
  EXPECT_THAT(MaskNames(), ElementsAre(photos[2].file + ".png"));
}

TEST_F(PhotographsTest, OnlyAsManyPicturesAreDecodedAtOnceAsFit) {
  std::vector<std::string> paths;
  for (const std::string name : {"a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg", "f.jpg"}) {
    WriteJpeg(name, TexturedImage(64, 48, 1));
    paths.push_back(dir_ / ("in/" + name));
  }
  ThreadPool pool(4);
  PrepareOptions options;
  options.pool = &pool;
  options.max_memory_bytes = uint64_t{8} * 64 * 48 * 3 - 1;  // two need one byte more
  std::atomic<int> at_once = 0, most = 0, n = 0;
  ForEachPicture(paths.size(), paths, options, [&](int64_t, int) {
    const int now = ++at_once;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    EXPECT_TRUE(DecodeImage(paths[0]).ok());
    ++n;
    --at_once;
  });
  EXPECT_EQ(most, 1);
  EXPECT_EQ(n, 6);
}

TEST_F(PhotographsTest, FolderWithoutPicturesIsRefused) {
  std::filesystem::create_directories(dir_ / "empty");
  EXPECT_THAT(ListPhotoSources(dir_ / "empty"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ListPhotoSources(dir_ / "absent"), StatusIs(absl::StatusCode::kNotFound));
  dir_.Write("file.txt", "x");
  EXPECT_THAT(ListPhotoSources(dir_ / "file.txt"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(PhotographsTest, StopEndsThePreparation) {
  WriteJpeg("a.jpg", TexturedImage(64, 48, 1));
  std::stop_source source;
  source.request_stop();
  PrepareOptions options;
  options.pool = &pool_;
  options.stop = source.get_token();
  const auto sources = ListPhotoSources(dir_ / "in");
  EXPECT_THAT(PreparePhotos(sources->pictures, out_, options),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(PhotoMeasuresTest, SmallAndUniformPicturesHaveAMeasure) {
  ImageU8 dot;
  dot.width = dot.height = 1;
  dot.pixels = {1, 2, 3};
  EXPECT_EQ(Sharpness(ReducedGray(dot, 100)), 0);
  EXPECT_EQ(
      FingerprintDistance(Fingerprint(ReducedGray(dot, 100)), Fingerprint(ReducedGray(dot, 100))),
      0);
  ImageU8 gray = TexturedImage(50, 50, 1);
  std::fill(gray.pixels.begin(), gray.pixels.end(), 128);
  EXPECT_EQ(Sharpness(ReducedGray(gray, 100)), 0);
}

}  // namespace
}  // namespace nerf
