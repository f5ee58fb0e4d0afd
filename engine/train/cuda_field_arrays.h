#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/buffer.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/kernels/ray_marching.h"

namespace nerf {

// The arrays of training steps that march rays on a CUDA device, each set taken from one allocator.

// Of a batch's rays, up to `capacity`; also used for the host's copy.
struct CudaFieldBatch {
  CudaFieldBatch(size_t capacity, bool has_weights, BufferAllocator* from)
      : rays(capacity, from),
        jitters(capacity, from),
        targets(capacity, from),
        backgrounds(capacity, from),
        weights(has_weights ? capacity : 0, from) {}
  Buffer<Ray> rays;
  Buffer<float> jitters;
  Buffer<Vec3> targets, backgrounds;
  Buffer<float> weights;  // in the loss
};

// What marching keeps of up to `capacity` rays.
struct CudaMarchedRays {
  CudaMarchedRays(size_t capacity, BufferAllocator* from)
      : states(capacity, from),
        segments(kernels::cuda::kWaves * capacity, from),
        alive(2 * capacity, from),
        block_sums(kernels::cuda::RayBlocks(static_cast<uint32_t>(capacity)), from),
        offsets(capacity + 1, from) {}
  Buffer<kernels::cuda::RayState> states;
  Buffer<kernels::cuda::RaySegment> segments;
  Buffer<uint32_t> alive, block_sums, offsets;
};

struct CudaFieldRays : CudaMarchedRays {
  CudaFieldRays(size_t capacity, bool has_weights, BufferAllocator* from)
      : CudaMarchedRays(capacity, from), batch(capacity, has_weights, from) {}
  CudaFieldBatch batch;
};

// Of up to `capacity` marched samples.
struct CudaFieldSamples {
  CudaFieldSamples(size_t capacity, BufferAllocator* from)
      : positions(capacity, from),
        t_middles(capacity, from),
        deltas(capacity, from),
        sigmas(capacity, from),
        alphas(capacity, from),
        weights(capacity, from),
        cells(capacity, from),
        ray_of(capacity, from),
        rows(capacity, from),
        colors(capacity, from),
        grads(4 * capacity, from) {}
  Buffer<Vec3> positions;
  Buffer<float> t_middles, deltas, sigmas, alphas, weights;
  Buffer<uint32_t> cells, ray_of, rows;
  Buffer<Vec3> colors;
  Buffer<float> grads;
};

// What the occupancy grid has on the device beside its values and bits, of n_blocks blocks of 64
// cells.
struct CudaGridWork {
  CudaGridWork(size_t n_blocks, BufferAllocator* from)
      : allowed(n_blocks, from),
        empty_distances(n_blocks, from),
        distances_along_axis(n_blocks, from),
        sums(kernels::cuda::kMeanBlocks, from),
        n_points(1, from),
        n_occupied(1, from) {}
  Buffer<uint64_t> allowed;
  Buffer<uint8_t> empty_distances, distances_along_axis;
  Buffer<double> sums;
  Buffer<uint32_t> n_points, n_occupied;
};

// Values that the host passes to a step, and that a step returns.
struct CudaRayControl {
  uint32_t n_rays = 0;  // of this rank
  uint32_t step = 0;
  uint32_t rays_per_pixel = 1;
  float step_scale = 1;      // of the steps along rays
  float distortion = 0;      // weight in the loss
  float gradient_scale = 0;  // of the loss of one channel of one ray
};
struct CudaFieldControl : CudaRayControl {
  float loss_factor = 1;
  kernels::cuda::AdamStepSettings adam;
};
struct CudaStepCounts {
  uint32_t samples[kernels::cuda::kMarchParts] = {};  // MarchParams::counts
  uint32_t alive[kernels::cuda::kWaves] = {};         // rays of each wave but the first
  uint32_t overflow = 0;
  uint32_t not_finite = 0;  // a weight is not finite after the step
  double losses[2 * kernels::cuda::kLossBlocks] = {};
};

}  // namespace nerf
