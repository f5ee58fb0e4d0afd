#include "engine/scene/pictures/masks.h"

#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

// A mask of 8x6: white but for its first column.
std::string MaskPng() {
  ImageU8 mask{8, 6, 1, std::vector<uint8_t>(48, 255)};
  for (int y = 0; y < 6; ++y) mask.pixels[8 * y] = 0;
  return *EncodePng(mask);
}

// Three pictures of 8x6, listed with camera_angle_x; `more` is added to the second frame.
void WriteMaskedScene(const TempFolder& folder, const std::string& more, int n_channels = 3) {
  std::string frames;
  for (int i = 0; i < 3; ++i) {
    const std::string file = "images/" + std::to_string(i) + ".png";
    folder.Write(file, MakePng(8, 6, n_channels));
    frames += (i == 0 ? "" : ",") + FrameJson(file, i, 0, 4, i == 1 ? more : "");
  }
  folder.Write("transforms.json", "{\"camera_angle_x\": 0.8, \"frames\": [" + frames + "]}");
}

int AlphaOf(const View& view, int x) { return view.image.Pixel(x, 2)[3]; }

TEST(MasksTest, FolderOfMasksIsFoundUnderBothNames) {
  const TempFolder folder;
  WriteMaskedScene(folder, "");
  folder.Write("masks/0.png.png", MaskPng());
  folder.Write("masks/2.png", MaskPng());
  SceneOptions options;
  options.test_every = 0;
  const auto scene = LoadScene(folder.path(), options);
  ASSERT_TRUE(scene.ok()) << scene.status();
  EXPECT_TRUE(scene->alpha_is_mask);
  EXPECT_FALSE(scene->has_alpha);
  ASSERT_EQ(scene->train.size(), 3u);
  for (const size_t masked : {0u, 2u}) {
    ASSERT_EQ(scene->train[masked].image.n_channels, 4);
    EXPECT_EQ(AlphaOf(scene->train[masked], 0), 0);
    EXPECT_EQ(AlphaOf(scene->train[masked], 1), 255);
  }
  EXPECT_EQ(scene->train[1].image.n_channels, 3) << "a picture without a mask counts fully";
}

TEST(MasksTest, JpegsCapitalsAndOtherSizesAreMasksToo) {
  const TempFolder folder;
  WriteMaskedScene(folder, "");
  ImageU8 half{4, 3, 1, std::vector<uint8_t>(12, 255)};
  for (size_t y = 0; y < 3; ++y) half.pixels[4 * y] = 0;
  folder.Write("masks/0.PNG", *EncodePng(half));
  folder.Write("masks/2.jpg", *EncodeJpeg(half, 100));
  SceneOptions options;
  options.test_every = 0;
  const auto scene = LoadScene(folder.path(), options);
  ASSERT_TRUE(scene.ok()) << scene.status();
  for (const size_t masked : {0u, 2u}) {
    ASSERT_EQ(scene->train[masked].image.n_channels, 4);
    EXPECT_LT(AlphaOf(scene->train[masked], 1), 30);
    EXPECT_GT(AlphaOf(scene->train[masked], 2), 225);
  }
}

TEST(MasksTest, FramesNameTheirMasks) {
  const TempFolder folder;
  WriteMaskedScene(folder, R"(, "mask_path": "other/m.png")");
  folder.Write("other/m.png", MaskPng());
  SceneOptions options;
  options.test_every = 0;
  const SceneDescription description = DescribeScene(folder.path(), options);
  EXPECT_TRUE(description.ok()) << SummaryOf(description.problems);
  EXPECT_EQ(description.train[1].mask_file, "other/m.png");
  EXPECT_EQ(description.image_bytes, 8u * 6 * (3 + 4 + 3));
}

TEST(MasksTest, AlphaIsAMaskWhereTheUserSaysSo) {
  const TempFolder folder;
  WriteMaskedScene(folder, "", 4);
  SceneOptions options;
  auto scene = LoadScene(folder.path(), options);
  ASSERT_TRUE(scene.ok());
  EXPECT_TRUE(scene->has_alpha);
  EXPECT_FALSE(scene->alpha_is_mask);
  options.alpha_is_mask = true;
  scene = LoadScene(folder.path(), options);
  ASSERT_TRUE(scene.ok());
  EXPECT_FALSE(scene->has_alpha);
  EXPECT_TRUE(scene->alpha_is_mask);
}

