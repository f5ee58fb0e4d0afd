#include "engine/train/batch/pixel_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace nerf {
namespace {

// A view that looks along -Z from x = `index`, whose pixel colors encode view and position.
View MakeView(int index, int width, int height, uint8_t alpha = 255) {
  View view;
  view.camera.width = width;
  view.camera.height = height;
  view.camera.fl_x = view.camera.fl_y = 10;
  view.camera.cx = width / 2.0f;
  view.camera.cy = height / 2.0f;
  view.camera.camera_to_world.m[0][3] = static_cast<float>(index);
  view.image = {width, height, 4, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int value : {index * 50, x * 20, y * 20, int{alpha}}) {
        view.image.pixels.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return view;
}

TEST(PixelSamplerTest, TargetIsThePicturesAtThePixel) {
  const std::vector<View> views = {MakeView(0, 4, 3), MakeView(1, 5, 2)};
  const PixelSampler sampler(views, Background::kBlack, 1);
  ThreadPool pool(1);
  PixelBatch batch;
  sampler.Fill(3, 500, &pool, &batch);
  EXPECT_EQ(batch.step, 3u);
  ASSERT_EQ(batch.pixels.size(), 500u);
  for (size_t i = 0; i < 500; ++i) {
    const int v = static_cast<int>(std::lround(batch.targets[i].x * 255)) / 50;
    const int x = static_cast<int>(std::lround(batch.targets[i].y * 255)) / 20;
    const int y = static_cast<int>(std::lround(batch.targets[i].z * 255)) / 20;
    ASSERT_EQ(batch.pixels[i], (Pixel{v, x, y})) << i;
  }
}

// Pixels, targets and backgrounds are those of the functions of one ray, which CUDA devices use.
TEST(PixelSamplerTest, DrawsWhatTheFunctionsOfOneRayDraw) {
  for (const int width_of_last : {4, 5}) {  // all of a size, or not
    const std::vector<View> views = {MakeView(0, 4, 3, 100), MakeView(1, 4, 3, 200),
                                     MakeView(2, width_of_last, 3)};
    std::vector<kernels::Picture> pictures;
    std::vector<uint64_t> first_pixels = {0};
    for (const View& view : views) {
      pictures.push_back(PictureOf(view));
      first_pixels.push_back(first_pixels.back() +
                             static_cast<uint64_t>(view.image.width) * view.image.height);
    }
    for (const Background background :
         {Background::kRandom, Background::kWhite, Background::kBlack}) {
      const kernels::PictureSet set = {.n_pictures = 3,
                                       .pictures = pictures.data(),
                                       .first_pixels = first_pixels.data(),
                                       .background = BackgroundKindOf(background),
                                       .seed = 9};
      const PixelSampler sampler(views, background, 9);
      PixelBatch batch;
      sampler.Fill(5, 300, nullptr, &batch);
      for (uint32_t i = 0; i < 300; ++i) {
        const kernels::SampledPixel pixel = kernels::DrawPixel(set, 5, i);
        const kernels::PixelTarget target = kernels::TargetOfPixel(set, 5, i, pixel);
        const auto width = static_cast<uint64_t>(pictures[pixel.picture].width);
        ASSERT_EQ(batch.pixels[i], (Pixel{pixel.picture, static_cast<int>(pixel.offset % width),
                                          static_cast<int>(pixel.offset / width)}));
        ASSERT_EQ(batch.targets[i], target.target);
        ASSERT_EQ(batch.backgrounds[i], target.background);
      }
    }
  }
}

TEST(PixelSamplerTest, EveryPixelOfEveryViewIsDrawnEquallyOften) {
  // 12 + 8 pixels: views of different sizes do not bias pixels.
  const std::vector<View> views = {MakeView(0, 4, 3), MakeView(1, 4, 2)};
  const PixelSampler sampler(views, Background::kBlack, 7);
  ThreadPool pool(1);
  PixelBatch batch;
  constexpr int kPixels = 20000;
  sampler.Fill(0, kPixels, &pool, &batch);
  std::map<std::array<long, 3>, int> counts;
  for (const Vec3& target : batch.targets) {
    ++counts[{std::lround(target.x * 255), std::lround(target.y * 255),
              std::lround(target.z * 255)}];
  }
  ASSERT_EQ(counts.size(), 20u);
  // 1000 expected, standard deviation 31: five of them.
  for (const auto& [pixel, count] : counts) EXPECT_NEAR(count, kPixels / 20, 155);
}

TEST(PixelSamplerTest, PixelsOfRunsAreDrawnEquallyOftenAndNoOthers) {
  // 35 + 7 pixels: runs 0, 1 and 2, of which the last has 10.
  const std::vector<View> views = {MakeView(0, 7, 5), MakeView(1, 7, 1)};
  const std::vector<uint32_t> runs = {0, 2};
  EXPECT_EQ(PixelsOfRuns(runs, 42), 26u);
  EXPECT_EQ(PixelsOfRuns({}, 42), 0u);
  EXPECT_EQ(PixelsOfRuns(std::vector<uint32_t>{1}, 42), 16u);
  const PixelSampler sampler(views, Background::kBlack, 7, false, nullptr, runs);
  PixelBatch batch;
  constexpr int kPixels = 26000;
  sampler.Fill(0, kPixels, nullptr, &batch);
  std::map<int, int> counts;
  for (const Pixel& pixel : batch.pixels) ++counts[35 * pixel.view + 7 * pixel.y + pixel.x];
  ASSERT_EQ(counts.size(), 26u);
  for (const auto& [pixel, count] : counts) {
    EXPECT_TRUE(pixel < 16 || pixel >= 32) << pixel;
    EXPECT_NEAR(count, 1000, 155);  // five standard deviations
  }
}

TEST(PixelSamplerTest, BatchesDoNotDependOnThreads) {
  const std::vector<View> views = {MakeView(0, 4, 3), MakeView(1, 5, 2)};
  const PixelSampler sampler(views, Background::kRandom, 1);
  ThreadPool one(1), three(3);
  PixelBatch a, b;
  sampler.Fill(9, 3000, &one, &a);
  sampler.Fill(9, 3000, &three, &b);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.backgrounds, b.backgrounds);
  EXPECT_EQ(a.pixels, b.pixels);
}

TEST(PixelSamplerTest, PixelDependsOnItsIndexAndNotOnHowManyThereAre) {
  const std::vector<View> views = {MakeView(0, 8, 8)};
  const PixelSampler sampler(views, Background::kRandom, 1);
  ThreadPool pool(1);
  PixelBatch few, many;
  sampler.Fill(5, 64, &pool, &few);
  sampler.Fill(5, 640, &pool, &many);
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(few.targets[i], many.targets[i]);
    ASSERT_EQ(few.pixels[i], many.pixels[i]);
  }
}

