// Training steps and views of method mlp with one network on a CUDA device, or under the host
// emulation, beside the CPU's.

#include <cmath>

#include "engine/base/config/method_description.h"
#include "engine/methods/mlp/cuda_mlp.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/cuda_field_step.h"
#include "tests/engine/methods/cuda_field_expectations.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/emulated_device.h"
#endif

namespace nerf {

const MethodDescription& DescribeMlp();

namespace {

// Layers wider than a tile of 64 columns in one place, narrower in another.
TrainConfig MlpConfig(int width = 32) {
  TrainConfig config = DescribeMlp().Defaults();
  Mlp(config).width = width;
  Mlp(config).depth = 3;
  Mlp(config).skip = 2;
  config.grid_resolution = 32;
  config.grid_update_interval = 4;
  config.grid_threshold = 0.01f;
  config.target_samples = 256;
  config.initial_rays = 16;
  config.max_rays = 1024;
  config.cuda_fp32 = 1;
  return config;
}

// Few steps along a ray.
SceneGeometry Coarse(int n_levels = 1) {
  SceneGeometry geometry = TinyGeometry(n_levels);
  geometry.step = geometry.box.Diagonal() / 24;
  return geometry;
}

RayBatch BatchOf(uint32_t step) { return TinyBatch(5 + static_cast<int>(step), step, 1e-3f); }

// With biases, which begin as zeros: Adam's first steps would be all that they are.
TensorFile LivelyMlp(const TrainingStep& step) {
  TensorFile file = Saved(step);
  for (auto& [name, tensor] : file.tensors) {
    if (!name.ends_with(".biases") || name.find("adam") != std::string::npos) continue;
    const std::vector<float> values = RandomFloats(tensor.n_elements(), 0.1f, 0.5f, 76);
    tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
  }
  return file;
}

class CudaMlpTest : public CudaTest {
 protected:
  std::unique_ptr<RayStep> OnCpu(const TrainConfig& config, const SceneGeometry& geometry) {
    return NewMlpGridStep(config, geometry, {}, &pool_);
  }
  std::unique_ptr<RayStep> OnDevice(const TrainConfig& config, const SceneGeometry& geometry,
                                    bool has_weights = false) {
    return std::make_unique<CudaFieldStep>(config, geometry, std::span<const View>(), &pool_,
                                           NewMlpCudaField(config, geometry), has_weights);
  }
  void ExpectLikeTheCpus(const TrainConfig& config, const SceneGeometry& geometry, uint32_t n_steps,
                         double loss, double state,
                         const std::function<RayBatch(uint32_t)>& batch_of = BatchOf) {
    const auto cpu = OnCpu(config, geometry), device = OnDevice(config, geometry, true);
    ExpectFieldStepsLikeTheCpus(cpu.get(), device.get(), LivelyMlp(*cpu), n_steps, loss, state,
                                batch_of);
  }
  ThreadPool pool_{1};
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaMlpTest, testing::Values(CudaPlaces().front()), CudaPlaceName);

TEST_P(CudaMlpTest, StepsAreTheCpusInEveryPrecision) {
  TrainConfig config = MlpConfig();
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectLikeTheCpus(config, Coarse(), n_steps, loss, state);
  });
}

TEST_P(CudaMlpTest, WideLayersAndOtherNetworksAreTheCpus) {
  TrainConfig config = MlpConfig(128);
  Mlp(config).depth = 2;
  Mlp(config).feature_relu = 1;
  ExpectLikeTheCpus(config, Coarse(), 1, kFp32Loss, kFp32State);
  config.cuda_fp32 = 0;
  ExpectLikeTheCpus(config, Coarse(), 1, kHalfLoss, kHalfState);
  config = MlpConfig();
  Mlp(config).depth = 1;
  ExpectLikeTheCpus(config, Coarse(2), 1, kFp32Loss, kFp32State, [](uint32_t step) {
    RayBatch batch = BatchOf(step);
    batch.weights = RandomFloats(batch.n_rays, 0, 1, 5);
    return batch;
  });
}

// Past an update of the grid and one of the averages.
TEST_P(CudaMlpTest, EveryStepIsTheCpusPastUpdatesOfTheGridAndTheAverages) {
  TrainConfig config = MlpConfig();
  Mlp(config).depth = 1;
  // No ray ends early: the CPU marches others of the samples behind the end, which the grid learns.
  config.min_transmittance = 1e-6f;
  const auto cpu = OnCpu(config, Coarse()), device = OnDevice(config, Coarse());
  cpu->KeepEmpty(SomeEmptyCells);
  device->KeepEmpty(SomeEmptyCells);
  EXPECT_LT(device->OccupiedFraction(), 0.6);
  TensorFile state = LivelyMlp(*cpu);
  ASSERT_THAT(cpu->Load(state), IsOk());
  for (uint32_t i = 0; i < 17; ++i) {
    SCOPED_TRACE(i);
    ASSERT_THAT(device->Load(state), IsOk());
    const RayBatch batch = TinyBatch(3, i, 1e-3f);
    const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
    EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss);
    state = Saved(*cpu);
    ExpectSimilarStates(Saved(*device), state, kFp32State);
    EXPECT_EQ(device->OccupiedFraction(), cpu->OccupiedFraction());
  }
}

