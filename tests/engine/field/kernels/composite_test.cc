#include "engine/field/kernels/composite.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "engine/field/kernels/activation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/composite.h"

namespace nerf::kernels {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// Composites packed samples by the scalar steps, as the renderer and the training step do.
struct CompositeWalk {
  std::vector<float> transmittances, weights, left;
};
CompositeWalk Forward(const std::vector<int>& ray_offsets, const std::vector<float>& alphas) {
  CompositeWalk walk;
  for (size_t r = 0; r + 1 < ray_offsets.size(); ++r) {
    float transmittance = 1;
    for (int i = ray_offsets[r]; i < ray_offsets[r + 1]; ++i) {
      walk.transmittances.push_back(transmittance);
      walk.weights.push_back(CompositeForwardStep(alphas[i], &transmittance));
    }
    walk.left.push_back(transmittance);
  }
  return walk;
}

std::vector<float> Alphas(const std::vector<float>& sigmas, const std::vector<float>& deltas) {
  std::vector<float> alphas;
  for (size_t i = 0; i < sigmas.size(); ++i)
    alphas.push_back(AlphaFromDensity(sigmas[i], deltas[i]));
  return alphas;
}

// d sum(grad_weights * weights) / d sigma.
std::vector<float> Backward(const std::vector<int>& ray_offsets, const std::vector<float>& sigmas,
                            const std::vector<float>& deltas,
                            const std::vector<float>& grad_weights,
                            const std::vector<float>& grad_left) {
  const std::vector<float> alphas = Alphas(sigmas, deltas);
  const CompositeWalk walk = Forward(ray_offsets, alphas);
  std::vector<float> grad_sigmas;
  for (size_t r = 0; r + 1 < ray_offsets.size(); ++r) {
    float behind = grad_left[r] * walk.left[r];
    for (int i = ray_offsets[r]; i < ray_offsets[r + 1]; ++i)
      behind += grad_weights[i] * walk.weights[i];
    float transmittance = 1;
    for (int i = ray_offsets[r]; i < ray_offsets[r + 1]; ++i) {
      grad_sigmas.push_back(CompositeBackwardStep(grad_weights[i], alphas[i], walk.weights[i],
                                                  deltas[i], &transmittance, &behind));
    }
  }
  return grad_sigmas;
}

// Rays of 1, 0 and 4 samples: the worked example of nerfacc's tests.
const std::vector<int> kRayOffsets = {0, 1, 1, 5};
const std::vector<float> kAlphas = {.4f, .3f, .8f, .8f, .5f};

TEST(CompositeTest, WeightsOfTheWorkedExample) {
  const CompositeWalk walk = Forward(kRayOffsets, kAlphas);
  EXPECT_THAT(walk.transmittances, Pointwise(FloatNear(1e-6f), {1.f, 1.f, .7f, .14f, .028f}));
  EXPECT_THAT(walk.weights, Pointwise(FloatNear(1e-6f), {.4f, .3f, .56f, .112f, .014f}));
  EXPECT_THAT(walk.left, Pointwise(FloatNear(1e-6f), {.6f, 1.f, .014f}));
}

TEST(CompositeTest, VisibilityOfTheWorkedExample) {
  const CompositeWalk walk = Forward(kRayOffsets, kAlphas);
  const auto visible = [&](float min_transmittance, float alpha_threshold) {
    std::vector<bool> seen;
    for (size_t i = 0; i < kAlphas.size(); ++i) {
      seen.push_back(
          IsVisible(walk.transmittances[i], kAlphas[i], min_transmittance, alpha_threshold));
    }
    return seen;
  };
  EXPECT_THAT(visible(.03f, 0), ElementsAre(true, true, true, true, false));
  EXPECT_THAT(visible(.05f, .35f), ElementsAre(true, false, true, true, false));
}

TEST(CompositeTest, SampleThatLeavesTooLittleTransmittanceGetsAlphaOne) {
  EXPECT_EQ(EffectiveAlpha(.5f, .1f, .04f), .5f);
  EXPECT_EQ(EffectiveAlpha(.5f, .1f, .06f), 1);
  EXPECT_EQ(EffectiveAlpha(.999f, 1, 0), .999f) << "there is no limit";
  EXPECT_EQ(EffectiveAlpha(0, 1, .5f), 0);
  // The gradient is 0, not the rounding error of the difference.
  float transmittance = .1f;
  float behind = .15f;
  EXPECT_EQ(CompositeBackwardStep(1.2f, 1, .1f, .01f, &transmittance, &behind), 0);
}

TEST(CompositeTest, AccumulatingAlongRaysSkipsNoRayWithoutSamples) {
  const std::vector<Vec3> values = RandomPoints(5, 0, 1);
  std::vector<Vec3> sums;
  for (size_t r = 0; r + 1 < kRayOffsets.size(); ++r) {
    Vec3 sum;
    for (int i = kRayOffsets[r]; i < kRayOffsets[r + 1]; ++i) sum = sum + values[i] * kAlphas[i];
    sums.push_back(sum);
  }
  EXPECT_EQ(sums[0], values[0] * .4f);
  EXPECT_EQ(sums[1], Vec3());
  EXPECT_NEAR(sums[2].x,
              .3f * values[1].x + .8f * values[2].x + .8f * values[3].x + .5f * values[4].x, 1e-6f);
}

TEST(CompositeTest, GradientsOfTheWorkedExample) {
  const std::vector<float> sigmas = {.4f, .8f, .1f, .8f, .1f}, deltas(5, 1.0f);
  const CompositeWalk walk = Forward(kRayOffsets, Alphas(sigmas, deltas));
  EXPECT_THAT(walk.weights, Pointwise(FloatNear(1e-4f), {.3297f, .5507f, .0428f, .2239f, .0174f}));
  // d sum(w) / d sigma is the final transmittance: exp(-.4) and exp(-1.8).
  EXPECT_THAT(Backward(kRayOffsets, sigmas, deltas, std::vector<float>(5, 1.0f), {0, 0, 0}),
              Pointwise(FloatNear(1e-4f), {.6703f, .1653f, .1653f, .1653f, .1653f}));
}

TEST(CompositeTest, UniformSlabLetsThroughWhatBeersLawSays) {
  constexpr int kSamples = 500;
  constexpr float kSigma = 2.5f, kLength = 1.2f;
  const CompositeWalk walk = Forward(
      {0, kSamples}, std::vector<float>(kSamples, AlphaFromDensity(kSigma, kLength / kSamples)));
  // Each step rounds once: 500 half units in the last place.
  EXPECT_NEAR(walk.left[0], std::exp(-kSigma * kLength), 3e-5 * std::exp(-kSigma * kLength));
  EXPECT_NEAR(std::accumulate(walk.weights.begin(), walk.weights.end(), 0.0) + walk.left[0], 1,
              3e-5);
}

TEST(CompositeTest, RaggedRaysAgreeWithTheReference) {
  const std::vector<int> offsets = {0, 0, 1, 3, 3, 20, 84, 149};
  const int n = offsets.back();
  const std::vector<float> sigmas = RandomFloats(n, 0, 4, 1),
                           deltas = RandomFloats(n, .01f, .1f, 2);
  const std::vector<float> grad_weights = RandomFloats(n, -1, 1, 3);
  const std::vector<float> grad_left = RandomFloats(offsets.size() - 1, -1, 1, 4);
  const auto wide = [](const std::vector<float>& v) {
    return std::vector<double>(v.begin(), v.end());
  };
  const reference::CompositeResult expected =
      reference::CompositeForward(offsets, wide(sigmas), wide(deltas));
  const CompositeWalk walk = Forward(offsets, Alphas(sigmas, deltas));
  // 65 samples a ray, a few roundings each.
  constexpr double kTolerance = 1e-5;
  for (int i = 0; i < n; ++i) EXPECT_NEAR(walk.weights[i], expected.weights[i], kTolerance) << i;
  const std::vector<double> expected_grad = reference::CompositeBackward(
      offsets, wide(sigmas), wide(deltas), wide(grad_weights), wide(grad_left));
  const std::vector<float> grad = Backward(offsets, sigmas, deltas, grad_weights, grad_left);
  for (int i = 0; i < n; ++i) EXPECT_NEAR(grad[i], expected_grad[i], kTolerance) << i;
}

TEST(CompositeReferenceTest, GradientsAgreeWithCentralDifferences) {
  const std::vector<int> offsets = {0, 4, 4, 9};
  const std::vector<float> sigmas_f = RandomFloats(9, 0, 4, 1),
                           deltas_f = RandomFloats(9, .1f, .5f, 2),
                           weights_f = RandomFloats(9, -1, 1, 3),
                           left_f = RandomFloats(3, -1, 1, 4);
  std::vector<double> sigmas(sigmas_f.begin(), sigmas_f.end());
  const std::vector<double> deltas(deltas_f.begin(), deltas_f.end()),
      grad_weights(weights_f.begin(), weights_f.end()), grad_left(left_f.begin(), left_f.end());
  const auto loss = [&] {
    const reference::CompositeResult r = reference::CompositeForward(offsets, sigmas, deltas);
    return std::inner_product(grad_weights.begin(), grad_weights.end(), r.weights.begin(), 0.0) +
           std::inner_product(grad_left.begin(), grad_left.end(), r.ray_transmittance.begin(), 0.0);
  };
  const std::vector<double> grad =
      reference::CompositeBackward(offsets, sigmas, deltas, grad_weights, grad_left);
  constexpr double kStep = 1e-6;  // error kStep^2 of the difference, 1e-16 / kStep of rounding
  for (size_t i = 0; i < sigmas.size(); ++i) {
    EXPECT_NEAR(grad[i], CentralDifference(&sigmas[i], kStep, loss), 1e-8) << i;
  }
}

}  // namespace
}  // namespace nerf::kernels
