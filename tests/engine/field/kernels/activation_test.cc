#include "engine/field/kernels/activation.h"

#include <cmath>
#include <vector>

#include "engine/field/kernels/simd_path.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

// Around the lengths of every vector width, 4 to 16 lanes.
constexpr int kActivationSizes[] = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100};
// The vector exp and expm1 are accurate to a few units in the last place.
constexpr double kRelativeTolerance = 1e-6;
// Exponents are cut off at -80: exp(-80) = 1.8e-35 stands for everything smaller.
constexpr double kSmallestDensity = 2e-35;
constexpr float kShift = 0.75f;

class ActivationTest : public SimdPathTest {};
NERF_INSTANTIATE_SIMD_PATHS(ActivationTest);

TEST_P(ActivationTest, KernelsRunOnThePathThatWasChosen) {
  EXPECT_STREQ(cpu::SimdPath(), hwy::TargetName(GetParam()));
}

TEST_P(ActivationTest, DensityAndAlphaAgreeWithTheReferenceForAllSizes) {
  constexpr int kStride = 3;
  for (int n : kActivationSizes) {
    const std::vector<float> outputs = RandomFloats(n * kStride, -20, 12, 1);
    const std::vector<float> deltas = RandomFloats(n, 1e-5f, 1e-2f, 2);
    std::vector<float> sigmas(n + 1, -7), alphas(n + 1, -7);
    cpu::DensityActivation({.n = n,
                            .outputs = outputs.data(),
                            .stride = kStride,
                            .shift = kShift,
                            .deltas = deltas.data(),
                            .sigmas = sigmas.data(),
                            .alphas = alphas.data()});
    for (int i = 0; i < n; ++i) {
      const double sigma = std::exp(static_cast<double>(outputs[i * kStride]) - kShift);
      const double alpha = -std::expm1(-sigma * deltas[i]);
      EXPECT_NEAR(sigmas[i], sigma, kRelativeTolerance * sigma) << n << ", " << i;
      EXPECT_NEAR(alphas[i], alpha, 2 * kRelativeTolerance * alpha) << n << ", " << i;
    }
    EXPECT_EQ(sigmas[n], -7) << "wrote past the end";
    EXPECT_EQ(alphas[n], -7) << "wrote past the end";
  }
}

TEST_P(ActivationTest, DensityWithoutAlphasNeedsNoDeltas) {
  const float outputs[] = {kShift, kShift + std::log(2.0f)};
  float sigmas[2];
  cpu::DensityActivation(
      {.n = 2, .outputs = outputs, .stride = 1, .shift = kShift, .sigmas = sigmas});
  EXPECT_FLOAT_EQ(sigmas[0], 1);
  EXPECT_FLOAT_EQ(sigmas[1], 2);
}

TEST_P(ActivationTest, ExtremeOutputsStayFinite) {
  const float outputs[] = {-1e30f, -200, 16, 17, 1e30f};
  const float deltas[] = {1, 1, 1, 1, 1e6f};
  float sigmas[5], alphas[5];
  cpu::DensityActivation({.n = 5,
                          .outputs = outputs,
                          .stride = 1,
                          .shift = kShift,
                          .deltas = deltas,
                          .sigmas = sigmas,
                          .alphas = alphas});
  EXPECT_NEAR(sigmas[0], 0, kSmallestDensity);
  EXPECT_NEAR(sigmas[1], 0, kSmallestDensity);
  const double most = std::exp(15.0);  // kDensityMaxExponent
  for (int i = 2; i < 5; ++i) {
    EXPECT_NEAR(sigmas[i], most, kRelativeTolerance * most);
    EXPECT_FLOAT_EQ(alphas[i], 1);
  }
}

TEST_P(ActivationTest, AlphaOfThinSamplesKeepsItsDigits) {
  const float output = 0, delta = 1e-10f;  // sigma 1: 1 - exp(-1e-10) is 0 in floats
  float sigma, alpha;
  cpu::DensityActivation({.n = 1,
                          .outputs = &output,
                          .stride = 1,
                          .deltas = &delta,
                          .sigmas = &sigma,
                          .alphas = &alpha});
  EXPECT_NEAR(alpha, 1e-10, 1e-15);
  EXPECT_NEAR(AlphaFromDensity(1, 1e-10f), 1e-10, 1e-15);
}

TEST_P(ActivationTest, AlphasAgreeWithTheReferenceForAllSizes) {
  for (int n : kActivationSizes) {
    std::vector<float> sigmas = RandomFloats(n, 0, 1000, 1);
    if (n > 0) sigmas[0] = std::exp(15.0f);  // kDensityMaxExponent
    const std::vector<float> deltas = RandomFloats(n, 1e-9f, 1e-2f, 2);
    std::vector<float> alphas(n + 1, -7);
    cpu::Alphas(
        {.n = n, .sigmas = sigmas.data(), .deltas = deltas.data(), .alphas = alphas.data()});
    for (int i = 0; i < n; ++i) {
      const double alpha = -std::expm1(-static_cast<double>(sigmas[i]) * deltas[i]);
      EXPECT_NEAR(alphas[i], alpha, 2 * kRelativeTolerance * alpha) << n << ", " << i;
    }
    EXPECT_EQ(alphas[n], -7) << "wrote past the end";
  }
}

TEST_P(ActivationTest, SigmoidAgreesWithTheReferenceForAllSizes) {
  for (int n : kActivationSizes) {
    const std::vector<float> inputs = RandomFloats(n, -30, 30, 3);
    std::vector<float> values = inputs;
    values.push_back(-7);
    cpu::Sigmoid({.n = n, .values = values.data()});
    for (int i = 0; i < n; ++i) {
      const double expected = 1 / (1 + std::exp(-static_cast<double>(inputs[i])));
      EXPECT_NEAR(values[i], expected, kRelativeTolerance * expected) << n << ", " << i;
    }
    EXPECT_EQ(values[n], -7) << "wrote past the end";
  }
}

TEST_P(ActivationTest, SigmoidOfExtremesIsZeroOrOne) {
  float values[] = {-1e30f, -200, 0, 200, 1e30f};
  cpu::Sigmoid({.n = 5, .values = values});
  EXPECT_NEAR(values[0], 0, kSmallestDensity);
  EXPECT_NEAR(values[1], 0, kSmallestDensity);
  EXPECT_FLOAT_EQ(values[2], 0.5f);
  EXPECT_EQ(values[3], 1);
  EXPECT_EQ(values[4], 1);
}

}  // namespace
}  // namespace nerf::kernels
