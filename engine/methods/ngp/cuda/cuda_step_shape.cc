#include "engine/methods/ngp/cuda/cuda_step_shape.h"
#include "engine/base/config/step_size.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

#include <algorithm>
#include <bit>

#include "engine/methods/ngp/cuda/cuda_buffers.h"
#include "engine/methods/ngp/cuda/cuda_ranks.h"
#include "engine/methods/ngp/cuda/cuda_state.h"
#include "engine/methods/ngp/cuda/cuda_views.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/ray_count_controller.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr uint32_t kMinRays = 1024;
// Up to this many rays get their 210 bytes each from the start, since growing costs more.
constexpr int kPreallocatedRays = 1 << 17;
constexpr uint32_t kMinSamples = 1 << 12;
// About the target is trained, but more samples are marched, and their number varies from step to
// step.
constexpr uint32_t kSamplesPerTarget = 4;
constexpr uint64_t kMaxStepSamples = uint64_t{1} << 30;

template <typename T>
size_t StepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                 const CudaStepShape& shape, size_t n_backward_blocks, size_t n_rows,
                 size_t n_views) {
  MeasuringAllocator measure;
  const size_t table_size = size_t{kEncodingWidth} << Log2HashmapSize(config);
  const size_t cells = static_cast<size_t>(geometry.n_levels) * GridResolution(config) *
                       GridResolution(config) * GridResolution(config);
  for (int copy = 0; copy < 2; ++copy) CudaState(table_size, cells / 64, &measure);
  CudaTraining<T>(config, table_size, n_backward_blocks, n_rows, &measure);
  CudaGridWork(cells / 64, &measure);
  CudaRays<T>(shape.ray_capacity, CudaRayNeedsOf(config), &measure);
  CudaSamples<T>(shape.sample_capacity, &measure);
  CudaViewValues(config, n_views, &measure);
  Buffer<CudaStepControl>(1, &measure);
  Buffer<CudaStepCounts>(1, &measure);
  return measure.byte_size();
}

}  // namespace

CudaStepShape CudaStepShape::WithRays(uint32_t n_rays) const {
  CudaStepShape shape = *this;
  if (n_rays > ray_capacity) shape.ray_capacity = std::bit_ceil(std::max(n_rays, kMinRays));
  return shape;
}

CudaStepShape CudaStepShape::WithSamples(uint64_t n_samples) const {
  CudaStepShape shape = *this;
  if (n_samples > sample_capacity) {
    shape.sample_capacity = static_cast<uint32_t>(
        std::bit_ceil(std::clamp<uint64_t>(n_samples, kMinSamples, kMaxStepSamples)));
  }
  return shape;
}

CudaStepShape CudaStepShape::WithLevels(int n) const {
  CudaStepShape shape = *this;
  shape.n_levels = n;
  return shape;
}

CudaStepShape InitialCudaStepShape(const TrainConfig& config) {
  const StepSize size = StepSizeOf(config);
  const uint64_t steady = uint64_t{kSamplesPerTarget} * size.target_samples;
  return CudaStepShape{}
      .WithRays(std::max(config.initial_rays, std::min(size.max_rays, kPreallocatedRays)))
      .WithSamples(std::max(steady, uint64_t{kFirstRaySamples} * config.initial_rays))
      .WithLevels(ActiveLevels(config, 0));
}

CudaStepShape LargestCudaStepShape(const TrainConfig& config) {
  // With rays to known depths, one for each eight pixels.
  const int max_rays = StepSizeOf(config).max_rays;
  const int most_rays = max_rays + (Ngp(config).depth_weight > 0 ? max_rays / 8 : 0);
  return InitialCudaStepShape(config)
      .WithRays(static_cast<uint32_t>(most_rays))
      .WithSamples(uint64_t{kMarchedPerTarget} * LargestTargetSamples(config));
}

GradientScale CudaGradientScale(const TrainConfig& config, uint32_t n_rays) {
  const float power = static_cast<float>(std::bit_ceil(n_rays));
  return {config.loss_scale / (3.0f * n_rays) * power, 1 / power};
}

size_t CudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                     const CudaStepShape& shape, size_t n_backward_blocks, int n_ranks,
                     size_t n_views) {
  const auto n_rows = static_cast<size_t>(NgpCudaRows(config, n_ranks));
  return config.cuda_fp32 != 0
             ? StepBytes<float>(config, geometry, shape, n_backward_blocks, n_rows, n_views)
             : StepBytes<Half>(config, geometry, shape, n_backward_blocks, n_rows, n_views);
}

}  // namespace nerf
