#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/config/train_config.h"
#include "engine/scene/scene.h"

namespace nerf {

// Capacities that a recorded training step was made for. While they stay the same, the recording is
// reused; the device counts the rays and samples within them.
struct CudaStepShape {
  uint32_t ray_capacity = 0, sample_capacity = 0;
  int n_levels = 0;  // of the encoding, that take part (ActiveLevels)
  bool operator==(const CudaStepShape&) const = default;

  // With room for n_rays. Capacities grow by powers of two, so that a run records about a dozen
  // times.
  CudaStepShape WithRays(uint32_t n_rays) const;
  // With room for n_samples, which a step found and could not keep.
  CudaStepShape WithSamples(uint64_t n_samples) const;
  CudaStepShape WithLevels(int n) const;
};

// The shape at the start of a training: room for max_rays if that is small, for the samples of the
// first rays, which meet a fully occupied grid, and for a few times target_samples.
CudaStepShape InitialCudaStepShape(const TrainConfig& config);
// The largest shape: the most that RayCountController asks for.
CudaStepShape LargestCudaStepShape(const TrainConfig& config);

// Scale of a step's gradients: the mean over n_rays rays and three channels, times the config's
// loss scale, times a power of two near n_rays that keeps a sample's gradient near 1 in half
// precision. `factor` undoes the power exactly.
struct GradientScale {
  float scale, factor;
};
GradientScale CudaGradientScale(const TrainConfig& config, uint32_t n_rays);

// Device memory that a step of this shape takes on each of n_ranks ranks, in bytes.
// n_backward_blocks: kernels::cuda::NgpBackwardBlocks. n_views: of the training pictures.
size_t CudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                     const CudaStepShape& shape, size_t n_backward_blocks, int n_ranks = 1,
                     size_t n_views = 0);

}  // namespace nerf
