#include "engine/base/half_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace nerf {
namespace {

float RoundTrip(float value) { return HalfToFloat(FloatToHalf(value)); }

// The nearest half by search among all of them, ties to the even one.
float NearestHalf(float value, const std::vector<float>& halves) {
  float best = halves[0];
  double best_distance = INFINITY;
  for (size_t i = 0; i < halves.size(); ++i) {
    const double distance = std::abs(double{value} - double{halves[i]});
    if (distance < best_distance || (distance == best_distance && i % 2 == 0)) {
      best = halves[i];
      best_distance = distance;
    }
  }
  return best;
}

// Every finite half that is not negative, by its formula; index = bits.
std::vector<float> AllHalves() {
  std::vector<float> halves;
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = bits >> 10, mantissa = bits & 0x3ff;
    halves.push_back(static_cast<float>(
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25)));
  }
  return halves;
}

TEST(HalfFloatTest, EveryHalfStaysItself) {
  for (float half : AllHalves()) {
    ASSERT_EQ(RoundTrip(half), half);
    ASSERT_EQ(std::bit_cast<uint32_t>(RoundTrip(-half)), std::bit_cast<uint32_t>(-half));
  }
}

TEST(HalfFloatTest, MiddlesGoToEvenAndNeighborsToTheNearest) {
  const std::vector<float> halves = AllHalves();
  for (size_t i = 0; i + 1 < halves.size(); i += 97) {
    const float middle = (halves[i] + halves[i + 1]) / 2;  // exact in a float
    const float even = i % 2 == 0 ? halves[i] : halves[i + 1];
    ASSERT_EQ(RoundTrip(middle), even) << i;
    ASSERT_EQ(RoundTrip(std::nextafter(middle, 0.0f)), halves[i]) << i;
    ASSERT_EQ(RoundTrip(std::nextafter(middle, INFINITY)), halves[i + 1]) << i;
  }
  for (float value : {3e-8f, 2.9e-8f, 1e-7f, 6.1e-5f, 0.1f, 3.14159f, 1234.56f, 60000.0f}) {
    EXPECT_EQ(RoundTrip(value), NearestHalf(value, halves)) << value;
  }
}

TEST(HalfFloatTest, RangeEndsAreHandled) {
  EXPECT_EQ(RoundTrip(65519.0f), 65504.0f);
  EXPECT_EQ(RoundTrip(65520.0f), INFINITY);
  EXPECT_EQ(RoundTrip(-1e30f), -INFINITY);
  EXPECT_EQ(RoundTrip(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(RoundTrip(NAN)));
  EXPECT_EQ(RoundTrip(1e-30f), 0.0f);
  EXPECT_EQ(RoundTrip(std::numeric_limits<float>::denorm_min()), 0.0f);
}

}  // namespace
}  // namespace nerf
