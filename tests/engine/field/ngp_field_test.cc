#include "engine/field/ngp_field.h"

#include <cstring>

#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

NgpField RandomField() {
  const kernels::HashGridShape shape = NgpHashGridShape({.log2_hashmap_size = 12});
  Buffer<float> table(size_t{32} * shape.entries()), weights(kNgpWeights);
  const std::vector<float> entries = RandomFloats(table.size(), -1, 1, 1);
  std::copy(entries.begin(), entries.end(), table.begin());
  const std::vector<float> values = RandomFloats(weights.size(), -0.3f, 0.3f, 2);
  std::copy(values.begin(), values.end(), weights.begin());
  return NgpField(shape, {{-1, -1, -1}, {1, 1, 1}}, std::move(table), std::move(weights));
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

TEST(NgpFieldTest, DensityAloneAndWithColourAreTheSameBytesInBatchesOfAnySize) {
  const NgpField field = RandomField();
  constexpr int kSamples = 37;
  const auto workspace = field.NewWorkspace(kSamples), other = field.NewWorkspace(1);
  const std::vector<Vec3> positions = RandomPoints(kSamples, -1, 1, 3);
  const std::vector<Vec3> directions = RandomDirections(kSamples, 4);
  std::vector<float> alone(kSamples), sigmas(kSamples), single(kSamples);
  std::vector<Vec3> colours(kSamples), single_colours(kSamples);
  field.Density(kSamples, positions.data(), alone.data(), workspace.get());
  field.DensityAndColour(kSamples, positions.data(), directions.data(), sigmas.data(),
                         colours.data(), workspace.get());
  for (int i = 0; i < kSamples; ++i) {
    field.DensityAndColour(1, &positions[i], &directions[i], &single[i], &single_colours[i],
                           other.get());
  }
  EXPECT_EQ(alone, sigmas);
  EXPECT_EQ(single, sigmas);
  EXPECT_EQ(single_colours, colours);
}

TEST(NgpFieldTest, ColoursAreBetweenZeroAndOneAndChangeWithTheDirection) {
  const NgpField field = RandomField();
  const auto workspace = field.NewWorkspace(2);
  const Vec3 positions[] = {{0.1f, 0.2f, 0.3f}, {0.1f, 0.2f, 0.3f}};
  const Vec3 directions[] = {{0, 0, 1}, {1, 0, 0}};
  float sigmas[2];
  Vec3 colours[2];
  field.DensityAndColour(2, positions, directions, sigmas, colours, workspace.get());
  EXPECT_EQ(sigmas[0], sigmas[1]);
  EXPECT_FALSE(colours[0] == colours[1]);
  for (const Vec3& colour : colours) {
    for (int c = 0; c < 3; ++c) {
      EXPECT_GT(colour[c], 0);
      EXPECT_LT(colour[c], 1);
    }
  }
}

}  // namespace
}  // namespace nerf
