#include "engine/autograd/mlp_autograd_step.h"

#include <cmath>

#include "engine/methods/describe/method_descriptions.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/steps.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

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

}  // namespace
}  // namespace nerf
