// Training steps and views of method dynamic on a CUDA device, or under the host emulation, beside
// the CPU's.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/base/layouts/warp_layers.h"
#include "engine/methods/dynamic/cuda_warp.h"
#include "engine/methods/dynamic/dynamic_step.h"
#include "engine/methods/dynamic/model.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/views/render/render_device.h"
#include "tests/engine/methods/cuda_field_expectations.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/emulated_device.h"
#endif

namespace nerf {
namespace {

constexpr const char* kWarpTensors[] = {"field.warp_mlp.0", "field.warp_mlp.1", "field.warp_mlp.2"};

// Levels of 16 to 32 cells along the box, each cell with entries of its own.
TrainConfig DynamicConfig() {
  TrainConfig config = Fp32Config();
  config.method = "dynamic";
  Ngp(config).log2_hashmap_size = 16;
  Ngp(config).finest_resolution = 32;
  Ngp(config).warp_rate = 1;
  Ngp(config).mlp_l2 = 1e-6f;  // else Adam takes the rounding of gradients for gradients
  return config;
}

// Pictures at three times, none of them the first or the last of all.
std::vector<View> ViewsInTime() {
  std::vector<View> views = NoiseViewsOfEachKind();
  for (int v = 0; v < 3; ++v) views[v].camera.time = 0.1f + 0.35f * static_cast<float>(v);
  return views;
}
RayBatch InTime(const RayBatch& batch) {
  RayBatch result = OfViews(batch);
  const std::vector<View> views = ViewsInTime();
  for (const int32_t view : result.views) result.times.push_back(views[view].camera.time);
  return result;
}

// A table whose features are waves of the place. Gradients by positions jump from cell to cell, the
// less the smoother the field: what rounding moves across a face then counts little.
Tensor SmoothTable(const kernels::HashGridShape& shape) {
  std::vector<float> values(shape.level_size() * shape.n_levels);
  for (int level = 0; level < shape.n_levels; ++level) {
    const int side = shape.resolution[level] + 1;
    EXPECT_TRUE(shape.IsDense(level));
    for (int i = 0; i < side * side * side; ++i) {
      const int x = i % side, y = i / side % side, z = i / side / side;
      const uint32_t entry = kernels::HashGridEntry(x, y, z, side, true, shape.entries() - 1);
      float* const features =
          values.data() + shape.level_size() * level + size_t{entry} * shape.n_features;
      for (int f = 0; f < shape.n_features; ++f) {
        const auto phase = static_cast<float>(shape.n_features * level + f);
        const auto along = static_cast<float>(x * (f % 3 + 1) + y * (f % 2 + 1) - z);
        features[f] = std::sin(phase + 3 * along / static_cast<float>(side));
      }
    }
  }
  return TensorFromFloats(values.data(),
                          {static_cast<uint32_t>(shape.n_levels), shape.entries(),
                           static_cast<uint32_t>(shape.n_features)},
                          DType::kF32);
}

// A state of such a field whose points move by about a tenth of the box.
TensorFile MovingState(const TrainingStep& step) {
  TensorFile file = Saved(step);
  std::vector<float> shifts = RandomFloats(kWarpHiddenWidth * kWarpOutputWidth, -0.02f, 0.02f, 79);
  for (size_t i = 0; i < shifts.size(); ++i)
    if (i % kWarpOutputWidth > 2) shifts[i] = 0;
  const Tensor table = SmoothTable(NgpNetworkOf(DynamicConfig(), TinyGeometry()).shape);
  for (const std::string prefix : {"", "average."}) {
    file.tensors.at(prefix + "field.hash_table") = table;
    Tensor& layer = file.tensors.at(prefix + kWarpTensors[2]);
    layer = TensorFromFloats(shifts.data(), layer.shape, DType::kF32);
  }
  return file;
}

class CudaDynamicTest : public CudaStepTest {
 protected:
  std::unique_ptr<RayStep> OnCpu(const TrainConfig& config, const SceneGeometry& geometry) {
    return NewDynamicStep(config, geometry, views_, &pool_);
  }
  std::unique_ptr<RayStep> OnDevice(const TrainConfig& config, const SceneGeometry& geometry,
                                    const RaySource* source = nullptr) {
    return NewNgpCudaStep(config, geometry, source, views_, &pool_, nullptr, {},
                          DynamicCudaWarpMaker(config, geometry, views_).make());
  }
  void ExpectMovingStepsLikeTheCpus(const TrainConfig& config, const SceneGeometry& geometry,
                                    uint32_t n_steps, double loss, double state) {
    const auto cpu = OnCpu(config, geometry), device = OnDevice(config, geometry);
    const Learned learned{.tensors = {std::begin(kWarpTensors), std::end(kWarpTensors)},
                          .batch_of = InTime};
    ExpectStepsLikeTheCpus(cpu.get(), device.get(), MovingState(*cpu), n_steps, loss, state,
                           learned);
  }

