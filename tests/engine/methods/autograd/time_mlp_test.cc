// Methods t-nerf and d-nerf: fields of mlp that depend on time, trained through LibTorch and
// rendered by the layers of mlp.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/field.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/registry.h"
#include "tests/engine/methods/autograd/mlp_gradient_error.h"
#include "tests/testing/reference/mlp_field.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

class TimeMlpTest : public ::testing::TestWithParam<const char*> {
 protected:
  static TrainConfig Config() {
    TrainConfig config = *DefaultConfig(GetParam());
    Mlp(config).width = 32;
    Mlp(config).depth = 3;
    Mlp(config).skip = 2;
    config.grid_resolution = 32;
    config.grid_update_interval = 4;
    config.min_transmittance = 0;
    return config;
  }
  static RayBatch Batch(uint32_t step = 0, float learning_rate = 1e-2f) {
    RayBatch batch = TinyBatch(16, step, learning_rate);
    batch.distortion = 0;
    batch.times = RandomFloats(16, 0, 1, 55 + step);
    batch.times[3] = batch.times[7] = 0;
    return batch;
  }
  static std::unique_ptr<MlpField> Field(const TensorFile& state) {
    auto parameters = ReadMlpEvaluation(state, Config());
    EXPECT_THAT(parameters, IsOk());
    return std::make_unique<MlpField>(MlpNetworks(Config()), TinyGeometry().box,
                                      *std::move(parameters));
  }
  // A state after some steps, in which points are moved.
  static TensorFile Trained() {
    ThreadPool pool(1);
    const auto step = NewMlpAutogradStep(Config(), TinyGeometry(), &pool);
    EXPECT_THAT(step->Load(WithLivelyWarp(Saved(*step))), IsOk());
    for (uint32_t i = 0; i < 18; ++i) step->RunRays(Batch(i));  // past an update of the average
    return Saved(*step);
  }
  static std::vector<float> Densities(const RadianceField& field, float time) {
    const std::vector<Vec3> positions = RandomPoints(100, -0.9f, 0.9f, 5);
    const auto workspace = field.NewWorkspace(100);
    field.SetTime(time, workspace.get());
    std::vector<float> sigmas(100);
    field.Density(100, positions.data(), sigmas.data(), workspace.get());
    return sigmas;
  }
};

TEST_P(TimeMlpTest, GradientsAreThoseOfTheReference) {
  // The position's tenth octave makes of the shift's rounding 512 times as much.
  EXPECT_LT(MlpGradientError(Config(), Batch(0, /*learning_rate=*/0)), 2e-3);
  TrainConfig checkpointing = Config();
  Mlp(checkpointing).checkpointing = 1;
  EXPECT_LT(MlpGradientError(checkpointing, Batch(0, /*learning_rate=*/0)), 2e-3);
}

TEST_P(TimeMlpTest, RendersTheFieldOfTheReferenceAtEachTime) {
  const TensorFile state = Trained();
  const auto parameters = ReadMlpEvaluation(state, Config());
  ASSERT_THAT(parameters, IsOk());
  const std::vector<MlpLayout> networks = MlpNetworks(Config());
  std::vector<std::vector<double>> doubles;
  for (const Buffer<float>& values : *parameters)
    doubles.emplace_back(values.data(), values.data() + values.size());
  using reference::MlpField;
  const MlpField reference(
      {&networks[0], &doubles[0]}, MlpPlacementOf(TinyGeometry().box),
      networks.size() > 1 ? MlpField::Network{&networks[1], &doubles[1]} : MlpField::Network{});
  const std::vector<Vec3> positions = RandomPoints(100, -0.9f, 0.9f, 5);
  const auto field = Field(state);
  for (const float time : {0.0f, 0.3f, 1.0f}) {
    const std::vector<float> sigmas = Densities(*field, time);
    double difference = 0, sum = 0;
    for (int i = 0; i < 100; ++i) {
      const double expected = reference.At(positions[i], {0, 0, 1}, time).sigma;
      difference += std::abs(sigmas[i] - expected);
      sum += expected;
    }
    EXPECT_GT(sum, 1);
    EXPECT_LT(difference, 0.02 * sum) << time << ": the layers may be in bf16";
  }
}

TEST_P(TimeMlpTest, TimeChangesTheFieldAndThePicture) {
  const TensorFile state = Trained();
  const auto field = Field(state);
  EXPECT_EQ(Densities(*field, 0.5f), Densities(*field, 0.5f));
  EXPECT_NE(Densities(*field, 0), Densities(*field, 0.5f));
  EXPECT_NE(Densities(*field, 0.5f), Densities(*field, 1));
  ThreadPool pool(1);
  const TrainConfig config = Config();
  const auto model = MethodOf(config).LoadModel(state, config, TinyGeometry());
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->method(), GetParam());
  std::vector<Ray> rays = TinyBatch(16).rays;
  std::vector<RenderedRay> rendered[2];
  for (const int i : {0, 1}) {
    const auto workspace = (*model)->NewWorkspace();
    rendered[i].resize(rays.size());
    RayTile tile;
    tile.rays = rays;
    tile.time = static_cast<float>(i);
    ASSERT_TRUE((*model)->RenderRays(tile, {}, workspace.get(), rendered[i].data()));
  }
  int n_differ = 0;
  for (size_t r = 0; r < rays.size(); ++r) n_differ += rendered[0][r].color != rendered[1][r].color;
  EXPECT_GT(n_differ, 8);
}

