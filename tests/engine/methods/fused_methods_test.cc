// Every fused method on the CPU by way of the trainer, as the tool uses it: same bytes on one and
// two threads and after a stop, files that render alike, and a picture that gets better.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/registry.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_session.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/views/measure/evaluation.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/trained_files.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

struct MethodCase {
  const char* name;  // of the test
  const char* method;
  std::vector<std::pair<const char*, const char*>> settings;  // small, so that the test is fast
  int steps = 40;
  double psnr = 14;  // reached after these steps; an untrained field shows about 7 dB
};

void PrintTo(const MethodCase& method, std::ostream* out) { *out << method.name; }

class FusedMethodsTest : public ::testing::TestWithParam<MethodCase> {
 protected:
  FusedMethodsTest() { WriteBallDataset(dataset_); }

  static TrainConfig Config() {
    TrainConfig config = *DefaultConfig(GetParam().method);
    for (const auto& [key, value] : GetParam().settings)
      EXPECT_THAT(SetConfigField(key, value, &config), IsOk());
    config.budget = {BudgetKind::kSteps, static_cast<double>(GetParam().steps)};
    return config;
  }
  void Train(const TrainRequest& request, ThreadPool* pool,
             std::optional<uint32_t> stop_after = {}) {
    TrainFiles(request, pool, checkpoint_, model_, stop_after);
  }
  std::string Checkpoint() { return SerializeTensorFile(*ReadTensorFile(checkpoint_)); }
  ViewPicture Rendered(const std::string& path) { return RenderFile(path, device_.get()); }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
  const std::string checkpoint_ = dir_ / "c.safetensors", model_ = dir_ / "m.safetensors";
  ThreadPool pool_{1}, two_threads_{2};
  const std::unique_ptr<RenderDevice> device_ = NewCpuRenderDevice(&pool_);
  FakeClock clock_;
};

TEST_P(FusedMethodsTest, BytesDependNeitherOnThreadsNorOnAStop) {
  Train({dataset_, Config(), "", ""}, &pool_);
  const std::string whole = Checkpoint();
  Train({dataset_, Config(), "", ""}, &two_threads_);
  EXPECT_EQ(Checkpoint(), whole) << "two threads";
  const auto middle = static_cast<uint32_t>(GetParam().steps / 2 + 1);
  Train({dataset_, Config(), "", ""}, &two_threads_, middle);
  Train({dataset_, Config(), checkpoint_, ""}, &pool_);
  EXPECT_EQ(Checkpoint(), whole) << "stopped and resumed";
}

TEST_P(FusedMethodsTest, LearnsAndItsFilesRenderAlike) {
  Train({dataset_, Config(), "", ""}, &pool_);
  EXPECT_EQ(Rendered(model_).rgba.pixels, Rendered(checkpoint_).rgba.pixels);
  const auto model = LoadModelFile(model_, device_.get());
  ASSERT_THAT(model, IsOk());
  const auto scene = LoadScene(dataset_);
  ASSERT_THAT(scene, IsOk());
  EvaluationOptions options;
  options.with_ssim = false;
  const auto result =
      EvaluateViews(model->renderer.get(), scene->test, options, &pool_, clock_, {});
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(result->psnr, GetParam().psnr);
  Train({dataset_, Config(), "", model_}, &pool_);  // starts from its own model
}

// The gradient that the optimizer gets, against differences of the step's loss. From zero, first
// moments become (1 - beta1) of the gradient of the scaled loss.
TEST_P(FusedMethodsTest, GradientsAgreeWithDifferencesOfTheLoss) {
  TrainConfig config = Config();
  config.min_transmittance = 0;  // ends rays by no comparison that a difference may change
  config.loss = Loss::kMse;
  const SceneGeometry geometry = TinyGeometry();
  const Scene scene;
  const auto step =
      MethodOf(config).NewStep({config, geometry, scene, std::nullopt, &two_threads_});
  ASSERT_THAT(step, IsOk());
  if (dynamic_cast<RayStep*>(step->get()) == nullptr) {
    ASSERT_EQ(config.method, "ngp-tiles");
    GTEST_SKIP() << "independent tiles take steps of ngp";
  }
  auto& ray_step = dynamic_cast<RayStep&>(**step);
  RayBatch batch = TinyBatch(48, 0, /*learning_rate=*/0);
  batch.times = RandomFloats(48, 0, 1, 55);
  batch.distortion = config.distortion;
  for (Ray& ray : batch.rays) ray.t_far = 4;
  TensorFile state = Saved(**step);
  for (auto& [name, tensor] : state.tensors) {
    if (name.starts_with("field.") && name.ends_with("density.biases")) {
      // Densities above 0: the last sample of `mlp` has no end, so its opacity jumps at 0.
      const std::vector<float> values(tensor.n_elements(), 0.3f);
      tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
    }
    if (name == "field.warp_mlp.2") {
      // Points are moved.
      const std::vector<float> values = RandomFloats(tensor.n_elements(), -0.02f, 0.02f, 78);
      tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
    }
    // Larger than at the start, so that colors and densities vary.
    const std::string of_field =
        name.starts_with("tile") ? name.substr(name.find('.') + 1) : name;  // "tile1.field..."
    if (of_field != "field.hash_table" && of_field != "field.voxels") continue;
    const std::vector<float> values = RandomFloats(tensor.n_elements(), -1, 1, 77);
    tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
  }
  ASSERT_THAT((*step)->Load(state), IsOk());
  ray_step.RunRays(batch);
  const TensorFile after = Saved(**step);
  const std::string prefix = "adam.first.";
  int n_checked = 0;
  for (const auto& [name, moments] : after.tensors) {
    const size_t at = name.find(prefix);
    // A proposal network has a loss of its own, which RunRays does not return.
    if (at == std::string::npos || name.starts_with("proposal.")) continue;
    const std::string parameter = name.substr(0, at) + name.substr(at + prefix.size());
    std::vector<float> gradient = ToFloats(moments);
    double squared = 0;
    for (float& g : gradient) {
      g /= (1 - config.beta1) * config.loss_scale;
      squared += static_cast<double>(g) * g;
    }
    const double norm = std::sqrt(squared);
    // Rounding would hide it; and no gradient goes through the places of the fine samples, which
    // follow from the coarse network.
    if (norm < 1e-4 || parameter.find("coarse") != std::string::npos) continue;
    ++n_checked;
    const double distance = 3e-5 / norm;
    const auto loss_at = [&](double sign) {
      TensorFile moved = state;
      Tensor& tensor = moved.tensors.at(parameter);
      std::vector<float> values = ToFloats(tensor);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] += static_cast<float>(sign * distance * gradient[i] / norm);
      tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
      EXPECT_THAT((*step)->Load(moved), IsOk());
      return ray_step.RunRays(batch).loss;
    };
    const double slope = (loss_at(1) - loss_at(-1)) / (2 * distance);
    // The warp moves points across cells of the encoding, where the loss has kinks;
    // evaluator_test.cc checks its gradient alone.
    const double tolerance = parameter.find("warp_mlp") != std::string::npos ? 0.25 : 0.03;
    EXPECT_NEAR(slope, norm, tolerance * norm) << parameter;
  }
  EXPECT_GT(n_checked, 0);
}

