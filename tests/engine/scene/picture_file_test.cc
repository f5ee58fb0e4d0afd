#include "engine/scene/picture_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class PictureFileTest : public ::testing::Test {
 protected:
  PictureFileTest() { WriteBallDataset(dataset_); }

  // Reads the data set with the training pictures in the file at path_. *decoded: whether they were
  // decoded for it.
  std::unique_ptr<PictureFile> Make(Scene* scene, bool* decoded = nullptr, int max_side = 0) {
    struct CountingMaker : PictureSink {
      explicit CountingMaker(PictureFileMaker* maker) : maker(maker) {}
      absl::StatusOr<bool> Begin(const std::vector<ViewDescription>& views,
                                 ThreadPool* pool) override {
        const absl::StatusOr<bool> wanted = maker->Begin(views, pool);
        decodes = wanted.ok() && *wanted;
        return wanted;
      }
      absl::Status Take(size_t view, const ImageU8& image) override {
        return maker->Take(view, image);
      }
      PictureFileMaker* maker;
      bool decodes = false;
    };
    PictureFileMaker maker(dataset_, path_);
    CountingMaker sink(&maker);
    SceneOptions options;
    options.train_sink = &sink;
    options.max_side = max_side;
    options.n_threads = 2;
    absl::StatusOr<Scene> loaded = LoadScene(dataset_, options);
    EXPECT_THAT(loaded, IsOk());
    if (!loaded.ok()) return nullptr;
    *scene = *std::move(loaded);
    if (decoded != nullptr) *decoded = sink.decodes;
    absl::StatusOr<std::unique_ptr<PictureFile>> file = maker.Finish();
    EXPECT_THAT(file, IsOk());
    return file.ok() ? *std::move(file) : nullptr;
  }

  Scene InMemory(int max_side = 0) {
    SceneOptions options;
    options.max_side = max_side;
    return *LoadScene(dataset_, options);
  }

  void ExpectSamePictures(const PictureFile& file, const Scene& scene, const Scene& in_memory) {
    ASSERT_EQ(scene.train.size(), in_memory.train.size());
    for (size_t i = 0; i < scene.train.size(); ++i) {
      const ImageU8& image = scene.train[i].image;
      const ImageU8& expected = in_memory.train[i].image;
      EXPECT_TRUE(image.pixels.empty());
      EXPECT_EQ(image.width, expected.width);
      EXPECT_EQ(image.height, expected.height);
      EXPECT_EQ(image.n_channels, expected.n_channels);
      const std::span<const uint8_t> pixels = file.Pixels(i);
      EXPECT_EQ(std::vector<uint8_t>(pixels.begin(), pixels.end()), expected.pixels) << i;
      file.WillNeed(pixels.data() + pixels.size() - 1);
    }
    ASSERT_EQ(scene.test.size(), in_memory.test.size());
    for (size_t i = 0; i < scene.test.size(); ++i)
      EXPECT_EQ(scene.test[i].image.pixels, in_memory.test[i].image.pixels);
  }

  bool PartIsLeft() const { return std::filesystem::exists(path_ + ".part"); }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball", path_ = dir_ / "pictures.raw";
};

TEST_F(PictureFileTest, HasTheBytesOfPicturesInMemory) {
  Scene scene;
  bool decoded = false;
  const auto file = Make(&scene, &decoded);
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(decoded);
  ExpectSamePictures(*file, scene, InMemory());
  EXPECT_FALSE(PartIsLeft());
}

TEST_F(PictureFileTest, ReducedPicturesAreReducedInTheFile) {
  Scene scene;
  const auto file = Make(&scene, nullptr, 10);
  ASSERT_NE(file, nullptr);
  ExpectSamePictures(*file, scene, InMemory(10));
}

TEST_F(PictureFileTest, IsTakenAgainAsLongAsItsSourcesAreTheSame) {
  Scene scene;
  bool decoded = false;
  ASSERT_NE(Make(&scene), nullptr);
  auto file = Make(&scene, &decoded);
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(decoded);
  ExpectSamePictures(*file, scene, InMemory());
  EXPECT_FALSE(PartIsLeft());

  ASSERT_NE(Make(&scene, &decoded, 10), nullptr);
  EXPECT_TRUE(decoded) << "the size differs";

  // Another picture of the same size under the same name.
  const std::string changed = dataset_ + "/" + scene.train[1].file;
  ImageU8 image = *DecodeImage(changed);
  image.pixels[7] ^= 0xff;
  ASSERT_THAT(WritePng(changed, image), IsOk());
  ASSERT_NE(Make(&scene), nullptr);
  file = Make(&scene, &decoded);
  EXPECT_FALSE(decoded);
  ExpectSamePictures(*file, scene, InMemory());
}

// Writes the pictures of a folder anew without their alpha, which goes with no mask.
void DropAlpha(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const absl::StatusOr<ImageU8> image = DecodeImage(entry.path());
    ASSERT_THAT(image, IsOk());
    ImageU8 opaque{image->width, image->height, 3, {}};
    for (size_t i = 0; i < image->pixels.size(); ++i)
      if (i % 4 != 3) opaque.pixels.push_back(image->pixels[i]);
    ASSERT_THAT(WritePng(entry.path(), opaque), IsOk());
  }
}