TEST(PixelSamplerTest, ResizedBatchIsWhatFillGives) {
  const std::vector<View> views = {MakeView(0, 8, 8)};
  const PixelSampler sampler(views, Background::kRandom, 1);
  ThreadPool pool(2);
  PixelBatch resized;
  sampler.Fill(5, 300, nullptr, &resized);
  for (const int n_pixels : {1000, 1000, 70, 0, 600}) {
    sampler.Resize(n_pixels, {0, resized.n_pixels}, {0, n_pixels}, &pool, &resized);
    PixelBatch filled;
    sampler.Fill(5, n_pixels, &pool, &filled);
    ASSERT_EQ(resized.n_pixels, n_pixels);
    ASSERT_EQ(resized.targets, filled.targets);
    ASSERT_EQ(resized.backgrounds, filled.backgrounds);
    ASSERT_EQ(resized.pixels, filled.pixels);
  }
}

TEST(PixelSamplerTest, StepAndSeedChangeEverything) {
  const std::vector<View> views = {MakeView(0, 8, 8)};
  ThreadPool pool(1);
  PixelBatch base, other_step, other_seed;
  PixelSampler(views, Background::kRandom, 1).Fill(0, 256, &pool, &base);
  PixelSampler(views, Background::kRandom, 1).Fill(1, 256, &pool, &other_step);
  PixelSampler(views, Background::kRandom, 2).Fill(0, 256, &pool, &other_seed);
  EXPECT_NE(base.pixels, other_step.pixels);
  EXPECT_NE(base.pixels, other_seed.pixels);
  EXPECT_NE(base.targets, other_step.targets);
  EXPECT_NE(base.targets, other_seed.targets);
}

