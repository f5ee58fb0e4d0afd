#include "engine/methods/ngp/proposal_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

TEST(RaySpanTest, IsThePartOfTheRayInTheBox) {
  const Aabb box{{-1, -1, -1}, {1, 1, 1}};
  const RaySpan across = SpanOfRay(box, {{-3, 0, 0}, {1, 0, 0}}, false);
  EXPECT_EQ(across.t_near, 2);
  EXPECT_EQ(across.t_far, 4);
  EXPECT_EQ(SpanOfRay(box, {{-3, 0, 0}, {1, 0, 0}, 2.5f, 3}, false).t_near, 2.5f);
  EXPECT_EQ(SpanOfRay(box, {{-3, 0, 0}, {1, 0, 0}, 2.5f, 3}, false).t_far, 3);
  EXPECT_TRUE(SpanOfRay(box, {{-3, 2, 0}, {1, 0, 0}}, false).IsEmpty());
  EXPECT_TRUE(SpanOfRay(box, {{3, 0, 0}, {1, 0, 0}}, false).IsEmpty());
}

TEST(RaySpanTest, DisparityBeginsAwayFromTheCamera) {
  const RaySpan span = SpanOfRay({{-1, -1, -1}, {1, 1, 1}}, {{0, 0, 0}, {1, 0, 0}}, true);
  EXPECT_FLOAT_EQ(span.t_near, 2e-3f);
  EXPECT_FLOAT_EQ(span.DistanceAt(0), 2e-3f);
  EXPECT_FLOAT_EQ(span.DistanceAt(1), 1);
  EXPECT_FLOAT_EQ(1 / span.DistanceAt(0.25f), 0.75f / 2e-3f + 0.25f);
}

TEST(EvenEdgesTest, InnerEdgesAreShiftedTogether) {
  float edges[5];
  EvenEdges(4, 0.5f, edges);
  for (int i = 0; i <= 4; ++i) EXPECT_FLOAT_EQ(edges[i], 0.25f * static_cast<float>(i));
  EvenEdges(4, 0, edges);
  EXPECT_FLOAT_EQ(edges[0], 0);
  EXPECT_FLOAT_EQ(edges[1], 0.125f);
  EXPECT_FLOAT_EQ(edges[4], 1);
}

TEST(AnnealedExponentTest, RisesFromZeroToOneInATenthOfTheBudget) {
  EXPECT_EQ(AnnealedExponent(0), 0);
  EXPECT_FLOAT_EQ(AnnealedExponent(0.05), 5.0f / 5.5f);
  EXPECT_EQ(AnnealedExponent(0.1), 1);
  EXPECT_EQ(AnnealedExponent(0.9), 1);
}

// The cumulative distribution at s, in double precision.
double Cumulative(const std::vector<float>& edges, const std::vector<float>& weights,
                  double exponent, double s) {
  double sum = 0, below = 0;
  for (const float w : weights) sum += std::pow(w, exponent);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double covered = std::clamp((s - edges[i]) / (edges[i + 1] - edges[i]), 0.0, 1.0);
    const double share =
        sum > 0 ? 0.99 * std::pow(weights[i], exponent) / sum + 0.01 * (edges[i + 1] - edges[i])
                : edges[i + 1] - edges[i];
    below += share * covered;
  }
  return below;
}

TEST(ResampledEdgesTest, LieAtEvenSharesOfTheDistribution) {
  for (const int n : {1, 2, 7, 64}) {
    std::vector<float> edges(n + 1);
    EvenEdges(n, 0.3f, edges.data());
    std::vector<float> weights = RandomFloats(n, 0, 1, 5);
    weights[n / 2] = 0;
    for (const float exponent : {0.4f, 1.0f}) {
      for (const float jitter : {0.0f, 0.5f, 0.999f}) {
        constexpr int kEdges = 33;
        float found[kEdges];
        ResampledEdges(n, edges.data(), weights.data(), exponent, kEdges - 1, jitter, found);
        EXPECT_TRUE(std::is_sorted(found, found + kEdges));
        for (int k = 0; k < kEdges; ++k) {
          // Sums of 64 shares in single precision.
          EXPECT_NEAR(Cumulative(edges, weights, exponent, found[k]),
                      (k + static_cast<double>(jitter)) / kEdges, 1e-5)
              << n << ", " << exponent << ", " << jitter << ", edge " << k;
        }
      }
    }
  }
}

TEST(ResampledEdgesTest, RayThatMeetsNothingIsSampledEvenly) {
  const float edges[] = {0, 0.5f, 1}, weights[] = {0, 0};
  for (const float exponent : {0.0f, 1.0f}) {
    float found[4];
    ResampledEdges(2, edges, weights, exponent, 3, 0.5f, found);
    for (int k = 0; k < 4; ++k)
      EXPECT_NEAR(found[k], (static_cast<float>(k) + 0.5f) / 4, 1e-6f) << exponent;
  }
}

TEST(InterlevelLossTest, CountsWhatIsAboveTheBound) {
  const float edges[] = {0, 0.5f, 1}, weights[] = {0.25f, 0.5f};
  // The first lies in both, the second in the second alone.
  const float field_edges[] = {0.25f, 0.75f, 0.875f}, field_weights[] = {0.7f, 0.6f};
  float gradient[2];
  const double loss = InterlevelLoss(2, edges, weights, 2, field_edges, field_weights, gradient);
  EXPECT_NEAR(loss, 0.1 * 0.1 / 0.6, 1e-6);
  EXPECT_EQ(gradient[0], 0);
  EXPECT_NEAR(gradient[1], -2 * 0.1 / 0.6, 1e-6);
}

TEST(InterlevelLossTest, IsZeroWhereTheProposalBoundsTheField) {
  const float edges[] = {0, 1}, weights[] = {1};
  const float field_edges[] = {0, 0.5f, 1}, field_weights[] = {0.5f, 0.5f};
  float gradient[1];
  EXPECT_EQ(InterlevelLoss(1, edges, weights, 2, field_edges, field_weights, gradient), 0);
  EXPECT_EQ(gradient[0], 0);
}

TEST(InterlevelLossTest, GradientIsThatOfTheLoss) {
  constexpr int kN = 12, kM = 7;
  std::vector<float> edges(kN + 1), field_edges(kM + 1);
  EvenEdges(kN, 0.2f, edges.data());
  EvenEdges(kM, 0.7f, field_edges.data());
  std::vector<float> weights = RandomFloats(kN, 0, 0.1f, 3);
  const std::vector<float> field_weights = RandomFloats(kM, 0.1f, 0.4f, 4);
  std::vector<float> gradient(kN), unused(kN);
  const auto loss = [&](float* grad) {
    return InterlevelLoss(kN, edges.data(), weights.data(), kM, field_edges.data(),
                          field_weights.data(), grad);
  };
  EXPECT_GT(loss(gradient.data()), 0);
  for (int i = 0; i < kN; ++i) {
    constexpr float kStep = 1.0f / 1024;
    const float kept = weights[i];
    weights[i] = kept + kStep;
    const double above = loss(unused.data());
    weights[i] = kept - kStep;
    const double below = loss(unused.data());
    weights[i] = kept;
    // The loss is quadratic where no interval crosses its bound.
    EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 2e-3) << i;
  }
}

}  // namespace
}  // namespace nerf
