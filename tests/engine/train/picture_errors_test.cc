#include "engine/train/batch/picture_errors.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<View> TwoViews() {
  std::vector<View> views(2);
  views[0].camera.width = 64;
  views[0].camera.height = 32;
  views[1].camera.width = 64;
  views[1].camera.height = 128;
  return views;
}

PixelBatch BatchOf(std::vector<Pixel> pixels) {
  PixelBatch batch;
  batch.n_pixels = static_cast<int>(pixels.size());
  batch.pixels = std::move(pixels);
  return batch;
}

TEST(PictureErrorsTest, CellsHaveRunningMeansOfTheirRays) {
  PictureErrors errors(TwoViews(), 0.5f);
  const float initial = errors.errors()[0];
  ASSERT_GT(initial, 0);
  // Both of cell (3, 1) of the first, one of the last cell of the second.
  const std::vector<Pixel> pixels = {{0, 12, 2}, {0, 15, 3}, {1, 63, 127}};
  errors.Observe(BatchOf(pixels), std::vector<float>{0.5f, 0.1f, 0.9f});
  const auto taken = [](double mean, double error) { return mean + (error - mean) / 8; };
  EXPECT_NEAR(errors.errors()[16 + 3], taken(taken(initial, 0.5), 0.1), 1e-7);
  EXPECT_NEAR(errors.errors()[511], taken(initial, 0.9), 1e-7);
  int n_changed = 0;
  for (const float error : errors.errors()) n_changed += error != initial;
  EXPECT_EQ(n_changed, 2);
  // The same places in pictures of a quarter of the sides.
  PictureErrors coarse(TwoViews(), 0.5f);
  PixelBatch batch = BatchOf({{0, 3, 0}, {0, 3, 0}, {1, 15, 31}});
  batch.picture_level = 2;
  coarse.Observe(batch, std::vector<float>{0.5f, 0.1f, 0.9f});
  EXPECT_EQ(coarse.errors()[3], errors.errors()[16 + 3]);
  EXPECT_EQ(coarse.errors()[511], errors.errors()[511]);
}

TEST(PictureErrorsTest, WhatDoesNotCountIsNoErrorAndWhatIsNotFiniteIsLeftOut) {
  PictureErrors errors(TwoViews(), 0.5f);
  const float initial = errors.errors()[0];
  PixelBatch batch = BatchOf({{0, 0, 0}, {0, 8, 0}, {0, 16, 0}, {0, 24, 0}});
  batch.weights = {0, 0.5f, 1, 0};
  errors.Observe(batch, std::vector<float>{0.8f, 0.8f, kNan, kInfinity});
  EXPECT_FLOAT_EQ(errors.errors()[0], initial * 7 / 8);
  EXPECT_FLOAT_EQ(errors.errors()[2], initial * 7 / 8 + 0.1f);
  EXPECT_EQ(errors.errors()[4], initial);
  EXPECT_FLOAT_EQ(errors.errors()[6], initial * 7 / 8) << "masked, whatever it is";
}

TEST(PictureErrorsTest, FilesHoldThem) {
  PictureErrors errors(TwoViews(), 0.5f);
  errors.Observe(BatchOf({{1, 1, 1}}), std::vector<float>{0.7f});
  TensorFile file;
  errors.Save(&file);
  EXPECT_EQ(file.tensors.at("view.errors").shape, (std::vector<uint32_t>{2, 16, 16}));
  PictureErrors loaded(TwoViews(), 0.5f);
  ASSERT_THAT(loaded.Load(file), IsOk());
  EXPECT_TRUE(std::equal(loaded.errors().begin(), loaded.errors().end(), errors.errors().begin()));
}

TEST(PictureErrorsTest, WithoutAShareThereAreNone) {
  PictureErrors none(TwoViews(), 0);
  EXPECT_TRUE(none.empty());
  TensorFile file;
  none.Save(&file);
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_THAT(none.Load(file), IsOk());
}

TEST(PictureErrorsTest, DamagedFilesAreRefusedAndChangeNothing) {
  PictureErrors errors(TwoViews(), 0.5f);
  const std::vector<float> before(errors.errors().begin(), errors.errors().end());
  TensorFile good;
  errors.Save(&good);
  const auto refused = [&](const TensorFile& file) {
    EXPECT_THAT(errors.Load(file), StatusIs(absl::StatusCode::kInvalidArgument, "view.errors"));
    EXPECT_TRUE(std::equal(before.begin(), before.end(), errors.errors().begin()));
  };
  refused(TensorFile());
  for (const float value : {-1e-30f, -1.0f, kNan, kInfinity, -kInfinity}) {
    std::vector<float> values = before;
    values.back() = value;
    TensorFile file = good;
    file.tensors["view.errors"] = TensorFromFloats(values.data(), {2, 16, 16}, DType::kF32);
    refused(file);
  }
  for (const std::vector<uint32_t>& shape :
       {std::vector<uint32_t>{512}, {1, 16, 16}, {2, 16, 16, 1}, {16, 16, 2}}) {
    TensorFile file = good;
    file.tensors["view.errors"] = TensorFromFloats(before.data(), shape, DType::kF32);
    refused(file);
  }
  TensorFile whole = good;
  whole.tensors["view.errors"].dtype = DType::kI32;
  refused(whole);
}

}  // namespace
}  // namespace nerf
