#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/config/train_config.h"
#include "engine/scene/scene.h"

namespace nerf {

// What a recorded training step was made for. As long as it stays the same, the recording is played
// again; the numbers of rays and samples within these bounds are the device's business.
struct CudaStepShape {
  uint32_t ray_capacity = 0, sample_capacity = 0;
  bool operator==(const CudaStepShape&) const = default;

  // With room for n_rays: capacities grow by powers of two, so that a run records a dozen times.
  CudaStepShape WithRays(uint32_t n_rays) const;
  // After a step that found at least n_samples and had no room for them.
  CudaStepShape WithSamples(uint64_t n_samples) const;
};

// Where a training begins: room for all of its rays where those are not many, for the samples of
// the first ones, which cross a grid that is still open, and for a few times its target of samples.
CudaStepShape InitialCudaStepShape(const TrainConfig& config);
// What it may grow to: the most that the ray count's controller asks for.
CudaStepShape LargestCudaStepShape(const TrainConfig& config);

// Scaling of the gradients of a step: the mean over n_rays rays and three channels times the
// config's loss scale, and a power of two about as large as n_rays beside it, which keeps a
// sample's gradient near 1 for half precision. `factor` undoes the power exactly.
struct GradientScale {
  float scale, factor;
};
GradientScale CudaGradientScale(const TrainConfig& config, uint32_t n_rays);

// Device memory that a step of this shape takes, in bytes. n_backward_blocks:
// kernels::cuda::NgpBackwardBlocks.
size_t CudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                     const CudaStepShape& shape, size_t n_backward_blocks);

}  // namespace nerf
