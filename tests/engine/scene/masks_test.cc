#include "engine/scene/masks.h"

#include "engine/scene/scene_reader.h"
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