  const std::vector<View> views_ = ViewsInTime();
  ThreadPool pool_{1};
};
// Every kernel has met both orders of threads in its own test.
INSTANTIATE_TEST_SUITE_P(Cuda, CudaDynamicTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

TEST_P(CudaDynamicTest, StepsAreTheCpusInEveryPrecision) {
  TrainConfig config = DynamicConfig();
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    ExpectMovingStepsLikeTheCpus(config, TinyGeometry(), n_steps, loss, state);
  });
}

// Past updates of the grid, whose probes have times of their own, in nested boxes, and past one of
// the averages. Each step from the same state.
TEST_P(CudaDynamicTest, EveryStepIsTheCpusPastUpdatesOfTheGridAndTheAverages) {
  const TrainConfig config = DynamicConfig();
  const auto cpu = OnCpu(config, TinyGeometry(2)), device = OnDevice(config, TinyGeometry(2));
  TensorFile state = MovingState(*cpu);
  ASSERT_THAT(cpu->Load(state), IsOk());
  for (uint32_t i = 0; i < 17; ++i) {
    SCOPED_TRACE(i);
    ASSERT_THAT(device->Load(state), IsOk());
    const RayBatch batch = InTime(TinyBatch(8, i));
    const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
    EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss);
    state = Saved(*cpu);
    const TensorFile after = Saved(*device);
    EXPECT_EQ(after.metadata, state.metadata);
    for (const std::string name : kWarpTensors) {
      for (const char* prefix : {"", "adam.first.", "adam.second.", "average."})
        EXPECT_LT(Difference(after, state, prefix + name), kFp32State) << prefix << name;
    }
    EXPECT_LT(Difference(after, state, "field.hash_table"), kFp32State);
    // A sample at the edge of a cell may fall to either side.
    EXPECT_LT(Difference(after, state, "occupancy.values"), 10 * kFp32State);
  }
}

TEST_P(CudaDynamicTest, LevelsComeInAndTheWarpKeepsItsRateAsOnTheCpu) {
  TrainConfig config = DynamicConfig();
  Ngp(config).coarse_share = 0.5f;
  Ngp(config).warp_rate = 0.3f;
  Ngp(config).mlp_l2 = 1e-3f;
  ExpectMovingStepsLikeTheCpus(config, TinyGeometry(), 2, kFp32Loss, kFp32State);
}

TEST_P(CudaDynamicTest, DeterministicStepsGiveEqualBytesAndGoBack) {
  TrainConfig config = DynamicConfig();
  config.cuda_fp32 = 0;
  config.cuda_deterministic = 1;
  ExpectEqualBytesAndToGoBack([&] { return OnDevice(config, TinyGeometry()); }, kWarpTensors[2],
                              [](uint32_t step) { return InTime(TinyBatch(8, step)); });
}

TEST_P(CudaDynamicTest, FilesAreTheCpusAndBrokenOnesChangeNothing) {
  const TrainConfig config = DynamicConfig();
  ExpectFilesLikeTheCpus(
      OnCpu(config, TinyGeometry()).get(), OnDevice(config, TinyGeometry()).get(),
      {"field.warp_mlp.1", "adam.second.field.warp_mlp.0", "field.hash_table",
       "average.field.color_mlp.0"},
      [](const TensorFile& file) { return WithNan(file, kWarpTensors[1]); },
      [](uint32_t step) { return InTime(TinyBatch(8, step)); });
}

