#include "engine/train/batch/error_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "engine/train/batch/coarse_views.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

constexpr int kCells = PictureErrors::kCells;

std::vector<View> ViewsOf(const std::vector<ReducedSize>& sizes) {
  std::vector<View> views(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    views[i].camera.width = views[i].image.width = sizes[i].width;
    views[i].camera.height = views[i].image.height = sizes[i].height;
  }
  return views;
}

// Errors as a checkpoint may hold them.
PictureErrors ErrorsOf(const std::vector<ReducedSize>& sizes, float share,
                       const std::vector<float>& errors) {
  PictureErrors result(ViewsOf(sizes), share);
  TensorFile file;
  result.Save(&file);
  Tensor& tensor = file.tensors.at("view.errors");
  tensor = TensorFromFloats(errors.data(), tensor.shape, DType::kF32);
  EXPECT_TRUE(result.Load(file).ok());
  return result;
}

// All pixels in order, and the probability of each by the definition.
struct Reference {
  std::vector<Pixel> pixels;
  std::vector<double> probabilities;

  Reference(const std::vector<ReducedSize>& sizes, double share, const std::vector<float>& errors) {
    std::vector<double> by_error;
    for (size_t v = 0; v < sizes.size(); ++v) {
      for (int y = 0; y < sizes[v].height; ++y) {
        for (int x = 0; x < sizes[v].width; ++x) {
          pixels.push_back({static_cast<int32_t>(v), x, y});
          const int row = y * PictureErrors::kSide / sizes[v].height;
          const int column = x * PictureErrors::kSide / sizes[v].width;
          by_error.push_back(errors[kCells * v + PictureErrors::kSide * row + column]);
        }
      }
    }
    const double sum = std::accumulate(by_error.begin(), by_error.end(), 0.0);
    const auto n = static_cast<double>(pixels.size());
    for (const double error : by_error)
      probabilities.push_back(sum > 0 ? (1 - share) / n + share * error / sum : 1 / n);
  }
};

// How often each of the reference's pixels is drawn.
std::vector<int> Drawn(const ErrorChoice& choice, const std::vector<ReducedSize>& sizes, int n) {
  std::vector<size_t> first = {0};
  for (const ReducedSize& size : sizes)
    first.push_back(first.back() + static_cast<size_t>(size.width) * size.height);
  std::vector<int> counts(first.back());
  for (int i = 0; i < n; ++i) {
    const auto words = RandomWords(5, RandomUse::kRayPixel, 3, static_cast<uint32_t>(i));
    const uint64_t any = UniformIndex64(words[0], words[1], first.back());
    kernels::SampledPixel uniform;
    while (first[uniform.picture + 1] <= any) ++uniform.picture;
    uniform.offset = any - first[uniform.picture];
    const kernels::SampledPixel pixel =
        choice.Choose({words[0], words[1], words[2], words[3]}, uniform);
    ++counts[first[pixel.picture] + pixel.offset];
  }
  return counts;
}

TEST(ErrorChoiceTest, PixelsAreDrawnInProportionToTheirErrors) {
  // The second has cells of different sizes, the third fewer pixels than cells.
  const std::vector<ReducedSize> sizes = {{32, 16}, {21, 19}, {5, 3}};
  std::vector<float> errors = RandomFloats(kCells * sizes.size(), 0, 1, 11);
  for (size_t i = 0; i < errors.size(); i += 3) errors[i] = 0;
  for (const float share : {0.3f, 0.95f}) {
    ErrorChoice choice(ViewsOf(sizes));
    choice.Update(ErrorsOf(sizes, share, errors));
    const Reference reference(sizes, share, errors);
    constexpr int kDraws = 400'000;
    const std::vector<int> counts = Drawn(choice, sizes, kDraws);
    double chi_square = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const double expected = kDraws * reference.probabilities[i];
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    // Of as many degrees of freedom the mean is n and the deviation sqrt(2 n).
    const auto n = static_cast<double>(counts.size() - 1);
    EXPECT_LT(std::abs(chi_square - n), 4 * std::sqrt(2 * n)) << share;
  }
}

TEST(ErrorChoiceTest, WithoutErrorsEveryPixelIsAsProbable) {
  const std::vector<ReducedSize> sizes = {{20, 20}};
  ErrorChoice choice(ViewsOf(sizes));
  choice.Update(ErrorsOf(sizes, 0.9f, std::vector<float>(kCells)));
  const kernels::SampledPixel uniform{0, 123};
  const kernels::SampledPixel chosen = choice.Choose({1, 2, 0, 4}, uniform);
  EXPECT_EQ(chosen.offset, 123u);
}

TEST(ErrorChoiceTest, TheEndsOfTheWordsStayInThePicture) {
  const std::vector<ReducedSize> sizes = {{17, 33}, {3, 40}};
  std::vector<float> errors(kCells * 2);
  errors[kCells + 7] = 1e-30f;  // of a cell without pixels: 3 columns
  errors[kCells - 1] = 1;
  ErrorChoice choice(ViewsOf(sizes));
  choice.Update(ErrorsOf(sizes, 0.95f, errors));
  for (const uint32_t place : {0u, 1u, ~0u}) {
    for (const uint32_t within : {0u, ~0u}) {
      const kernels::SampledPixel pixel = choice.Choose({within, within, 0, place}, {1, 0});
      EXPECT_EQ(pixel.picture, 0);
      const Pixel found{0, static_cast<int32_t>(pixel.offset % 17),
                        static_cast<int32_t>(pixel.offset / 17)};
      EXPECT_LT(found.y, 33);
      EXPECT_EQ(ErrorCell(found, sizes[0]), kCells - 1);
    }
  }
  // Beyond the share of those drawn by their errors.
  EXPECT_EQ(choice.Choose({0, 0, ~0u, 0}, {1, 5}).offset, 5u);
}

}  // namespace
}  // namespace nerf