TEST_P(TimeMlpTest, SameSeedGivesTheSameBytesAndAResumedTrainingGoesOn) {
  const auto run = [](uint32_t seed, bool resume) {
    TrainConfig config = Config();
    config.seed = seed;
    ThreadPool pool(2);
    auto step = NewMlpAutogradStep(config, TinyGeometry(), &pool);
    for (uint32_t i = 0; i < 6; ++i) {
      if (resume && i == 5) {
        const TensorFile saved = Saved(*step);
        step = NewMlpAutogradStep(config, TinyGeometry(), &pool);
        EXPECT_THAT(step->Load(saved), IsOk());
      }
      step->RunRays(Batch(i));
    }
    return Saved(*step);
  };
  const TensorFile whole = run(1, false);
  EXPECT_TRUE(SameContents(run(1, false), whole));
  EXPECT_TRUE(SameContents(run(1, true), whole));
  EXPECT_FALSE(SameContents(run(2, false), whole));
}

TEST_P(TimeMlpTest, TimesOfPicturesAreLearned) {
  // Rays that show black at time 0 and white at time 1: no field without time does both.
  TrainConfig config = Config();
  config.grid_update_interval = 1000;
  ThreadPool pool(1);
  const auto step = NewMlpAutogradStep(config, TinyGeometry(), &pool);
  RayBatch batch = TinyBatch(32, 0, 3e-3f);
  batch.distortion = 0;
  for (int r = 0; r < 16; ++r) {
    batch.rays[16 + r] = batch.rays[r];
    batch.jitters[16 + r] = batch.jitters[r];
  }
  for (int r = 0; r < 32; ++r) {
    batch.times.push_back(r < 16 ? 0.0f : 1.0f);
    const float shown = r < 16 ? 0.0f : 1.0f;
    batch.targets[r] = {shown, shown, shown};
    batch.backgrounds[r] = {0.5f, 0.5f, 0.5f};
  }
  EXPECT_LT(LossShareAfter(150, batch, step.get()), 0.2);
  batch.times.assign(32, 0.0f);
  EXPECT_GT(step->RunRays(batch).squared_error, 0.2) << "half of the rays are wrong then";
}

TEST_P(TimeMlpTest, StartsFromItsOwnKindAlone) {
  const MethodDescription& method = *FindMethodDescription(GetParam());
  const TrainConfig config = Config();
  EXPECT_THAT(method.CheckStart({config, 1}, {config, 1}), IsOk());
  for (const char* other : {"mlp", "mlp-autograd", "t-nerf", "d-nerf"}) {
    if (std::string(other) == GetParam()) continue;
    EXPECT_THAT(method.CheckStart({*DefaultConfig(other), 1}, {config, 1}),
                StatusIs(StatusCode::kInvalidArgument, other));
  }
  EXPECT_THAT(CheckDeviceHonors(config, "cuda:0"), IsOk());
  TrainConfig changed = config;
  EXPECT_THAT(SetConfigField("autocast", "1", &changed), IsOk());
  EXPECT_THAT(SetConfigField("coarse_samples", "64", &changed), IsOk());
  EXPECT_THAT(ValidateConfig(changed), StatusIs(StatusCode::kInvalidArgument, "coarse_samples"));
}

INSTANTIATE_TEST_SUITE_P(Methods, TimeMlpTest, ::testing::Values("t-nerf", "d-nerf"),
                         [](const auto& info) {
                           return std::string(info.param) == "t-nerf" ? "TNerf" : "DNerf";
                         });

// Pumarola et al. 2021, eq. 3: nothing is moved at the canonical time.
TEST(DNerfTest, TheCanonicalTimeShowsTheFieldWithoutTheWarp) {
  TrainConfig config = *DefaultConfig("d-nerf");
  Mlp(config).width = 32;
  Mlp(config).depth = 3;
  ThreadPool pool(1);
  const auto step = NewMlpAutogradStep(config, TinyGeometry(), &pool);
  TensorFile state = WithLivelyWarp(Saved(*step));
  // Biases, too, so that no point stays by chance.
  Tensor& biases = state.tensors.at("average.field.warp.shift.biases");
  const std::vector<float> values(biases.n_elements(), 0.3f);
  biases = TensorFromFloats(values.data(), biases.shape, DType::kF32);
  auto parameters = ReadMlpEvaluation(state, config);
  ASSERT_THAT(parameters, IsOk());
  const Aabb box = TinyGeometry().box;
  const std::vector<MlpLayout> networks = MlpNetworks(config);
  ASSERT_EQ(networks.size(), 2u);
  Buffer<float> canonical((*parameters)[0].size());
  std::copy_n((*parameters)[0].data(), canonical.size(), canonical.data());
  const MlpField still(networks[0], box, std::move(canonical));
  const MlpField moving(networks, box, *std::move(parameters));
  const std::vector<Vec3> positions = RandomPoints(50, -0.9f, 0.9f, 6);
  const auto a = still.NewWorkspace(50), b = moving.NewWorkspace(50);
  std::vector<float> expected(50), sigmas(50);
  still.Density(50, positions.data(), expected.data(), a.get());
  moving.SetTime(0, b.get());
  moving.Density(50, positions.data(), sigmas.data(), b.get());
  EXPECT_EQ(sigmas, expected);
  moving.SetTime(1e-6f, b.get());
  moving.Density(50, positions.data(), sigmas.data(), b.get());
  EXPECT_NE(sigmas, expected);
}

}  // namespace
}  // namespace nerf