TEST_P(CudaDynamicTest, RaysThatTheDeviceDrawsHaveTheTimesOfTheirPictures) {
  TrainConfig config = DynamicConfig();
  config.cuda_deterministic = 1;
  const RaySource source{.views = views_, .background = Background::kBlack, .near = 0.05f};
  const auto drawing = OnDevice(config, TinyGeometry(), &source);
  const auto given = OnDevice(config, TinyGeometry());
  ASSERT_TRUE(drawing->DrawsPixels());
  const TensorFile state = MovingState(*given);
  ASSERT_THAT(drawing->Load(state), IsOk());
  ASSERT_THAT(given->Load(state), IsOk());
  PixelBatch whole, bare;
  PixelSampler(views_, Background::kBlack, config.seed).Fill(0, 24, &pool_, &whole);
  bare.n_pixels = 24;
  const StepResult a = drawing->Run(bare), b = given->Run(whole);
  EXPECT_NEAR(a.loss, b.loss, kFp32Loss * b.loss);
  for (const char* name : kWarpTensors)
    EXPECT_LT(Difference(Saved(*drawing), Saved(*given), name), kFixedPointState) << name;
}

class CudaDynamicRenderTest : public CudaDynamicTest {
 protected:
  ViewPicture Render(RenderDevice* device, const TensorFile& file, float time,
                     RenderPrecision precision) {
    auto model = LoadDynamicModel(file, DynamicConfig(), TinyGeometry());
    EXPECT_THAT(model, IsOk());
    return TinyView(device, *std::move(model), TinyGeometry(), precision, time);
  }
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaDynamicRenderTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

// Times before the first and after the last picture show those.
TEST_P(CudaDynamicRenderTest, ViewsAreTheCpusAtEveryTime) {
  const auto step = OnDevice(DynamicConfig(), TinyGeometry());
  TensorFile state = MovingState(*step);
  for (const std::string prefix : {"", "average."}) {
    Tensor& layer = state.tensors.at(prefix + "field.density_mlp.1");
    std::vector<float> values = ToFloats(layer);
    for (float& value : values) value *= 6;
    layer = TensorFromFloats(values.data(), layer.shape, DType::kF32);
  }
  ASSERT_THAT(step->Load(state), IsOk());
  const TensorFile file = Saved(*step);
  const auto cpu = NewCpuRenderDevice(&pool_);
  const auto device = NewNgpCudaRenderDevice(0, DynamicViewParts);
  std::vector<ViewPicture> pictures;
  for (const float time : {0.0f, 0.1f, 0.5f, 1.0f}) {
    const ViewPicture expected = Render(cpu.get(), file, time, RenderPrecision::kSingle);
    pictures.push_back(Render(device.get(), file, time, RenderPrecision::kSingle));
    EXPECT_LE(MostDifferent(pictures.back(), expected), 1) << time;
    EXPECT_LE(MostDifferent(Render(device.get(), file, time, RenderPrecision::kHalf), expected), 6)
        << time;
  }
  EXPECT_EQ(pictures[0].rgba.pixels, pictures[1].rgba.pixels);
  EXPECT_GT(MostDifferent(pictures[1], pictures[2]), 20);
  EXPECT_GT(MostDifferent(pictures[2], pictures[3]), 20);
  // The snapshot is what the file shows.
  const auto renderer = device->Load(step->Snapshot(), TinyGeometry(), RenderPrecision::kSingle);
  Camera camera = TinyCamera(19);
  camera.time = 0.5f;
  ViewPicture shown;
  ASSERT_TRUE(renderer->Render(camera, {}, {}, &shown));
  EXPECT_EQ(shown.rgba.pixels, pictures[2].rgba.pixels);
}

#ifdef NERF_CUDA_EMULATION

TEST_P(CudaDynamicTest, DeviceMemoryIsWhatWasPredicted) {
  for (const int fp32 : {0, 1}) {
    TrainConfig config = DynamicConfig();
    config.cuda_fp32 = fp32;
    config.max_rays = 1024;  // no more than there is room for from the start
    const size_t before = cuda_emulation::DeviceBytesInUse();
    const auto step = OnDevice(config, TinyGeometry());
    step->RunRays(InTime(TinyBatch(20)));
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - before,
              NgpCudaStepBytes(config, TinyGeometry()) +
                  DynamicCudaWarpMaker(config, TinyGeometry(), views_).byte_size());
  }
}

#endif  // NERF_CUDA_EMULATION

}  // namespace
}  // namespace nerf
