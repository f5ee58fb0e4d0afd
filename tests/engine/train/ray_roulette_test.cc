#include "engine/train/ray_roulette.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

constexpr float kLimit = 0.1f;

std::vector<float> FactorsOf(const std::vector<float>& weights, float offset) {
  RayRoulette roulette;
  for (const float weight : weights) roulette.Count(weight, kLimit);
  roulette.Start(kLimit, offset);
  std::vector<float> factors;
  for (const float weight : weights) factors.push_back(roulette.Factor(weight, kLimit));
  return factors;
}

TEST(RayRouletteTest, HeavySamplesTrainForTheirOwnWeightAndLightOnesForEqualShares) {
  // The light ones sum to 0.16, so two train for 0.08 each.
  const std::vector<float> weights = {0.02f, 0.1f, 0.05f, 0.6f, 0, 0.06f, 0.03f};
  const std::vector<float> factors = FactorsOf(weights, 0.5f);
  EXPECT_EQ(factors[1], 1);
  EXPECT_EQ(factors[3], 1);
  EXPECT_EQ(factors[0], 0);
  EXPECT_FLOAT_EQ(factors[2] * weights[2], 0.08f) << "0.04 of 0.16 lies in it";
  EXPECT_EQ(factors[4], 0) << "without weight";
  EXPECT_FLOAT_EQ(factors[5] * weights[5], 0.08f) << "and 0.12 in this one";
  EXPECT_EQ(factors[6], 0);
}

TEST(RayRouletteTest, ASampleIsHitTwiceWhereTheStepsAreShorterThanItsWeight) {
  const std::vector<float> factors = FactorsOf({0.09f, 0.03f}, 0);  // two for 0.06 each
  EXPECT_FLOAT_EQ(factors[0], 2 * 0.06f / 0.09f);
  EXPECT_EQ(factors[1], 0);
}

TEST(RayRouletteTest, RaysWithoutLightSamplesAreLeftAsTheyAre) {
  EXPECT_EQ(FactorsOf({0.7f, 0.3f}, 0.9f), (std::vector<float>{1, 1}));
  EXPECT_EQ(FactorsOf({0, 0}, 0), (std::vector<float>{0, 0}));
  EXPECT_TRUE(FactorsOf({}, 0.3f).empty());
}

TEST(RayRouletteTest, TheSumStaysAndEachSamplesMeanIsItsWeight) {
  const std::vector<float> weights = RandomFloats(40, 0, 0.13f, 7);
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
  constexpr int kOffsets = 4096;
  std::vector<double> means(weights.size());
  for (int k = 0; k < kOffsets; ++k) {
    const std::vector<float> factors = FactorsOf(weights, static_cast<float>(k) / kOffsets);
    float trained = 0;
    int n_light = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      trained += factors[i] * weights[i];
      means[i] += static_cast<double>(factors[i]) / kOffsets;
      if (weights[i] < kLimit && factors[i] > 0) ++n_light;
    }
    ASSERT_NEAR(trained, sum, 1e-4f) << k;
    ASSERT_LE(n_light, 1 + static_cast<int>(sum / kLimit)) << k;
  }
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(means[i], 1, 0.1) << weights[i];
}

}  // namespace
}  // namespace nerf
