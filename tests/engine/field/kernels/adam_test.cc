#include "engine/field/kernels/adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/buffer.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/adam.h"
#include "tests/testing/simd_paths.h"

namespace nerf::kernels {
namespace {

constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-15;
// A moment has three roundings, an update about eight more relative to its own size.
constexpr double kMomentTolerance = 5e-7;
constexpr double kUpdateTolerance = 3e-6 * kRate;

AdamSettings Settings(int t, float l2 = 0) {
  return {.learning_rate = kRate,
          .beta1 = kBeta1,
          .beta2 = kBeta2,
          .epsilon = kEpsilon,
          .correction1 = static_cast<float>(1 / (1 - std::pow(kBeta1, t))),
          .correction2 = static_cast<float>(1 / (1 - std::pow(kBeta2, t))),
          .l2 = l2};
}

// Parameters and moments as after some training, and gradients.
struct State {
  explicit State(size_t n) : parameters(n), first(n), second(n), gradients(n) {
    const auto fill = [n](Buffer<float>& to, float low, float high, uint32_t stream) {
      const std::vector<float> values = RandomFloats(n, low, high, stream);
      std::copy(values.begin(), values.end(), to.begin());
    };
    fill(parameters, -1, 1, 1);
    fill(first, -0.1f, 0.1f, 2);
    fill(second, 0.001f, 0.01f, 3);
    fill(gradients, -1, 1, 4);
  }
  reference::AdamState Expected(size_t i, int t, double l2 = 0) const {
    return reference::AdamUpdate({parameters[i], first[i], second[i]},
                                 gradients[i] + l2 * parameters[i], t, kRate, kBeta1, kBeta2,
                                 kEpsilon);
  }
  Buffer<float> parameters, first, second, gradients;
};

void ExpectNear(const State& state, size_t i, const reference::AdamState& expected) {
  EXPECT_NEAR(state.first[i], expected.first, kMomentTolerance) << i;
  EXPECT_NEAR(state.second[i], expected.second, kMomentTolerance) << i;
  EXPECT_NEAR(state.parameters[i], expected.parameter, kUpdateTolerance + 1.2e-7) << i;
}

class AdamTest : public SimdPathTest {};
NERF_INSTANTIATE_SIMD_PATHS(AdamTest);

TEST_P(AdamTest, DenseAgreesWithTheReferenceForAllSizes) {
  for (int n : {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 100}) {
    State state(n);
    const State before(n);
    cpu::AdamDense({.settings = Settings(3, 0.1f),
                    .n = n,
                    .parameters = state.parameters.data(),
                    .first_moments = state.first.data(),
                    .second_moments = state.second.data(),
                    .gradients = state.gradients.data()});
    for (int i = 0; i < n; ++i) {
      ExpectNear(state, i, before.Expected(i, 3, 0.1));
      EXPECT_EQ(state.gradients[i], before.gradients[i]);
    }
  }
}

TEST_P(AdamTest, RowsHaveRatesOfTheirOwn) {
  constexpr int kN = 48;
  State state(kN);
  const State before(kN);
  std::vector<float> rates(kN);
  const AdamSettings settings = Settings(3);
  for (int i = 0; i < kN; ++i) rates[i] = 0.01f * static_cast<float>(i % 5);
  cpu::AdamRow({.settings = settings,
                .n = kN,
                .rates = rates.data(),
                .parameters = state.parameters.data(),
                .first_moments = state.first.data(),
                .second_moments = state.second.data(),
                .gradients = state.gradients.data()});
  for (int i = 0; i < kN; ++i) {
    State alone(kN);
    AdamSettings own = settings;
    own.learning_rate = rates[i];
    own.correction1 = 1;
    cpu::AdamDense({.settings = own,
                    .n = kN,
                    .parameters = alone.parameters.data(),
                    .first_moments = alone.first.data(),
                    .second_moments = alone.second.data(),
                    .gradients = alone.gradients.data()});
    EXPECT_EQ(state.parameters[i], alone.parameters[i]);
    EXPECT_EQ(state.first[i], alone.first[i]);
    EXPECT_EQ(state.second[i], alone.second[i]);
    EXPECT_EQ(state.parameters[i] == before.parameters[i], rates[i] == 0);
  }
}

TEST_P(AdamTest, FirstUpdateMovesByTheLearningRateWhateverTheGradient) {
  // Worked by hand: m / (1 - beta1) = g and v / (1 - beta2) = g^2, so the step is rate * sign(g).
  float parameters[] = {1, 1, 1, 1}, first[4] = {}, second[4] = {};
  const float gradients[] = {1e-6f, -1e-6f, 1e6f, -3};
  cpu::AdamDense({.settings = Settings(1),
                  .n = 4,
                  .parameters = parameters,
                  .first_moments = first,
                  .second_moments = second,
                  .gradients = gradients});
  EXPECT_NEAR(parameters[0], 0.99, 1e-6);
  EXPECT_NEAR(parameters[1], 1.01, 1e-6);
  EXPECT_NEAR(parameters[2], 0.99, 1e-6);
  EXPECT_NEAR(parameters[3], 1.01, 1e-6);
}

TEST_P(AdamTest, PaddingWithoutAnyGradientStaysZeroAtTheSmallestEpsilon) {
  float parameters[16] = {}, first[16] = {}, second[16] = {};
  const float gradients[16] = {};
  AdamSettings settings = Settings(1);
  settings.epsilon = 1e-30f;  // the smallest value that a config allows
  cpu::AdamDense({.settings = settings,
                  .n = 16,
                  .parameters = parameters,
                  .first_moments = first,
                  .second_moments = second,
                  .gradients = gradients});
  for (float parameter : parameters) EXPECT_EQ(parameter, 0);
}

TEST_P(AdamTest, SparseUpdatesWhatWasTouchedAndNothingElse) {
  // Flags are scanned 1024 lines at a time; with 1032 lines all are set.
  for (int n_lines : {0, 8, 16, 40, 1024, 1032, 2056}) {
    const size_t n = size_t{16} * n_lines;
    State state(n), before(n);
    Buffer<uint8_t> touched(n_lines);
    // A group of eight untouched lines is skipped as one.
    for (int line = 0; line < n_lines; ++line)
      touched[line] = n_lines == 1032 || (line / 8 != 1 && line % 3 == 0);
    for (size_t i = 0; i < n; i += 5) state.gradients[i] = before.gradients[i] = 0;
    const std::vector<uint8_t> was_touched(touched.begin(), touched.end());
    cpu::AdamSparse({.settings = Settings(2),
                     .n_lines = n_lines,
                     .touched = touched.data(),
                     .parameters = state.parameters.data(),
                     .first_moments = state.first.data(),
                     .second_moments = state.second.data(),
                     .gradients = state.gradients.data()});
    for (size_t i = 0; i < n; ++i) {
      if (was_touched[i / 16] && before.gradients[i] != 0) {
        ExpectNear(state, i, before.Expected(i, 2));
      } else {
        EXPECT_EQ(state.parameters[i], before.parameters[i]) << i;
        EXPECT_EQ(state.first[i], before.first[i]) << i;
        EXPECT_EQ(state.second[i], before.second[i]) << i;
      }
      EXPECT_EQ(state.gradients[i], was_touched[i / 16] ? 0 : before.gradients[i]) << i;
    }
    EXPECT_EQ(std::count(touched.begin(), touched.end(), 0), n_lines);
  }
}

TEST_P(AdamTest, SparseWithBf16MomentsEqualsFloatsWithRoundedMoments) {
  constexpr int kLines = 24;
  constexpr size_t kSize = size_t{16} * kLines;
  State floats(kSize), pairs(kSize);
  Buffer<uint32_t> moments(kSize);
  for (size_t i = 0; i < kSize; ++i) {
    if (i % 5 == 0) floats.gradients[i] = pairs.gradients[i] = 0;
    moments[i] = Bf16Pair(floats.first[i], floats.second[i]);
    floats.first[i] = Bf16Low(moments[i]);
    floats.second[i] = Bf16High(moments[i]);
  }
  const std::vector<uint32_t> before(moments.begin(), moments.end());
  Buffer<uint8_t> touched(kLines), touched_again(kLines);
  for (int line = 0; line < kLines; line += 3) touched[line] = touched_again[line] = 1;
  cpu::AdamSparse({.settings = Settings(2),
                   .n_lines = kLines,
                   .touched = touched.data(),
                   .parameters = floats.parameters.data(),
                   .first_moments = floats.first.data(),
                   .second_moments = floats.second.data(),
                   .gradients = floats.gradients.data()});
  cpu::AdamSparse({.settings = Settings(2),
                   .n_lines = kLines,
                   .touched = touched_again.data(),
                   .parameters = pairs.parameters.data(),
                   .moment_pairs = moments.data(),
                   .gradients = pairs.gradients.data()});
  for (size_t i = 0; i < kSize; ++i) {
    ASSERT_EQ(pairs.parameters[i], floats.parameters[i]) << i;
    ASSERT_EQ(moments[i], Bf16Pair(floats.first[i], floats.second[i])) << i;
    ASSERT_EQ(moments[i] != before[i], i / 16 % 3 == 0 && i % 5 != 0) << i;
  }
}

// Up to kMaxBf16Decay, bf16 moments shrink as floats do.
TEST_P(AdamTest, Bf16MomentsShrinkWhenGradientsDo) {
  AdamSettings settings = Settings(1);
  settings.beta1 = settings.beta2 = kMaxBf16Decay;
  Buffer<float> parameters(16 * 8), gradients(16 * 8);
  Buffer<uint32_t> moments(16 * 8);
  Buffer<uint8_t> touched(8);
  for (int i = 0; i < 16; ++i) {
    const float mantissa = 1 + static_cast<float>(i) / 16;
    moments[i] = Bf16Pair(-mantissa, mantissa);
  }
  const double share = 0.1;  // of the moments that remains after n_updates
  const int n_updates = static_cast<int>(std::log(share) / std::log(kMaxBf16Decay));
  for (int update = 0; update < n_updates; ++update) {
    std::fill_n(gradients.data(), 16, 1e-6f);
    touched[0] = 1;
    cpu::AdamSparse({.settings = settings,
                     .n_lines = 8,
                     .touched = touched.data(),
                     .parameters = parameters.data(),
                     .moment_pairs = moments.data(),
                     .gradients = gradients.data()});
  }
  for (int i = 0; i < 16; ++i) {
    const double mantissa = 1 + i / 16.0, expected = mantissa * share;
    for (const float moment : {-Bf16Low(moments[i]), Bf16High(moments[i])}) {
      EXPECT_GT(moment, expected / 2) << i;
      EXPECT_LT(moment, expected * 2) << i;
    }
  }
}

TEST_P(AdamTest, SparseWritesTouchedLinesInHalfPrecisionToo) {
  constexpr int kLines = 24;
  constexpr size_t kSize = size_t{16} * kLines;
  State state(kSize);
  for (size_t i = 0; i < kSize; i += 4) state.parameters[i] *= 1e-5f;  // subnormal as halves
  for (size_t i = 0; i < kSize; i += 5) state.gradients[i] = 0;
  AdamSettings settings = Settings(2);
  settings.learning_rate = 1e-6f;
  const Half untouched{0x1234};
  std::vector<Half> halves(kSize, untouched);
  Buffer<uint8_t> touched(kLines);
  for (int line = 0; line < kLines; line += 3) touched[line] = 1;
  cpu::AdamSparse({.settings = settings,
                   .n_lines = kLines,
                   .touched = touched.data(),
                   .parameters = state.parameters.data(),
                   .first_moments = state.first.data(),
                   .second_moments = state.second.data(),
                   .gradients = state.gradients.data(),
                   .half_copies = halves.data()});
  for (size_t i = 0; i < kSize; ++i) {
    const Half expected = i / 16 % 3 == 0 ? HalfFromFloat(state.parameters[i]) : untouched;
    ASSERT_EQ(halves[i].bits, expected.bits) << i << ", " << state.parameters[i];
  }
}

TEST_P(AdamTest, MovingAverageAgreesWithTheReferenceForAllSizes) {
  for (int n : {0, 1, 3, 4, 5, 8, 15, 16, 17, 33}) {
    const std::vector<float> parameters = RandomFloats(n, -1, 1, 1);
    const std::vector<float> before = RandomFloats(n, -1, 1, 2);
    std::vector<float> averages = before;
    cpu::MovingAverage(
        {.decay = 0.75f, .n = n, .parameters = parameters.data(), .averages = averages.data()});
    for (int i = 0; i < n; ++i) {
      EXPECT_NEAR(averages[i], 0.75 * before[i] + 0.25 * parameters[i], 1.2e-7) << i;
    }
  }
}

}  // namespace
}  // namespace nerf::kernels
