#include "engine/field/kernels/adam.h"

#include <cmath>
#include <limits>

#include "engine/field/kernels/hash_encoding.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/adam.h"

namespace nerf::kernels {
namespace {

constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-15;
// The loss scale of the gradients.
constexpr float kGradientFactor = 1.0f / 256;
// A moment has three roundings, an update about eight more relative to its own size.
constexpr double kMomentTolerance = 5e-7;
constexpr double kUpdateTolerance = 3e-6 * kRate + 1.2e-7;

cuda::AdamStepSettings Settings(int t, float l2 = 0) {
  return {.adam = {.learning_rate = kRate,
                   .beta1 = kBeta1,
                   .beta2 = kBeta2,
                   .epsilon = kEpsilon,
                   .correction1 = static_cast<float>(1 / (1 - std::pow(kBeta1, t))),
                   .correction2 = static_cast<float>(1 / (1 - std::pow(kBeta2, t))),
                   .l2 = l2},
          .gradient_factor = kGradientFactor};
}

// Parameters and moments as after some training, on host and device.
struct State {
  explicit State(size_t n)
      : parameters(RandomFloats(n, -1, 1, 1)),
        first(RandomFloats(n, -0.1f, 0.1f, 2)),
        second(RandomFloats(n, 0.001f, 0.01f, 3)),
        device_parameters(parameters),
        device_first(first),
        device_second(second),
        copies(Narrow<Half>(parameters)) {}
  std::vector<float> parameters, first, second;
  DeviceArray<float> device_parameters, device_first, device_second;
  DeviceArray<Half> copies;
};

class CudaAdamTest : public CudaTest {
 protected:
  // Checks each element against an update by gradient_of(i), or no update where that is 0.
  template <typename GradientOf>
  void ExpectUpdated(const State& state, int t, GradientOf gradient_of) {
    const std::vector<float> parameters = state.device_parameters.Download(stream_),
                             first = state.device_first.Download(stream_),
                             second = state.device_second.Download(stream_);
    const std::vector<Half> copies = state.copies.Download(stream_);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double gradient = gradient_of(i);
      reference::AdamState expected{state.parameters[i], state.first[i], state.second[i]};
      if (gradient != 0) {
        expected = reference::AdamUpdate(expected, gradient, t, kRate, kBeta1, kBeta2, kEpsilon);
      }
      ASSERT_NEAR(first[i], expected.first, kMomentTolerance) << i;
      ASSERT_NEAR(second[i], expected.second, kMomentTolerance) << i;
      ASSERT_NEAR(parameters[i], expected.parameter, kUpdateTolerance) << i;
      ASSERT_EQ(copies[i], HalfFromFloat(parameters[i])) << i;
    }
  }
};
NERF_INSTANTIATE_CUDA_PLACES(CudaAdamTest);

TEST_P(CudaAdamTest, SparseUpdatesWhatHasAGradientAndNothingElse) {
  const DeviceArray<cuda::AdamStepSettings> settings({Settings(2)});
  for (int64_t n : {0, 4, 1020, 1024, 1028, 5000}) {
    for (bool fixed : {false, true}) {
      State state(n);
      std::vector<float> gradients = RandomFloats(n, -1, 1, 4);
      for (int64_t i = 0; i < n; ++i) {
        if (i % 3 == 0 || i / 4 % 5 == 1) gradients[i] = 0;  // elements, and whole vectors
      }
      std::vector<int64_t> fixed_gradients(n);
      for (int64_t i = 0; i < n; ++i)
        fixed_gradients[i] = std::llrint(double{gradients[i]} * cuda::kFixedPointOne);
      DeviceArray<float> device_gradients(gradients);
      DeviceArray<int64_t> device_fixed(fixed_gradients);
      cuda::AdamSparse({.settings = settings.data(),
                        .n = n,
                        .gradients = device_gradients.data(),
                        .fixed_gradients = fixed ? device_fixed.data() : nullptr,
                        .parameters = state.device_parameters.data(),
                        .first_moments = state.device_first.data(),
                        .second_moments = state.device_second.data(),
                        .half_copies = state.copies.data()},
                       stream_);
      ExpectUpdated(state, 2, [&](size_t i) { return double{gradients[i]} * kGradientFactor; });
      if (fixed) {
        for (int64_t gradient : device_fixed.Download(stream_)) ASSERT_EQ(gradient, 0);
      } else {
        for (float gradient : device_gradients.Download(stream_)) ASSERT_EQ(gradient, 0);
      }
    }
  }
}

TEST_P(CudaAdamTest, DenseSumsThePartsOfItsGradient) {
  const DeviceArray<cuda::AdamStepSettings> settings({Settings(3, 0.1f)});
  for (int64_t n : {0, 1, 63, 64, 65, 1000}) {
    State state(n);
    const std::vector<float> gradients = RandomFloats(3 * n, -100, 100, 4);
    const DeviceArray<float> device_gradients(gradients);
    cuda::AdamDense({.settings = settings.data(),
                     .n = n,
                     .n_parts = 3,
                     .gradients = device_gradients.data(),
                     .parameters = state.device_parameters.data(),
                     .first_moments = state.device_first.data(),
                     .second_moments = state.device_second.data(),
                     .half_copies = state.copies.data()},
                    stream_);
    ExpectUpdated(state, 3, [&](size_t i) {
      const double sum = double{gradients[i]} + gradients[n + i] + gradients[2 * n + i];
      return sum * kGradientFactor + 0.1 * state.parameters[i];
    });
  }
}

TEST_P(CudaAdamTest, DenseReportsAParameterThatIsNotFinite) {
  const DeviceArray<cuda::AdamStepSettings> settings({Settings(1)});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0f, kInfinity, -kInfinity, std::nanf("")}) {
    State state(300);
    std::vector<float> gradients = RandomFloats(300, -1, 1, 4);
    gradients[290] = bad;
    const DeviceArray<float> device_gradients(gradients);
    DeviceArray<uint32_t> not_finite(std::vector<uint32_t>{0});
    cuda::AdamDense({.settings = settings.data(),
                     .n = 300,
                     .gradients = device_gradients.data(),
                     .parameters = state.device_parameters.data(),
                     .first_moments = state.device_first.data(),
                     .second_moments = state.device_second.data(),
                     .not_finite = not_finite.data()},
                    stream_);
    EXPECT_EQ(not_finite.Download(stream_)[0], bad == 0 ? 0u : 1u) << bad;
  }
}

