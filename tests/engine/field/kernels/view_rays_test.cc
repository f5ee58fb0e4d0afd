#include "engine/field/kernels/view_rays.h"

#include <cmath>

#include "gtest/gtest.h"

namespace nerf::kernels {
namespace {

constexpr float kLimit = 0.03f;

// The state after one sample at distance 1 that leaves this transmittance.
ViewAccumulator LightAfter(float transmittance) {
  ViewAccumulator light;
  light.AddSample(1 - transmittance, 1, kLimit);
  return light;
}

TEST(ViewAccumulatorTest, TransmittanceFadesLinearlyFromTwiceTheLimitToTheLimit) {
  EXPECT_FLOAT_EQ(LightAfter(0.2f).Opacity(), 0.8f);
  EXPECT_FLOAT_EQ(LightAfter(2 * kLimit).Opacity(), 1 - 2 * kLimit);
  EXPECT_NEAR(LightAfter(1.5f * kLimit).Opacity(), 1 - kLimit, 1e-6);
  EXPECT_EQ(LightAfter(kLimit - 1e-6f).Opacity(), 1);
  EXPECT_TRUE(LightAfter(kLimit - 1e-6f).Ended());
  EXPECT_FALSE(LightAfter(kLimit + 1e-3f).Ended());
}

TEST(ViewAccumulatorTest, EmptySamplesHaveNoWeightHoweverLittleIsLeft) {
  for (const float transmittance : {0.9f, 0.055f, 0.04f}) {
    ViewAccumulator light = LightAfter(transmittance);
    const float opacity = light.Opacity(), depth = light.ExpectedDepth();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(light.AddSample(0, 7, kLimit), 0);
    EXPECT_EQ(light.Opacity(), opacity);
    EXPECT_EQ(light.ExpectedDepth(), depth);
  }
}

TEST(ViewAccumulatorTest, WithoutALimitTransmittanceIsTheProductOfAllSamples) {
  ViewAccumulator light;
  for (int i = 0; i < 20; ++i) light.AddSample(0.5f, 1, 0);
  EXPECT_FLOAT_EQ(1 - light.Opacity(), std::ldexp(1.0f, -20));
  EXPECT_FALSE(light.Ended());
}

TEST(ViewAccumulatorTest, ColorIsWeightedByOpacityInOrder) {
  ViewAccumulator light;
  const Vec3 red{1, 0, 0}, blue{0, 0, 1};
  light.AddColor(red, light.AddSample(0.75f, 1, kLimit));
  EXPECT_FLOAT_EQ(light.ColorOn(blue).x, 0.75f);
  EXPECT_FLOAT_EQ(light.ColorOn(blue).z, 0.25f);
  light.AddColor(red, light.AddSample(0.9f, 2, kLimit));
  EXPECT_EQ(light.ColorOn(blue).z, 0) << "the last sample gets the remaining weight";
}

}  // namespace
}  // namespace nerf::kernels