TEST_P(FusedMethodsTest, MaskedRaysHaveNoError) {
  const TrainConfig config = Config();
  const SceneGeometry geometry = TinyGeometry();
  const Scene scene;
  const auto step =
      MethodOf(config).NewStep({config, geometry, scene, std::nullopt, &two_threads_});
  ASSERT_THAT(step, IsOk());
  auto* const ray_step = dynamic_cast<RayStep*>(step->get());
  if (ray_step == nullptr) GTEST_SKIP() << "independent tiles take steps of ngp";
  RayBatch batch = TinyBatch(48, 0, /*learning_rate=*/0);
  batch.times.assign(48, 0.5f);
  const double unmasked = ray_step->RunRays(batch).squared_error;
  EXPECT_GT(unmasked, 0);
  batch.weights.assign(48, 0.25f);
  EXPECT_NEAR(ray_step->RunRays(batch).squared_error, 0.25 * unmasked, 1e-6 * unmasked);
  batch.weights.assign(48, 0);
  EXPECT_EQ(ray_step->RunRays(batch).squared_error, 0);
}

INSTANTIATE_TEST_SUITE_P(Cpu, FusedMethodsTest,
                         ::testing::Values(MethodCase{"MlpOnAGrid",
                                                      "mlp",
                                                      {{"width", "32"},
                                                       {"depth", "3"},
                                                       {"skip", "2"},
                                                       {"target_samples", "1024"},
                                                       {"grid_resolution", "32"},
                                                       {"learning_rate", "0.003"},
                                                       {"warmup_steps", "10"}},
                                                      200},
                                           MethodCase{"MlpCoarseAndFine",
                                                      "mlp",
                                                      {{"width", "32"},
                                                       {"depth", "3"},
                                                       {"skip", "2"},
                                                       {"coarse_samples", "16"},
                                                       {"fine_samples", "16"},
                                                       {"target_samples", "4096"},
                                                       {"learning_rate", "0.003"},
                                                       {"warmup_steps", "10"}},
                                                      200,
                                                      12},
                                           MethodCase{"NgpTiles",
                                                      "ngp-tiles",
                                                      {{"tiles", "2"},
                                                       {"log2_hashmap_size", "12"},
                                                       {"target_samples", "1024"},
                                                       {"grid_resolution", "32"},
                                                       {"warmup_steps", "10"}},
                                                      200,
                                                      12},
                                           MethodCase{"NgpTilesJoint",
                                                      "ngp-tiles",
                                                      {{"tiles", "4"},
                                                       {"tile_training", "joint"},
                                                       {"half_table", "0"},
                                                       {"log2_hashmap_size", "12"},
                                                       {"target_samples", "2048"},
                                                       {"grid_resolution", "32"},
                                                       {"warmup_steps", "10"}},
                                                      80},
                                           MethodCase{"Voxels",
                                                      "voxels",
                                                      {{"first_resolution", "32"},
                                                       {"finest_resolution", "64"},
                                                       {"target_samples", "2048"},
                                                       {"grid_resolution", "32"},
                                                       {"warmup_steps", "10"}},
                                                      80},
                                           MethodCase{"NgpWithProposals",
                                                      "ngp",
                                                      {{"sampler", "proposals"},
                                                       {"proposal_samples", "32"},
                                                       {"field_samples", "16"},
                                                       {"half_table", "0"},
                                                       {"log2_hashmap_size", "12"},
                                                       {"target_samples", "2048"},
                                                       {"warmup_steps", "10"}},
                                                      200,
                                                      13},
                                           MethodCase{"Dynamic",
                                                      "dynamic",
                                                      {{"half_table", "0"},
                                                       {"log2_hashmap_size", "12"},
                                                       {"target_samples", "2048"},
                                                       {"grid_resolution", "32"},
                                                       {"warmup_steps", "10"}},
                                                      80}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nerf