TEST_P(CudaMlpTest, DeterministicStepsGiveEqualBytesAndGoBack) {
  TrainConfig config = MlpConfig();
  config.cuda_fp32 = 0;
  config.cuda_deterministic = 1;
  ExpectEqualBytesAndToGoBack([&] { return OnDevice(config, Coarse()); }, "field.trunk.1.weights",
                              BatchOf);
}

TEST_P(CudaMlpTest, FilesAreTheCpusAndBrokenOnesChangeNothing) {
  ExpectFilesLikeTheCpus(
      OnCpu(MlpConfig(), Coarse()).get(), OnDevice(MlpConfig(), Coarse()).get(),
      {"field.trunk.1.weights", "adam.second.field.color.biases", "average.field.density.weights",
       "occupancy.values"},
      [](const TensorFile& file) { return WithNan(file, "field.trunk.1.weights"); }, BatchOf);
}

// Coarse and fine. In half precision the fine samples lie elsewhere, where waves of the encoding
// are short, so that only losses are compared.
TEST_P(CudaMlpTest, StepsWithTwoNetworksAreTheCpus) {
  TrainConfig config = MlpConfig();
  Mlp(config).coarse_samples = 8;
  Mlp(config).fine_samples = 12;
  const auto batch_of = [](uint32_t step) {
    RayBatch batch = BatchOf(step);
    for (Ray& ray : batch.rays) ray.t_far = 4;
    batch.rays[1].t_far = 0;  // without samples
    return batch;
  };
  const auto cpu = NewMlpPairStep(config, Coarse(), {}, &pool_);
  const TensorFile state = LivelyMlp(*cpu);
  for (const int fp32 : {1, 0}) {
    config.cuda_fp32 = fp32;
    const auto device = NewMlpPairCudaStep(config, Coarse(), {}, &pool_);
    ASSERT_THAT(cpu->Load(state), IsOk());
    ASSERT_THAT(device->Load(state), IsOk());
    for (uint32_t i = 0; i < 2; ++i) {
      const StepResult expected = cpu->RunRays(batch_of(i)), found = device->RunRays(batch_of(i));
      EXPECT_NEAR(found.loss, expected.loss, (fp32 != 0 ? 1e-4 : 0.02) * expected.loss);
      EXPECT_EQ(found.n_trained, expected.n_trained);
      if (fp32 != 0) ExpectSimilarStates(Saved(*device), Saved(*cpu), 1e-3);
    }
    const auto other = NewMlpPairCudaStep(config, Coarse(), {}, &pool_);
    const TensorFile after = Saved(*device);
    ASSERT_THAT(other->Load(after), IsOk());
    ExpectSameSteps(device.get(), other.get(), 2, 3, batch_of);
    ASSERT_THAT(device->Load(WithNan(after, "field.fine.trunk.1.weights")), IsOk());
    EXPECT_TRUE(std::isnan(device->RunRays(batch_of(3)).loss));
    RayBatch empty = batch_of(3);
    for (Ray& ray : empty.rays) ray.t_far = 0;
    ASSERT_THAT(device->Load(after), IsOk());
    EXPECT_EQ(device->RunRays(empty).n_trained, 0);
    TensorFile broken = after;
    broken.tensors.erase("adam.first.field.coarse.color.weights");
    EXPECT_THAT(device->Load(broken), StatusIs(absl::StatusCode::kInvalidArgument, "coarse.color"));
  }
}

TEST_P(CudaMlpTest, SamplesThatDoNotFitAreTrainedInLargerArrays) {
  TrainConfig config = MlpConfig();
  Mlp(config).depth = 1;
  // Room for 6400 samples at first.
  ExpectLikeTheCpus(config, TinyGeometry(), 1, kFp32Loss, kFp32State,
                    [](uint32_t step) { return TinyBatch(180, step, 1e-3f); });
}

