// Training steps and views of method voxels on a CUDA device, or under the host emulation, beside
// the CPU's.

#include <cmath>

#include "engine/base/config/method_description.h"
#include "engine/base/layouts/voxel_layout.h"
#include "engine/methods/voxels/cuda_voxels.h"
#include "engine/methods/voxels/describe/voxels_settings.h"
#include "engine/methods/voxels/voxels_step.h"
#include "engine/train/cuda_field_step.h"
#include "tests/engine/methods/cuda_field_expectations.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/emulated_device.h"
#endif

namespace nerf {

const MethodDescription& DescribeVoxels();

namespace {

// The CPU keeps moments in bf16.
constexpr double kBf16Moments = 0.01;

TrainConfig VoxelsConfig() {
  TrainConfig config = DescribeVoxels().Defaults();
  Voxels(config).first_resolution = 32;
  Voxels(config).finest_resolution = 64;
  Voxels(config).tv_density = 1e-4f;  // as large as the other gradients
  Voxels(config).tv_color = 1e-4f;
  config.grid_resolution = 32;
  config.grid_update_interval = 4;
  config.grid_threshold = 0.01f;
  config.target_samples = 256;
  config.initial_rays = 16;
  config.max_rays = 1024;
  return config;
}

RayBatch BatchOf(uint32_t step) { return TinyBatch(6 + static_cast<int>(step), step, 0.05f); }

// Random densities and colors.
TensorFile LivelyVoxels(const TrainingStep& step) {
  TensorFile file = Saved(step);
  Tensor& voxels = file.tensors.at("field.voxels");
  const std::vector<float> values = RandomFloats(voxels.n_elements(), -1, 1, 77);
  voxels = TensorFromFloats(values.data(), voxels.shape, DType::kF32);
  return file;
}

class CudaVoxelsTest : public CudaTest {
 protected:
  std::unique_ptr<RayStep> OnCpu(const TrainConfig& config, const SceneGeometry& geometry) {
    return NewVoxelsStep(config, geometry, {}, &pool_);
  }
  std::unique_ptr<RayStep> OnDevice(const TrainConfig& config, const SceneGeometry& geometry) {
    return std::make_unique<CudaFieldStep>(config, geometry, std::span<const View>(), &pool_,
                                           NewVoxelsCudaField(config, geometry));
  }
  ThreadPool pool_{1};
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaVoxelsTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

TEST_P(CudaVoxelsTest, StepsAreTheCpusWithSumsOfEitherKind) {
  TrainConfig config = VoxelsConfig();
  for (const int deterministic : {0, 1}) {
    SCOPED_TRACE(deterministic);
    config.cuda_deterministic = deterministic;
    const int n_levels = 1 + deterministic;
    const auto cpu = OnCpu(config, TinyGeometry(n_levels)),
               device = OnDevice(config, TinyGeometry(n_levels));
    const TensorFile state = LivelyVoxels(*cpu);
    ASSERT_THAT(cpu->Load(state), IsOk());
    ASSERT_THAT(device->Load(state), IsOk());
    for (uint32_t i = 0; i < 3; ++i) {
      const StepResult expected = cpu->RunRays(BatchOf(i)), found = device->RunRays(BatchOf(i));
      const double tolerance = i == 0 ? kFp32Loss : kBf16Moments;
      EXPECT_NEAR(found.loss, expected.loss, tolerance * expected.loss);
      EXPECT_NEAR(found.squared_error, expected.squared_error, tolerance * expected.squared_error);
      EXPECT_GT(found.n_trained, 0);
      EXPECT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained + 2);
      const TensorFile after = Saved(*device), of_cpu = Saved(*cpu);
      EXPECT_LT(Difference(after, of_cpu, "field.voxels"), i == 0 ? kFp32State : 1e-3) << i;
      EXPECT_GT(Difference(after, state, "field.voxels"), 0.01) << i;
      EXPECT_LT(Difference(after, of_cpu, "adam.first.field.voxels"), kBf16Moments) << i;
      EXPECT_LT(Difference(after, of_cpu, "occupancy.values"), kBf16Moments) << i;
      EXPECT_EQ(after.metadata, of_cpu.metadata);
    }
  }
}

// Empty bricks go, so that variations and samples meet voxels that are not stored.
TEST_P(CudaVoxelsTest, VoxelsAreDividedWhereTheCpuDividesThem) {
  const TrainConfig config = VoxelsConfig();
  const auto cpu = OnCpu(config, TinyGeometry()), device = OnDevice(config, TinyGeometry());
  TensorFile state = LivelyVoxels(*cpu);
  Tensor& occupied = state.tensors.at("occupancy.values");
  std::vector<float> values(occupied.n_elements(), 0);
  std::fill(values.begin(), values.begin() + static_cast<int>(values.size()) / 16, 1.0f);
  occupied = TensorFromFloats(values.data(), occupied.shape, DType::kF32);
  Tensor& bits = state.tensors.at("occupancy.bits");
  std::fill(bits.bytes.begin() + static_cast<int>(bits.bytes.size()) / 16, bits.bytes.end(), 0);
  ASSERT_THAT(cpu->Load(state), IsOk());
  ASSERT_THAT(device->Load(state), IsOk());
  RayBatch batch = BatchOf(4);  // the grid is updated before it
  batch.fraction = 0.9;
  const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
  EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss);
  const TensorFile after = Saved(*device), of_cpu = Saved(*cpu);
  EXPECT_EQ(after.metadata, of_cpu.metadata);
  EXPECT_NE(after.metadata, state.metadata);
  EXPECT_NE(after.tensors.at("field.bricks").bytes, state.tensors.at("field.bricks").bytes);
  EXPECT_EQ(after.tensors.at("field.bricks").bytes, of_cpu.tensors.at("field.bricks").bytes);
  EXPECT_LT(Difference(after, of_cpu, "field.voxels"), kFp32State);
}

TEST_P(CudaVoxelsTest, DeterministicStepsGiveEqualBytesAndGoBack) {
  TrainConfig config = VoxelsConfig();
  config.cuda_deterministic = 1;
  ExpectEqualBytesAndToGoBack([&] { return OnDevice(config, TinyGeometry()); }, "field.voxels",
                              BatchOf);
}

TEST_P(CudaVoxelsTest, FilesAreTheCpusAndBrokenOnesChangeNothing) {
  const auto with_nan = [](TensorFile broken) {
    Tensor& voxels = broken.tensors.at("field.voxels");
    std::vector<float> nan(voxels.n_elements(), std::nanf(""));
    for (size_t i = 0; i < nan.size(); i += kVoxelFloats) nan[i] = 0;  // densities: seen by rays
    voxels = TensorFromFloats(nan.data(), voxels.shape, DType::kF32);
    return broken;
  };
  ExpectFilesLikeTheCpus(
      OnCpu(VoxelsConfig(), TinyGeometry()).get(), OnDevice(VoxelsConfig(), TinyGeometry()).get(),
      {"field.voxels", "adam.second.field.voxels", "field.bricks", "occupancy.values"}, with_nan,
      BatchOf);
}

TEST_P(CudaVoxelsTest, ViewsAreTheCpus) {
  const auto step = OnDevice(VoxelsConfig(), TinyGeometry());
  TensorFile state = LivelyVoxels(*step);
  ASSERT_THAT(step->Load(state), IsOk());
  const auto cpu = NewCpuRenderDevice(&pool_);
  const auto device = NewNgpCudaRenderDevice(0, VoxelsViewParts);
  const ViewPicture expected = TinyView(cpu.get(), step->Snapshot(), TinyGeometry());
  EXPECT_GT(Contrast(expected), 100);
  for (const RenderPrecision precision : {RenderPrecision::kSingle, RenderPrecision::kHalf}) {
    EXPECT_LE(MostDifferent(TinyView(device.get(), step->Snapshot(), TinyGeometry(), precision),
                            expected),
              1);
  }
}

#ifdef NERF_CUDA_EMULATION

TEST_P(CudaVoxelsTest, DeviceMemoryIsWhatWasPredicted) {
  for (const int deterministic : {0, 1}) {
    TrainConfig config = VoxelsConfig();
    config.cuda_deterministic = deterministic;
    const size_t before = cuda_emulation::DeviceBytesInUse();
    const auto step = OnDevice(config, TinyGeometry());
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - before,
              CudaFieldStepBytes(config, TinyGeometry(), false) +
                  VoxelsCudaFieldBytes(config, 32, 8 * 8 * 8));
  }
}

#endif  // NERF_CUDA_EMULATION

}  // namespace
}  // namespace nerf