TEST_F(PictureFileTest, AMaskOfTheOtherSenseMakesOtherPictures) {
  for (const char* split : {"/train", "/test"}) DropAlpha(dataset_ + split);
  Scene scene;
  ASSERT_NE(Make(&scene), nullptr);
  const std::string picture = scene.train[0].file;
  const auto [width, height] = std::pair(scene.train[0].image.width, scene.train[0].image.height);
  ImageU8 mask{width, height, 1, std::vector<uint8_t>(static_cast<size_t>(width) * height, 0)};
  std::fill_n(mask.pixels.begin(), mask.pixels.size() / 2, uint8_t{255});
  const std::filesystem::path at = std::filesystem::path(dataset_) / picture;
  const std::string name = at.stem().string() + ".png";
  ASSERT_THAT(WritePng(at.parent_path() / ("dynamic_mask_" + name), mask), IsOk());
  bool decoded = false;
  ASSERT_NE(Make(&scene, &decoded), nullptr);
  EXPECT_TRUE(decoded);
  ASSERT_NE(Make(&scene, &decoded), nullptr);
  EXPECT_FALSE(decoded);
  // The same bytes, of which now white counts.
  std::filesystem::remove(at.parent_path() / ("dynamic_mask_" + name));
  const std::filesystem::path masks = at.parent_path().parent_path() / "masks";
  std::filesystem::create_directories(masks);
  ASSERT_THAT(WritePng(masks / name, mask), IsOk());
  const auto file = Make(&scene, &decoded);
  EXPECT_TRUE(decoded);
  ASSERT_NE(file, nullptr);
  ExpectSamePictures(*file, scene, InMemory());
}

TEST_F(PictureFileTest, ADamagedOrStrangeFileIsReplaced) {
  Scene scene;
  bool decoded = false;
  ASSERT_NE(Make(&scene), nullptr);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  ASSERT_NE(Make(&scene, &decoded), nullptr);
  EXPECT_TRUE(decoded) << "it was cut";
  std::ofstream(path_, std::ios::trunc) << "something else";
  const auto file = Make(&scene, &decoded);
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(decoded);
  ExpectSamePictures(*file, scene, InMemory());
}

TEST_F(PictureFileTest, WhatAKilledProcessLeftIsReplaced) {
  std::ofstream(path_ + ".part") << "half of a file";
  Scene scene;
  const auto file = Make(&scene);
  ASSERT_NE(file, nullptr);
  ExpectSamePictures(*file, scene, InMemory());
  EXPECT_FALSE(PartIsLeft());
}

TEST_F(PictureFileTest, AFileInUseStaysWhenItIsReplacedOrRemoved) {
  Scene scene, other;
  const auto file = Make(&scene);
  ASSERT_NE(file, nullptr);
  ASSERT_NE(Make(&other, nullptr, 10), nullptr);
  std::filesystem::remove(path_);
  ExpectSamePictures(*file, scene, InMemory());
}

TEST_F(PictureFileTest, SeveralMakersShareOneFile) {
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove(path_);
    constexpr int kMakers = 4;
    std::unique_ptr<PictureFile> files[kMakers];
    Scene scenes[kMakers];
    bool decoded[kMakers] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < kMakers; ++i)
      threads.emplace_back([&, i] { files[i] = Make(&scenes[i], &decoded[i]); });
    for (std::thread& thread : threads) thread.join();
    int n_decoded = 0;
    const Scene expected = InMemory();
    for (int i = 0; i < kMakers; ++i) {
      ASSERT_NE(files[i], nullptr);
      ExpectSamePictures(*files[i], scenes[i], expected);
      n_decoded += decoded[i] ? 1 : 0;
    }
    EXPECT_EQ(n_decoded, 1);
    EXPECT_FALSE(PartIsLeft());
  }
}

TEST_F(PictureFileTest, ADamagedPictureLeavesNothing) {
  std::ofstream(dataset_ + "/train/r_0.png", std::ios::app) << "";
  std::filesystem::resize_file(dataset_ + "/train/r_0.png",
                               std::filesystem::file_size(dataset_ + "/train/r_0.png") / 2);
  {
    PictureFileMaker maker(dataset_, path_);
    SceneOptions options;
    options.train_sink = &maker;
    EXPECT_FALSE(LoadScene(dataset_, options).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(PartIsLeft());
}

TEST_F(PictureFileTest, AFolderThatCannotBeWrittenIsAnError) {
  PictureFileMaker maker(dataset_, dir_ / "no/such/folder/pictures.raw");
  SceneOptions options;
  options.train_sink = &maker;
  EXPECT_EQ(LoadScene(dataset_, options).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PictureFileTest, PicturesInAFileDoNotCountForTheMemoryLimit) {
  // Six training and two test pictures of 24 x 24 x 4 bytes.
  SceneOptions options;
  options.memory_limit_bytes = 3 * 24 * 24 * 4;
  EXPECT_EQ(LoadScene(dataset_, options).status().code(), absl::StatusCode::kResourceExhausted);
  PictureFileMaker maker(dataset_, path_);
  options.train_sink = &maker;
  EXPECT_THAT(LoadScene(dataset_, options), IsOk());
}

}  // namespace
}  // namespace nerf
