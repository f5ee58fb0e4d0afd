#include "engine/methods/autograd/autograd_step.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/base/bfloat16.h"
#include "engine/methods/ngp/steps.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

struct Case {
  const char* name;
  Loss loss;
  int n_levels;
  TensorFile (*state)(const TrainingStep&);
  float tolerance;  // of gradients, relative to the largest of their tensor
};
class AutogradAgainstFusedTest : public testing::TestWithParam<Case> {};
// Sums of a thousand samples through five layers, in floats, in another order.
constexpr float kTolerance = 3e-5f;
// Behind a wall the fused step's transmittance is a difference of floats near 1, and the gradient
// multiplies it by an optical depth of up to hundreds.
constexpr float kWallsTolerance = 1e-3f;
INSTANTIATE_TEST_SUITE_P(
    Cases, AutogradAgainstFusedTest,
    testing::Values(Case{"Huber", Loss::kHuber, 1, LivelyState, kTolerance},
                    Case{"MeanSquare", Loss::kMse, 1, LivelyState, kTolerance},
                    Case{"NestedGrids", Loss::kHuber, 3, LivelyState, kTolerance},
                    Case{"Walls", Loss::kHuber, 1, WallsState, kWallsTolerance}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(AutogradAgainstFusedTest, OneStepHasTheSameLossAndGradients) {
  ThreadPool pool(1);
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;
  config.loss = GetParam().loss;
  const SceneGeometry geometry = TinyGeometry(GetParam().n_levels);
  const auto fused = NewNgpCpuStep(config, geometry, &pool);
  const auto autograd = NewAutogradStep(config, geometry, &pool);
  const TensorFile state = GetParam().state(*fused);
  ASSERT_THAT(fused->Load(state), IsOk());
  ASSERT_THAT(autograd->Load(state), IsOk());
  const RayBatch batch = TinyBatch(64);
  const StepResult a = fused->RunRays(batch), b = autograd->RunRays(batch);
  EXPECT_EQ(b.n_rays, a.n_rays);
  EXPECT_GT(a.n_trained, 200);
  EXPECT_EQ(b.n_trained, a.n_trained);
  EXPECT_NEAR(b.loss, a.loss, 1e-5 * a.loss);
  EXPECT_NEAR(b.squared_error, a.squared_error, 1e-5 * a.squared_error);
  const TensorFile after_fused = Saved(*fused), after_autograd = Saved(*autograd);
  for (const std::string& name : FieldTensorNames()) {
    // First moments were zero: they are (1 - beta1) of the gradient now.
    const std::vector<float> g = ToFloats(after_fused.tensors.at("adam.first." + name));
    const std::vector<float> h = ToFloats(after_autograd.tensors.at("adam.first." + name));
    const float largest = std::abs(*std::max_element(
        g.begin(), g.end(), [](float x, float y) { return std::abs(x) < std::abs(y); }));
    ASSERT_GT(largest, 0) << name;
    for (size_t i = 0; i < g.size(); ++i)
      ASSERT_NEAR(h[i], g[i], GetParam().tolerance * largest) << name << ", " << i;
  }
}

TEST(AutogradStepTest, SeveralStepsStayCloseToTheFusedStep) {
  ThreadPool pool(1);
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;
  const auto fused = NewNgpCpuStep(config, TinyGeometry(), &pool);
  const auto autograd = NewAutogradStep(config, TinyGeometry(), &pool);
  const TensorFile state = LivelyState(*fused);
  ASSERT_THAT(fused->Load(state), IsOk());
  ASSERT_THAT(autograd->Load(state), IsOk());
  for (uint32_t i = 0; i < 18; ++i) {  // past updates of the grid and of the moving average
    const RayBatch batch = TinyBatch(64, i, 1e-3f);
    const StepResult a = fused->RunRays(batch), b = autograd->RunRays(batch);
    // Adam turns gradients that are only rounding errors into full steps.
    EXPECT_NEAR(b.loss, a.loss, 2e-3 * a.loss) << i;
  }
}

TEST(AutogradStepTest, EachContinuesFromTheOthersCheckpoint) {
  ThreadPool pool(1);
  const auto fused = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  const auto autograd = NewAutogradStep(TinyConfig(), TinyGeometry(), &pool);
  for (uint32_t i = 0; i < 3; ++i) fused->RunRays(TinyBatch(30, i));
  ASSERT_THAT(autograd->Load(Saved(*fused)), IsOk());
  EXPECT_TRUE(SameContents(Saved(*autograd), Saved(*fused)));
  for (uint32_t i = 3; i < 6; ++i) autograd->RunRays(TinyBatch(30, i));
  ASSERT_THAT(fused->Load(Saved(*autograd)), IsOk());
  // The fused step keeps the table's moments in bf16.
  TensorFile expected = Saved(*autograd);
  for (const char* name : {"adam.first.field.hash_table", "adam.second.field.hash_table"}) {
    Tensor& tensor = expected.tensors.at(name);
    std::vector<float> values = ToFloats(tensor);
    for (float& value : values) value = Bf16Low(Bf16Pair(value, 0));
    tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
  }
  EXPECT_TRUE(SameContents(Saved(*fused), expected));
  EXPECT_FALSE(SameContents(Saved(*fused), Saved(*autograd)));
  TensorFile model;
  autograd->SaveModel(&model);
  EXPECT_THAT(LoadNgpModel(model, TinyConfig(), TinyGeometry()), IsOk());
  EXPECT_THAT(fused->Initialize(model), IsOk());
}

TEST(AutogradStepTest, LoadingASavedStateContinuesBitForBit) {
  ThreadPool pool(1);
  const auto whole = NewAutogradStep(TinyConfig(), TinyGeometry(), &pool);
  for (uint32_t i = 0; i < 3; ++i) whole->RunRays(TinyBatch(64, i));
  const auto resumed = NewAutogradStep(TinyConfig(), TinyGeometry(), &pool);
  ASSERT_THAT(resumed->Load(Saved(*whole)), IsOk());
  for (uint32_t i = 3; i < 6; ++i) {
    whole->RunRays(TinyBatch(64, i));
    resumed->RunRays(TinyBatch(64, i));
  }
  EXPECT_TRUE(SameContents(Saved(*resumed), Saved(*whole)));
}

TEST(AutogradStepTest, RaysThatMeetNothingStillHaveALoss) {
  ThreadPool pool(1);
  const auto step = NewAutogradStep(TinyConfig(), TinyGeometry(), &pool);
  TensorFile state = Saved(*step);
  std::vector<uint8_t>& bits = state.tensors.at("occupancy.bits").bytes;
  std::fill(bits.begin(), bits.end(), 0);
  ASSERT_THAT(step->Load(state), IsOk());
  const auto fused = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool);
  ASSERT_THAT(fused->Load(state), IsOk());
  const StepResult a = fused->RunRays(TinyBatch(10)), b = step->RunRays(TinyBatch(10));
  EXPECT_EQ(b.n_marched, 0);
  EXPECT_EQ(b.n_trained, 0);
  EXPECT_NEAR(b.loss, a.loss, 1e-6 * a.loss);
  EXPECT_TRUE(SameContents(Saved(*step), Saved(*fused)));
}

}  // namespace
}  // namespace nerf