TEST(PixelSamplerTest, TargetIsCompositedOnThePixelsBackground) {
  const std::vector<View> views = {MakeView(1, 1, 1, /*alpha=*/51)};  // a fifth opaque
  ThreadPool pool(1);
  PixelBatch batch;
  PixelSampler(views, Background::kWhite, 1).Fill(0, 64, &pool, &batch);
  EXPECT_EQ(batch.backgrounds[0], (Vec3{1, 1, 1}));
  EXPECT_NEAR(batch.targets[0].x, 50 / 255.0 * 0.2 + 0.8, 1e-6);
  EXPECT_NEAR(batch.targets[0].y, 0.8, 1e-6);
  PixelSampler(views, Background::kBlack, 1).Fill(0, 64, &pool, &batch);
  EXPECT_NEAR(batch.targets[0].x, 50 / 255.0 * 0.2, 1e-6);
  PixelSampler(views, Background::kRandom, 1).Fill(0, 4096, &pool, &batch);
  Vec3 mean{};
  for (size_t i = 0; i < 4096; ++i) {
    const Vec3 background = batch.backgrounds[i];
    ASSERT_NEAR(batch.targets[i].y, 0.8 * background.y, 1e-6);
    mean = mean + background * (1 / 4096.0f);
  }
  // Uniform in [0, 1]: standard deviation of the mean 0.0045.
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(mean[c], 0.5, 0.025);
}

TEST(PixelSamplerTest, ImageWithoutAlphaIsOpaque) {
  View view = MakeView(0, 1, 1);
  view.image = {1, 1, 3, {51, 102, 255}};
  const std::vector<View> views = {view};
  ThreadPool pool(1);
  PixelBatch batch;
  PixelSampler(views, Background::kWhite, 1).Fill(0, 1, &pool, &batch);
  EXPECT_NEAR(batch.targets[0].x, 0.2, 1e-6);
  EXPECT_NEAR(batch.targets[0].y, 0.4, 1e-6);
  EXPECT_NEAR(batch.targets[0].z, 1.0, 1e-6);
}

TEST(PixelSamplerTest, PixelsDrawnByErrorsHaveTheirMasksAndAreTheSameInParts) {
  const std::vector<View> views = {MakeView(0, 24, 24, 128), MakeView(1, 24, 24),
                                   MakeView(2, 24, 24, 1)};
  PictureErrors errors(views, 0.7f);
  PixelBatch met;
  met.pixels = std::vector<Pixel>(20, Pixel{1, 12, 12});
  errors.Observe(met, std::vector<float>(20, 1.0f));
  ErrorChoice choice(views);
  choice.Update(errors);
  const PixelSampler sampler(views, Background::kBlack, 1, /*alpha_is_mask=*/true);
  ThreadPool pool(2);
  PixelBatch batch, alike, part;
  sampler.FillRange(4, 20000, {0, 20000}, &pool, &batch, &choice);
  sampler.Fill(4, 20000, &pool, &alike);
  EXPECT_NE(batch.pixels, alike.pixels);
  sampler.FillRange(4, 20000, {700, 900}, nullptr, &part, &choice);
  int n_in_cell = 0, n_alike = 0;
  for (int i = 0; i < 20000; ++i) {
    const Pixel& pixel = batch.pixels[i];
    const float alpha = views[pixel.view].image.Pixel(pixel.x, pixel.y)[3] / 255.0f;
    ASSERT_EQ(batch.weights[i], alpha) << i;
    n_in_cell += ErrorCell(pixel, {24, 24}) == ErrorCell({1, 12, 12}, {24, 24});
    n_alike += ErrorCell(alike.pixels[i], {24, 24}) == ErrorCell({1, 12, 12}, {24, 24});
    if (i < 700 || i >= 900) continue;
    ASSERT_EQ(part.pixels[i], pixel);
    ASSERT_EQ(part.weights[i], batch.weights[i]);
  }
  EXPECT_GT(n_in_cell, 2 * n_alike);
}

TEST(PixelSamplerTest, AMaskWeighsPixelsAndLeavesTheirColorsAlone) {
  const std::vector<View> views = {MakeView(1, 4, 3, 51)};
  ThreadPool pool(1);
  PixelBatch batch;
  PixelSampler(views, Background::kWhite, 1, /*alpha_is_mask=*/true).Fill(0, 64, &pool, &batch);
  ASSERT_EQ(batch.weights.size(), 64u);
  EXPECT_NEAR(batch.weights[0], 0.2, 1e-6);
  EXPECT_NEAR(batch.targets[0].x, 50 / 255.0, 1e-6);
  PixelSampler(views, Background::kWhite, 1).Fill(0, 64, &pool, &batch);
  EXPECT_TRUE(batch.weights.empty());
}

}  // namespace
}  // namespace nerf
