#include "engine/methods/ngp/network.h"

#include "engine/base/buffer.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/simd_path.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "gtest/gtest.h"
#include "tests/testing/plain_bf16_unit.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/ngp_field.h"

namespace nerf {
namespace {

TEST(NgpNetworkTest, LayersFillTheWeightBufferOneAfterAnother) {
  int offset = 0;
  for (const NgpLayer& layer : kNgpLayers) {
    EXPECT_EQ(layer.offset, offset);
    EXPECT_EQ(layer.n_out % 16, 0);
    offset += layer.n_in * layer.n_out;
  }
  EXPECT_EQ(offset, kNgpWeights);
}

TEST(NgpNetworkTest, FinestLevelHasTheAskedCellsAlongTheInnermostBox) {
  const auto two = NgpHashGridShape({.n_features_per_level = 2, .finest_resolution = 2048});
  EXPECT_EQ(two.n_levels, 16);
  EXPECT_EQ(two.resolution[15], 2048);
  const auto four = NgpHashGridShape({.finest_resolution = 1024, .n_doublings = 2});
  EXPECT_EQ(four.n_levels, 8);
  EXPECT_EQ(four.resolution[7], 4 * 1024);
  EXPECT_EQ(four.resolution[0], 16);
}

TEST(NgpNetworkTest, BoxMapsToTheUnitCubeInPlace) {
  const Aabb box{{-1, 0, 2}, {1, 4, 3}};
  Vec3 points[] = {{-1, 0, 2}, {1, 4, 3}, {0, 1, 2.5f}, {3, -4, 2}};
  ToUnitCube(box, 4, points, points);
  EXPECT_EQ(points[0], Vec3(0, 0, 0));
  EXPECT_EQ(points[1], Vec3(1, 1, 1));
  EXPECT_EQ(points[2], Vec3(0.5f, 0.25f, 0.5f));
  EXPECT_EQ(points[3], Vec3(2, -1, 0));
}

TEST(NgpNetworkTest, DensityAndColorAgreeWithTheReference) {
  // Coarse levels only: at 2048 cells a float coordinate is off by 1e-4 of a cell.
  kernels::HashGridShape shape = kernels::MakeHashGridShape(16, 2, 12, 4, 128);
  Buffer<float> table(size_t{32} * shape.entries()), weights(kNgpWeights);
  const std::vector<float> entries = RandomFloats(table.size(), -1, 1, 1);
  std::copy(entries.begin(), entries.end(), table.begin());
  for (const NgpLayer& layer : kNgpLayers) {
    const std::vector<float> values = RandomFloats(layer.n_in * layer.n_out, -0.3f, 0.3f, 2);
    for (int i = 0; i < layer.n_in * layer.n_out; ++i) {
      if (i % layer.n_out < layer.n_out_used) weights[layer.offset + i] = values[i];
    }
  }
  const NgpNetwork network{shape, {}, table.data(), weights.data(), 0.5f};
  for (int n : {0, 1, 4, 33}) {
    const std::vector<Vec3> unit = RandomPoints(n, 0, 1, 3), directions = RandomDirections(n, 4);
    std::vector<float> encodings(n * kEncodingWidth), hidden(n * kHiddenWidth),
        hidden1(n * kHiddenWidth), geometry(n * kGeometryWidth), harmonics(n * kDirectionWidth),
        colors(n * kColorWidth);
    NgpDensityForward(network, n, unit.data(), encodings.data(), hidden.data(), geometry.data());
    for (int i = 0; i < n; ++i)
      kernels::SphericalHarmonics4(directions[i], harmonics.data() + i * kDirectionWidth);
    NgpDirectionTerms(network, n, harmonics.data(), hidden.data());
    NgpColorForward(network, n, geometry.data(), hidden.data(), hidden1.data(), colors.data());
    for (int i = 0; i < n; ++i) {
      const reference::FieldSample expected =
          reference::NgpFieldAt(network, unit[i], directions[i]);
      // Encodings are exact to 1e-5; three layers with weights around 0.3 keep that order of error.
      EXPECT_NEAR(kernels::DensityFromOutput(geometry[i * kGeometryWidth], 0.5f), expected.sigma,
                  2e-4 * expected.sigma);
      for (int c = 0; c < 3; ++c) EXPECT_NEAR(colors[i * kColorWidth + c], expected.color[c], 2e-4);
    }
  }
}

TEST(NgpNetworkTest, PairsOfTheWeightsGiveTheSameBytesAsTheWeights) {
  AddPlainBf16Unit();
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("BF16_PLAIN"));
  constexpr int kSamples = 33;
  kernels::HashGridShape shape = kernels::MakeHashGridShape(16, 2, 12, 4, 128);
  Buffer<float> table(size_t{32} * shape.entries());
  const std::vector<float> entries = RandomFloats(table.size(), -1, 1, 1);
  std::copy(entries.begin(), entries.end(), table.begin());
  const std::vector<float> weights = RandomFloats(kNgpWeights, -0.3f, 0.3f, 2);
  const std::vector<float> harmonics = RandomFloats(kSamples * kDirectionWidth, -1, 1, 3);
  const std::vector<Vec3> unit = RandomPoints(kSamples, 0, 1, 4);
  Buffer<uint32_t> pairs(kNgpWeightPairs);
  NgpNetwork network{shape, {}, table.data(), weights.data(), 0.5f};
  std::vector<float> found[2];
  for (const bool as_pairs : {false, true}) {
    if (as_pairs) network.weight_pairs = PackNgpWeightPairs(weights.data(), false, pairs.data());
    ASSERT_EQ(network.weight_pairs != nullptr, as_pairs);
    std::vector<float> encodings(kSamples * kEncodingWidth), hidden(kSamples * kHiddenWidth),
        hidden1(kSamples * kHiddenWidth), geometry(kSamples * kGeometryWidth),
        colors(kSamples * kColorWidth);
    NgpDensityForward(network, kSamples, unit.data(), encodings.data(), hidden.data(),
                      geometry.data());
    NgpDirectionTerms(network, kSamples, harmonics.data(), hidden.data());
    NgpColorForward(network, kSamples, geometry.data(), hidden.data(), hidden1.data(),
                    colors.data());
    for (const auto& values : {geometry, colors})
      found[as_pairs].insert(found[as_pairs].end(), values.begin(), values.end());
  }
  EXPECT_EQ(found[0], found[1]);
  ASSERT_TRUE(kernels::cpu::ForceSimdPath("FP32"));
}

}  // namespace
}  // namespace nerf