// Masks of the three pictures, each of one value but for its first pixel.
void WriteMasks(const TempFolder& folder, uint8_t value, uint8_t first) {
  WriteMaskedScene(folder, "");
  ImageU8 mask{8, 6, 1, std::vector<uint8_t>(48, value)};
  mask.pixels[0] = first;
  for (int i = 0; i < 3; ++i) folder.Write("masks/" + std::to_string(i) + ".png", *EncodePng(mask));
}

TEST(MasksTest, WhatTheyLeaveIsSaid) {
  const TempFolder folder;
  WriteMasks(folder, 255, 0);
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(scene.warnings, ::testing::ElementsAre(::testing::HasSubstr("masks leave 98%")));
  const auto loaded = LoadScene(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->warnings, scene.warnings);
}

TEST(MasksTest, MasksThatLeaveNothingAreProblems) {
  struct Case {
    uint8_t value, first;
    const char* cause;
  };
  for (const Case& c : {Case{0, 0,
                             "leave 0% of the training pictures' pixels, less than 1%: all of "
                             "them are black"},
                        {0, 100, "they are likely inverted"},
                        {2, 2, "they are likely inverted"}}) {
    const TempFolder folder;
    WriteMasks(folder, c.value, c.first);
    const auto loaded = LoadScene(folder.path());
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(loaded.status().message()).find(c.cause), std::string::npos)
        << loaded.status();
    EXPECT_NE(SummaryOf(DescribeScene(folder.path()).problems).find("masks/1.png: "),
              std::string::npos);
  }
}

TEST(MasksTest, TruthValuesAreBlackAndWhite) {
  const TempFolder folder;
  WriteMasks(folder, 1, 0);
  const auto scene = LoadScene(folder.path());
  ASSERT_TRUE(scene.ok()) << scene.status();
  EXPECT_EQ(AlphaOf(scene->train[0], 3), 255);
  EXPECT_EQ(scene->train[0].image.pixels[3], 0);
  EXPECT_THAT(scene->warnings,
              ::testing::Contains(::testing::HasSubstr("2 masks hold 0 and 1 alone")));
  WriteMasks(folder, 2, 1);  // not truth values
  EXPECT_FALSE(LoadScene(folder.path()).ok());
}

TEST(MasksTest, MaskOfTwoPicturesIsAProblemThatNamesBoth) {
  const TempFolder folder;
  WriteMaskedScene(folder, "");
  folder.Write("images/1.jpg", MakePng(8, 6));
  folder.Write("images_2/1.png", MakePng(4, 3));
  std::string frames;
  for (const char* file : {"images/0.png", "images/1.png", "images/1.jpg", "images_2/1.png"})
    frames += (frames.empty() ? "" : ",") + FrameJson(file, static_cast<int>(frames.size()), 0, 4);
  folder.Write("transforms.json", "{\"camera_angle_x\": 0.8, \"frames\": [" + frames + "]}");
  EXPECT_TRUE(DescribeScene(folder.path()).ok());
  folder.Write("masks/1.png", MaskPng());
  EXPECT_EQ(SummaryOf(DescribeScene(folder.path()).problems),
            "masks/1.png: may belong to images/1.jpg or to images/1.png: name it 1.jpg.png or "
            "1.png.png");
  folder.Write("masks/1.png.png", MaskPng());
  folder.Write("masks/1.jpg.png", MaskPng());
  EXPECT_TRUE(DescribeScene(folder.path()).ok()) << "the last is 1.png at half its size";
}

TEST(MasksTest, MasksThatDoNotFitAreProblems) {
  struct Case {
    const char* more;
    int n_channels;
    int mask_width;
    const char* expected;
  };
  for (const Case& c : {Case{R"(, "mask_path": "m.png")", 3, 9, "9x6"},
                        {R"(, "mask_path": "m.png")", 4, 8, "alpha"},
                        {R"(, "mask_path": "missing.png")", 3, 8, "missing.png"},
                        {R"(, "mask_path": 3)", 3, 8, "must be a text"}}) {
    const TempFolder folder;
    WriteMaskedScene(folder, c.more, c.n_channels);
    folder.Write("m.png", MakePng(c.mask_width, 6));
    const SceneDescription description = DescribeScene(folder.path(), {});
    EXPECT_FALSE(description.ok());
    EXPECT_NE(SummaryOf(description.problems).find(c.expected), std::string::npos)
        << SummaryOf(description.problems);
  }
}

}  // namespace
}  // namespace nerf
