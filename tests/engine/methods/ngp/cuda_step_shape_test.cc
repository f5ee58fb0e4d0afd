#include "engine/methods/ngp/cuda/cuda_step_shape.h"
#include "engine/base/config/step_size.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

#include <cmath>

#include "engine/methods/ngp/cuda/cuda_buffers.h"
#include "engine/methods/ngp/network.h"
#include "engine/train/schedule.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

TEST(CudaStepShapeTest, FewerRaysOrSamplesThanThereIsRoomForChangeNothing) {
  const CudaStepShape shape = InitialCudaStepShape(TinyConfig());
  EXPECT_GE(shape.ray_capacity, 1024u);
  EXPECT_GE(shape.sample_capacity, 1024u);
  EXPECT_EQ(shape.WithRays(1), shape);
  EXPECT_EQ(shape.WithRays(shape.ray_capacity), shape);
  EXPECT_EQ(shape.WithSamples(shape.sample_capacity), shape);
}

TEST(CudaStepShapeTest, ARunThatGrowsStepByStepIsRecordedAnewADozenTimesAtMost) {
  CudaStepShape shape = InitialCudaStepShape(TrainConfig());
  int n_changes = 0;
  for (uint32_t n_rays = 64; n_rays <= (1u << 20); n_rays += 64) {
    const CudaStepShape next = shape.WithRays(n_rays);
    EXPECT_GE(next.ray_capacity, n_rays);
    n_changes += next != shape;
    shape = next;
  }
  EXPECT_LE(n_changes, 12);
}

TEST(CudaStepShapeTest, RoomForMoreSamplesHoldsThem) {
  const CudaStepShape shape = InitialCudaStepShape(TinyConfig());
  for (uint64_t n : {uint64_t{100000}, uint64_t{1} << 21, (uint64_t{1} << 21) + 1}) {
    EXPECT_GE(shape.WithSamples(n).sample_capacity, n);
    EXPECT_LT(shape.WithSamples(n).sample_capacity, 2 * n);
  }
}

TEST(CudaStepShapeTest, TheFirstStepsRaysThroughAnOpenGridFitAtTheStart) {
  const TrainConfig config;
  EXPECT_GE(InitialCudaStepShape(config).sample_capacity, config.initial_rays * 400);
}

TEST(CudaStepShapeTest, TheLargestShapeHoldsWhatTheControllerMayAskFor) {
  TrainConfig config;
  config.target_samples = 1 << 18;
  const CudaStepShape initial = InitialCudaStepShape(config),
                      largest = LargestCudaStepShape(config);
  EXPECT_GE(largest.ray_capacity, static_cast<uint32_t>(StepSizeOf(config).max_rays));
  EXPECT_GE(largest.sample_capacity, 16u * LargestTargetSamples(config));
  EXPECT_EQ(largest.WithRays(initial.ray_capacity).WithSamples(initial.sample_capacity), largest);
}

TEST(CudaStepShapeTest, GradientScaleIsTheMeansAndAPowerOfTwoBesideIt) {
  const TrainConfig config;
  for (uint32_t n_rays : {1u, 2u, 3u, 1000u, 65536u}) {
    const GradientScale scale = CudaGradientScale(config, n_rays);
    EXPECT_EQ(scale.scale * scale.factor, config.loss_scale / (3.0f * n_rays)) << "exactly";
    int exponent;
    EXPECT_EQ(std::frexp(scale.factor, &exponent), 0.5f);
    EXPECT_GE(scale.scale, config.loss_scale / 3 * 0.999f);
    EXPECT_LT(scale.scale, 2 * config.loss_scale / 3);
  }
}

TEST(CudaStepShapeTest, MemoryGrowsWithSamplesAndWithDeterminism) {
  TrainConfig config;
  const SceneGeometry geometry = TinyGeometry();
  const CudaStepShape shape = InitialCudaStepShape(config);
  const size_t bytes = CudaStepBytes(config, geometry, shape, 10);
  EXPECT_LT(bytes, CudaStepBytes(config, geometry, shape.WithSamples(1 << 20), 10));
  // Masters, two moments and average in fp32 and those to go back to; gradients, and a copy in half
  // precision.
  const size_t table = size_t{32} << Log2HashmapSize(config);
  EXPECT_GT(bytes, table * (9 * 4 + 2));
  // With ranks, or lanes for any number of them, a row of the MLPs' gradients each.
  constexpr size_t kRow = kNgpWeights * sizeof(float) + sizeof(uint32_t);
  EXPECT_EQ(CudaStepBytes(config, geometry, shape, 10, /*n_ranks=*/3), bytes + 3 * kRow);
  config.cuda_deterministic = 1;
  EXPECT_EQ(CudaStepBytes(config, geometry, shape, 10), bytes + table * 4 + kCudaLanes * kRow);
  EXPECT_EQ(CudaStepBytes(config, geometry, shape, 10, /*n_ranks=*/3),
            bytes + table * 4 + kCudaLanes * kRow);
}

}  // namespace
}  // namespace nerf