TEST_P(CudaAdamTest, SkippedStepOnlyResetsTheTablesGradients) {
  const DeviceArray<cuda::AdamStepSettings> settings({Settings(1)});
  const DeviceArray<uint32_t> skip(std::vector<uint32_t>{1});
  State table(64), weights(64);
  DeviceArray<float> gradients(RandomFloats(64, 1, 2, 4));
  cuda::AdamDense({.settings = settings.data(),
                   .skip = skip.data(),
                   .n = 64,
                   .gradients = gradients.data(),
                   .parameters = weights.device_parameters.data(),
                   .first_moments = weights.device_first.data(),
                   .second_moments = weights.device_second.data(),
                   .half_copies = weights.copies.data()},
                  stream_);
  cuda::AdamSparse({.settings = settings.data(),
                    .skip = skip.data(),
                    .n = 64,
                    .gradients = gradients.data(),
                    .parameters = table.device_parameters.data(),
                    .first_moments = table.device_first.data(),
                    .second_moments = table.device_second.data(),
                    .half_copies = table.copies.data()},
                   stream_);
  ExpectUpdated(weights, 1, [](size_t) { return 0.0; });
  ExpectUpdated(table, 1, [](size_t) { return 0.0; });
  EXPECT_EQ(gradients.Download(stream_), std::vector<float>(64));
}

TEST_P(CudaAdamTest, MovingAverageFollowsItsDecay) {
  for (int64_t n : {0, 1, 255, 256, 257, 1000}) {
    const std::vector<float> parameters = RandomFloats(n, -1, 1, 1),
                             averages = RandomFloats(n, -1, 1, 2);
    const DeviceArray<float> device_parameters(parameters);
    DeviceArray<float> device_averages(averages);
    cuda::MovingAverage({.decay = 0.75f,
                         .n = n,
                         .parameters = device_parameters.data(),
                         .averages = device_averages.data()},
                        stream_);
    const std::vector<float> found = device_averages.Download(stream_);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(found[i], 0.75 * averages[i] + 0.25 * parameters[i], 2e-7) << i;
  }
}

}  // namespace
}  // namespace nerf::kernels
