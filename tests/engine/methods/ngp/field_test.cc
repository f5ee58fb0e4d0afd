#include "engine/methods/ngp/field.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

NgpField RandomField() {
  const kernels::HashGridShape shape = NgpHashGridShape({.log2_hashmap_size = 12});
  Buffer<Half> table(size_t{32} * shape.entries());
  Buffer<float> weights(kNgpWeights);
  const std::vector<float> entries = RandomFloats(table.size(), -1, 1, 1);
  std::transform(entries.begin(), entries.end(), table.begin(), HalfFromFloat);
  const std::vector<float> values = RandomFloats(weights.size(), -0.3f, 0.3f, 2);
  std::copy(values.begin(), values.end(), weights.begin());
  return NgpField(shape, {{-1, -1, -1}, {1, 1, 1}}, 1, std::move(table), std::move(weights));
}

TEST(NgpFieldTest, NothingIsOutsideOfTheBox) {
  const NgpField field = RandomField();
  const auto workspace = field.NewWorkspace(4);
  const Vec3 positions[] = {{0, 0, 0}, {1.001f, 0, 0}, {0, -7, 0}, {1, 1, 1}};
  float sigmas[4];
  field.Density(4, positions, sigmas, workspace.get());
  EXPECT_GT(sigmas[0], 0);
  EXPECT_EQ(sigmas[1], 0);
  EXPECT_EQ(sigmas[2], 0);
  EXPECT_GT(sigmas[3], 0);
}

TEST(NgpFieldTest, DensityAndColorAreTheSameBytesInBatchesOfAnySize) {
  const NgpField field = RandomField();
  constexpr int kSamples = 300;  // more than two batches of the implementation
  const auto workspace = field.NewWorkspace(kSamples), other = field.NewWorkspace(1);
  const std::vector<Vec3> positions = RandomPoints(kSamples, -1, 1, 3);
  const std::vector<Vec3> directions = RandomDirections(kSamples, 4);
  std::vector<int> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> sigmas(kSamples), single(kSamples);
  std::vector<Vec3> colors(kSamples), single_colors(kSamples);
  field.Density(kSamples, positions.data(), sigmas.data(), workspace.get());
  field.Color(kSamples, all.data(), directions.data(), colors.data(), workspace.get());
  for (int i = 0; i < kSamples; ++i) {
    field.Density(1, &positions[i], &single[i], other.get());
    field.Color(1, &all[0], &directions[i], &single_colors[i], other.get());
  }
  EXPECT_EQ(single, sigmas);
  EXPECT_EQ(single_colors, colors);

  // Some of them, in another order.
  const std::vector<int> some = {299, 7, 128, 127, 7};
  std::vector<Vec3> some_directions, expected, some_colors(some.size());
  for (int i : some) {
    some_directions.push_back(directions[i]);
    expected.push_back(colors[i]);
  }
  field.Color(static_cast<int>(some.size()), some.data(), some_directions.data(),
              some_colors.data(), workspace.get());
  EXPECT_EQ(some_colors, expected);
}

TEST(NgpFieldTest, ColorsAreBetweenZeroAndOneAndChangeWithTheDirection) {
  const NgpField field = RandomField();
  const auto workspace = field.NewWorkspace(1);
  const Vec3 position{0.1f, 0.2f, 0.3f};
  const Vec3 directions[] = {{0, 0, 1}, {1, 0, 0}};
  const int samples[] = {0, 0};
  float sigma;
  Vec3 colors[2];
  field.Density(1, &position, &sigma, workspace.get());
  field.Color(2, samples, directions, colors, workspace.get());
  EXPECT_FALSE(colors[0] == colors[1]);
  for (const Vec3& color : colors) {
    for (int c = 0; c < 3; ++c) {
      EXPECT_GT(color[c], 0);
      EXPECT_LT(color[c], 1);
    }
  }
}

}  // namespace
}  // namespace nerf
