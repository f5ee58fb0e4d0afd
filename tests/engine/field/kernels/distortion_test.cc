#include "engine/field/kernels/distortion.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/distortion.h"

namespace nerf::kernels {
namespace {

constexpr float kLength = 0.05f;

double Reference(const std::vector<double>& weights, const std::vector<float>& coordinates) {
  return reference::Distortion(weights, std::vector<double>(coordinates.begin(), coordinates.end()),
                               kLength);
}

Distortion DistortionWalk(const std::vector<float>& weights,
                          const std::vector<float>& coordinates) {
  Distortion distortion;
  for (size_t i = 0; i < weights.size(); ++i) distortion.Add(weights[i], coordinates[i], kLength);
  return distortion;
}

// Samples in order, some side by side and some far apart, with weights that sum to less than one.
struct SummedRay {
  explicit SummedRay(size_t n) : weights(RandomFloats(n, 0, 1.0f / n, 1)) {
    float place = 0.3f;
    for (float gap : RandomFloats(n, 0, 0.4f, 2)) coordinates.push_back(place += kLength + gap);
  }
  std::vector<float> weights, coordinates;
};

TEST(DistortionTest, OneWalkGivesTheDoubleSum) {
  for (size_t n : {0, 1, 2, 7, 100}) {
    const SummedRay ray(n);
    const std::vector<double> weights(ray.weights.begin(), ray.weights.end());
    const double expected = Reference(weights, ray.coordinates);
    EXPECT_NEAR(DistortionWalk(ray.weights, ray.coordinates).value, expected, 1e-5 * expected) << n;
  }
}

TEST(DistortionTest, OneSampleHasTheThirdOfItsLengthAlone) {
  Distortion distortion;
  distortion.Add(0.5f, 123, 0.3f);
  EXPECT_FLOAT_EQ(distortion.value, 0.25f * 0.3f / 3);
}

TEST(DistortionTest, GradientsMatchCentralDifferences) {
  const SummedRay ray(20);
  const Distortion whole = DistortionWalk(ray.weights, ray.coordinates);
  std::vector<double> weights(ray.weights.begin(), ray.weights.end());
  constexpr double kDifference = 1e-4;  // the sum is quadratic: the only error is rounding
  Distortion before;
  double twice = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double expected = CentralDifference(&weights[i], kDifference,
                                              [&] { return Reference(weights, ray.coordinates); });
    const float gradient =
        DistortionGradient(whole, before, ray.weights[i], ray.coordinates[i], kLength);
    EXPECT_NEAR(gradient, expected, 1e-5) << i;
    before.Add(ray.weights[i], ray.coordinates[i], kLength);
    twice += gradient * weights[i];
  }
  EXPECT_NEAR(twice, 2 * whole.value, 1e-5);
}

TEST(DistortionTest, CoordinatesGrowByOneStepPerSampleNearAndFar) {
  const MarchSteps steps{.step = 0.01f, .cone = 1.0f / 64};
  for (float t : {0.1f, 0.5f, 0.9f, 5.0f, 80.0f}) {
    const float next = steps.FromSteps(steps.ToSteps(t) + 1);
    EXPECT_NEAR(DistortionCoordinate(steps, next) - DistortionCoordinate(steps, t),
                kDistortionPerStep, 1e-5)
        << t;
  }
}

}  // namespace
}  // namespace nerf::kernels
