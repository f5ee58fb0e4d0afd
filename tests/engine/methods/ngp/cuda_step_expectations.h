#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

// Steps on a CUDA device, or under the host emulation, beside the CPU's.
namespace nerf {

// Sums run in another order, exp is another polynomial, and a device contracts multiplies and adds,
// but for those that place the samples.
inline constexpr double kFp32Loss = 1e-5, kFp32State = 1e-4;
// Fixed point drops gradients below 2^-33, of whatever sign, where Adam would still move by its
// rate.
inline constexpr double kFixedPointState = 1e-3;
// Tables, weights and activations are rounded to 11 bits.
inline constexpr double kHalfLoss = 1e-3, kHalfState = 0.05;

// In fp32, with sums in fixed point, and in half precision, the table too. One step of the latter
// two: what they round away grows from step to step.
inline void ForEachPrecision(
    TrainConfig& config,
    const std::function<void(uint32_t n_steps, double loss, double state)>& expect) {
  const bool has_table = config.method != "mlp";
  config.cuda_fp32 = 1;
  if (has_table) Ngp(config).half_table = 0;
  expect(3, kFp32Loss, kFp32State);
  config.cuda_deterministic = 1;
  expect(1, kFp32Loss, kFixedPointState);
  config.cuda_fp32 = config.cuda_deterministic = 0;
  if (has_table) Ngp(config).half_table = 1;
  expect(1, kHalfLoss, kHalfState);
}

// Both engines.
inline TrainConfig Fp32Config() {
  TrainConfig config = TinyConfig();
  config.cuda_fp32 = 1;
  Ngp(config).half_table = 0;
  return config;
}

// ||a - b|| / ||b|| of a tensor that two files hold.
inline double Difference(const TensorFile& a, const TensorFile& b, const std::string& name) {
  const std::vector<float> x = ToFloats(a.tensors.at(name)), y = ToFloats(b.tensors.at(name));
  EXPECT_EQ(x.size(), y.size());
  double error = 0, norm = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(std::isfinite(x[i])) << name << ", " << i;
    error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    norm += double{y[i]} * y[i];
  }
  return std::sqrt(error / norm);
}

// Pictures of noise of each number of channels, one of them through a lens that distorts.
inline std::vector<View> NoiseViewsOfEachKind() {
  std::vector<View> views(3);
  for (int v = 0; v < 3; ++v) {
    const int n_channels[] = {1, 3, 4};
    ImageU8& image = views[v].image;
    image.width = 9 + v;
    image.height = 7;
    image.n_channels = n_channels[v];
    for (int i = 0; i < image.width * image.height * image.n_channels; ++i)
      image.pixels.push_back(static_cast<uint8_t>(
          RandomWords(1, RandomUse::kTest, v, static_cast<uint32_t>(i))[0] >> 24));
    Camera& camera = views[v].camera;
    camera.width = image.width;
    camera.height = image.height;
    camera.fl_x = camera.fl_y = 9;
    camera.cx = 4.5f;
    camera.cy = 3.5f;
    camera.camera_to_world.m[2][3] = 2.5f + 0.2f * static_cast<float>(v);
    if (v == 1) {
      camera.lens = LensModel::kOpenCv;
      camera.k1 = 0.1f;
      camera.p1 = 0.01f;
    }
  }
  return views;
}

class CudaStepTest : public CudaTest {
 protected:
  // What steps learn beside the field.
  struct Learned {
    std::vector<std::string> tensors = {};
    std::function<RayBatch(RayBatch)> batch_of = OfViews;
  };
  // n_steps on both sides from the same lively state; compares losses as they come, and the state
  // at the end.
  void ExpectStepsLikeTheCpus(const TrainConfig& config, const SceneGeometry& geometry,
                              uint32_t n_steps, double loss_tolerance, double state_tolerance) {
    ExpectStepsLikeTheCpus(config, geometry, n_steps, loss_tolerance, state_tolerance, Learned());
  }
  void ExpectStepsLikeTheCpus(const TrainConfig& config, const SceneGeometry& geometry,
                              uint32_t n_steps, double loss_tolerance, double state_tolerance,
                              const Learned& learned) {
    ThreadPool pool(1);
    const std::vector<View> views = NoiseViewsOfEachKind();
    const auto cpu = NewNgpCpuStep(config, geometry, &pool, views);
    const auto device = NewNgpCudaStep(config, geometry, nullptr, views, &pool);
    ExpectStepsLikeTheCpus(cpu.get(), device.get(), LivelyViewState(*cpu), n_steps, loss_tolerance,
                           state_tolerance, learned);
  }
  // The same of a method's steps, from a state.
  void ExpectStepsLikeTheCpus(RayStep* cpu, RayStep* device, const TensorFile& state,
                              uint32_t n_steps, double loss_tolerance, double state_tolerance,
                              const Learned& learned) {
    ASSERT_THAT(cpu->Load(state), IsOk());
    ASSERT_THAT(device->Load(state), IsOk());
    for (uint32_t i = 0; i < n_steps; ++i) {
      const RayBatch batch = learned.batch_of(TinyBatch(8 + static_cast<int>(i), i));
      const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
      ASSERT_NEAR(found.loss, expected.loss, loss_tolerance * expected.loss) << i;
      ASSERT_NEAR(found.squared_error, expected.squared_error,
                  loss_tolerance * expected.squared_error)
          << i;
      EXPECT_EQ(found.n_rays, expected.n_rays);
      // A sample at the edge of a cell or of the limit may fall to either side.
      ASSERT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained + 2) << i;
      EXPECT_GE(found.n_marched, found.n_trained);
    }
    EXPECT_NEAR(device->OccupiedFraction(), cpu->OccupiedFraction(), 1e-3);
    const TensorFile after = Saved(*device), expected = Saved(*cpu);
    EXPECT_EQ(after.metadata, expected.metadata);
    for (const std::string& name : FieldTensorNames()) {
      EXPECT_LT(Difference(after, expected, name), state_tolerance) << name;
      EXPECT_LT(Difference(after, expected, "adam.first." + name), state_tolerance) << name;
      EXPECT_LT(Difference(after, expected, "average." + name), state_tolerance) << name;
    }
    for (const std::string& name : learned.tensors) {
      ASSERT_TRUE(after.tensors.contains(name)) << name;
      EXPECT_LT(Difference(after, expected, name), state_tolerance) << name;
      EXPECT_LT(Difference(after, expected, "adam.first." + name), state_tolerance) << name;
      EXPECT_GT(Difference(after, state, name), 0) << name << " has not moved";
    }
    EXPECT_EQ(after.tensors.size(), expected.tensors.size());
  }
};
}  // namespace nerf