TEST_P(CudaMlpTest, ViewsAreTheCpus) {
  const auto step = OnDevice(MlpConfig(), Coarse());
  TensorFile state = Saved(*step);
  for (const std::string prefix : {"", "average."}) {  // darker and brighter, thinner and denser
    for (const char* name : {"field.density.weights", "field.color.weights"}) {
      Tensor& layer = state.tensors.at(prefix + name);
      std::vector<float> values = ToFloats(layer);
      for (float& value : values) value *= 6;
      layer = TensorFromFloats(values.data(), layer.shape, DType::kF32);
    }
  }
  ASSERT_THAT(step->Load(state), IsOk());
  const auto cpu = NewCpuRenderDevice(&pool_);
  const auto device = NewMlpCudaRenderDevice(0);
  const ViewPicture expected = TinyView(cpu.get(), step->Snapshot(), Coarse());
  EXPECT_GT(Contrast(expected), 100);
  EXPECT_LE(MostDifferent(TinyView(device.get(), step->Snapshot(), Coarse()), expected), 1);
  EXPECT_LE(
      MostDifferent(TinyView(device.get(), step->Snapshot(), Coarse(), RenderPrecision::kHalf),
                    expected),
      6);
}

// Networks of random parameters, dense enough to be seen.
std::vector<Buffer<float>> RandomNetworks(const TrainConfig& config) {
  std::vector<Buffer<float>> parameters;
  for (const MlpLayout& layout : MlpNetworks(config)) {
    const std::vector<float> values = RandomFloats(layout.size, -0.3f, 0.4f, 91);
    parameters.emplace_back(values.size());
    std::copy(values.begin(), values.end(), parameters.back().begin());
  }
  return parameters;
}

TEST_P(CudaMlpTest, ViewsOfTwoNetworksAreTheCpus) {
  TrainConfig config = MlpConfig();
  Mlp(config).coarse_samples = 8;
  Mlp(config).fine_samples = 12;
  const auto model = [&] { return NewMlpPairModel(config, Coarse(), RandomNetworks(config)); };
  EXPECT_FALSE(model()->NeedsCpu());
  const auto cpu = NewCpuRenderDevice(&pool_), device = NewMlpCudaRenderDevice(0);
  const ViewPicture expected = TinyView(cpu.get(), model(), Coarse());
  EXPECT_GT(Contrast(expected), 100);
  EXPECT_LE(MostDifferent(TinyView(device.get(), model(), Coarse()), expected), 1);
  EXPECT_LE(
      MostDifferent(TinyView(device.get(), model(), Coarse(), RenderPrecision::kHalf), expected),
      12);
}

// As t-nerf and d-nerf train them; at time 0 the latter moves nothing.
TEST_P(CudaMlpTest, ViewsOfEachTimeAreTheCpus) {
  TrainConfig config = MlpConfig();
  for (const MlpTime kind : {MlpTime::kInput, MlpTime::kWarp}) {
    Mlp(config).time = kind;
    const auto model = [&] {
      return NewMlpGridModel(config, Coarse(), RandomNetworks(config),
                             FullOccupancyGrid(Coarse().box, 1, 32));
    };
    const auto cpu = NewCpuRenderDevice(&pool_), device = NewMlpCudaRenderDevice(0);
    const auto moving = device->Load(model(), Coarse(), RenderPrecision::kSingle);
    ViewPicture before;
    for (const float time : {0.0f, 0.3f, 1.0f}) {
      const ViewPicture expected =
          TinyView(cpu.get(), model(), Coarse(), RenderPrecision::kSingle, time);
      Camera camera = TinyCamera(19);
      camera.time = time;
      ViewPicture found;
      ASSERT_TRUE(moving->Render(camera, {}, {}, &found));
      EXPECT_LE(MostDifferent(found, expected), 2) << time;
      EXPECT_LE(
          MostDifferent(TinyView(device.get(), model(), Coarse(), RenderPrecision::kHalf, time),
                        expected),
          20)
          << time;
      if (time > 0) {
        EXPECT_GT(MostDifferent(expected, before), 10) << time;
      }
      before = expected;
    }
  }
}

#ifdef NERF_CUDA_EMULATION

TEST_P(CudaMlpTest, DeviceMemoryIsWhatWasPredicted) {
  for (const int fp32 : {0, 1}) {
    TrainConfig config = MlpConfig();
    config.cuda_fp32 = fp32;
    const size_t before = cuda_emulation::DeviceBytesInUse();
    const auto step = OnDevice(config, Coarse());
    step->RunRays(BatchOf(0));
    // kMarchedPerTarget times the largest target, which is twice the first, fit from the start.
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - before,
              CudaFieldStepBytes(config, Coarse(), false) + MlpCudaFieldBytes(config, 1024, 8192));
  }
}

#endif  // NERF_CUDA_EMULATION

}  // namespace
}  // namespace nerf
