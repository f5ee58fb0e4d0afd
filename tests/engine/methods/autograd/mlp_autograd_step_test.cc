#include "engine/methods/autograd/mlp_autograd_step.h"

#include <ATen/autocast_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/steps.h"
#include "gtest/gtest.h"
#include "tests/engine/methods/autograd/mlp_gradient_error.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

// What LibTorch holds at most in tensors that the thread allocates.
class TensorPeak final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, int64_t, int64_t, c10::Device) override {
    held_ += size;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t held_ = 0, peak_ = 0;
};

// Both from one state: the fused step and LibTorch see the same loss and the same gradients.
TEST(MlpAutogradStepTest, AgreesWithTheFusedStep) {
  for (const float min_transmittance : {0.0f, 0.2f}) {
    TrainConfig config = *DefaultConfig("mlp");
    Mlp(config).width = 64;
    Mlp(config).depth = 4;
    Mlp(config).skip = 2;
    config.grid_resolution = 32;
    config.min_transmittance = min_transmittance;
    const SceneGeometry geometry = TinyGeometry();
    ThreadPool pool(2);
    const auto fused = NewMlpGridStep(config, geometry, {}, &pool);
    const auto through_torch = NewMlpAutogradStep(config, geometry, &pool);
    ASSERT_THAT(through_torch->Load(Saved(*fused)), IsOk());
    RayBatch batch = TinyBatch(40, 0, /*learning_rate=*/0);
    batch.distortion = 0;
    const StepResult a = fused->RunRays(batch), b = through_torch->RunRays(batch);
    EXPECT_EQ(a.n_trained, b.n_trained);
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * b.loss);
    const TensorFile held = Saved(*fused), expected = Saved(*through_torch);
    for (const auto& [name, tensor] : expected.tensors) {
      if (name.compare(0, 11, "adam.first.") != 0) continue;
      const std::vector<float> x = ToFloats(held.tensors.at(name)), y = ToFloats(tensor);
      double difference = 0, norm = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        difference += std::pow(double{x[i]} - y[i], 2);
        norm += std::pow(double{y[i]}, 2);
      }
      EXPECT_GT(norm, 0) << name;
      EXPECT_LT(std::sqrt(difference), 2e-3 * std::sqrt(norm) + 1e-9) << name;
    }
  }
}

TEST(MlpAutogradStepTest, CheckpointingHalvesMemoryAndKeepsGradients) {
  const SceneGeometry geometry = TinyGeometry();
  TensorFile saved[2];
  int64_t peaks[2] = {};
  StepResult results[2];
  for (int checkpointing : {0, 1}) {
    TrainConfig config = *DefaultConfig("mlp-autograd");
    Mlp(config).width = 64;
    Mlp(config).checkpointing = checkpointing;
    config.grid_resolution = 32;
    config.min_transmittance = 0;
    ThreadPool pool(1);
    const auto step = NewMlpAutogradStep(config, geometry, &pool);
    RayBatch batch = TinyBatch(400, 0, /*learning_rate=*/0);
    batch.distortion = 0;
    const auto peak = std::make_shared<TensorPeak>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
      results[checkpointing] = step->RunRays(batch);
    }
    peaks[checkpointing] = peak->peak();
    saved[checkpointing] = Saved(*step);
  }
  ASSERT_GT(results[0].n_trained, 4096);
  EXPECT_EQ(results[0].n_trained, results[1].n_trained);
  EXPECT_NEAR(results[0].loss, results[1].loss, 1e-6 * results[0].loss);  // other batch heights
  EXPECT_GT(peaks[1], 0);
  EXPECT_LE(peaks[1], peaks[0] / 2);
  RecordProperty("peak_kept", static_cast<int>(peaks[0]));
  RecordProperty("peak_checkpointing", static_cast<int>(peaks[1]));
  for (const auto& [name, tensor] : saved[0].tensors) {
    if (name.compare(0, 11, "adam.first.") != 0) continue;
    const std::vector<float> x = ToFloats(tensor), y = ToFloats(saved[1].tensors.at(name));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      difference += std::pow(double{x[i]} - y[i], 2);
      norm += std::pow(double{x[i]}, 2);
    }
    EXPECT_GT(norm, 0) << name;
    EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(norm)) << name;
  }
}

TrainConfig SmallConfig(int autocast) {
  TrainConfig config = *DefaultConfig("mlp-autograd");
  Mlp(config).width = 32;
  Mlp(config).depth = 3;
  Mlp(config).skip = 2;
  Mlp(config).autocast = autocast;
  config.grid_resolution = 32;
  config.min_transmittance = 0;
  return config;
}

RayBatch SmallBatch(uint32_t step = 0, float learning_rate = 0) {
  RayBatch batch = TinyBatch(16, step, learning_rate);
  batch.distortion = 0;
  return batch;
}

TEST(MlpAutogradStepTest, GradientsAreThoseOfTheReferenceWithAutocastToBf16) {
  EXPECT_LT(MlpGradientError(SmallConfig(/*autocast=*/0), SmallBatch()), 1e-4);
  // bf16 has 8 bits of precision: 0.4% a value.
  TrainConfig config = SmallConfig(/*autocast=*/1);
  const double error = MlpGradientError(config, SmallBatch());
  EXPECT_LT(error, 0.02);
  EXPECT_GT(error, 1e-4) << "not in bf16";
  Mlp(config).checkpointing = 1;
  EXPECT_LT(MlpGradientError(config, SmallBatch()), 0.02);
}

TEST(MlpAutogradStepTest, AutocastGivesTheSameBytesAgainAndFollowsTheWeights) {
  const SceneGeometry geometry = TinyGeometry();
  TensorFile saved[2];
  for (TensorFile& file : saved) {
    ThreadPool pool(2);
    const auto step = NewMlpAutogradStep(SmallConfig(/*autocast=*/1), geometry, &pool);
    const double first = step->RunRays(SmallBatch(0, 1e-2f)).loss;
    for (uint32_t i = 0; i < 3; ++i) {
      RayBatch batch = SmallBatch(0, 1e-2f);
      batch.step = i + 1;
      EXPECT_NE(step->RunRays(batch).loss, first);
      EXPECT_FALSE(at::autocast::is_cpu_enabled());
    }
    file = Saved(*step);
  }
  EXPECT_TRUE(SameContents(saved[0], saved[1]));
}

}  // namespace
}  // namespace nerf
