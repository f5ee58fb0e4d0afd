#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/buffer.h"
#include "engine/base/half_float.h"
#include "engine/base/ray.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/kernels/ray_gradients.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/methods/ngp/describe/cuda_lanes.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/view_parameters/view_poses.h"
#include "engine/train/cuda_field_arrays.h"

namespace nerf {

// The arrays that a training step on a CUDA device works with, all taken from one allocator. T is
// Half or float.

// Which arrays of rays a config needs beyond those of every step.
struct CudaRayNeeds {
  bool horizons = false;   // of a learned background
  bool weights = false;    // in the loss
  bool views = false;      // whose rays they are
  bool depths = false;     // where they meet a surface
  bool errors = false;     // of their colors
  bool gradients = false;  // by rays
};
inline CudaRayNeeds CudaRayNeedsOf(const TrainConfig& config) {
  const NgpSettings& settings = Ngp(config);
  return {.horizons = settings.learned_background != 0,
          .weights = config.alpha_is_mask != 0 || settings.depth_weight > 0,
          .views = ExposureRate(config) > 0 || settings.appearance_rate > 0,
          .depths = settings.depth_weight > 0,
          .errors = settings.error_share > 0,
          .gradients = settings.pose_rate > 0 || settings.focal_rate > 0};
}

// What a step keeps beside its parameters. Gradients of the table are floats, or fixed point if the
// config asks for sums that do not depend on their order. In half precision the step reads copies
// of the parameters, of the table with half_table alone. n_rows: NgpCudaRows (cuda_ranks.h).
template <typename T>
struct CudaTraining {
  static constexpr bool kHalf = sizeof(T) == sizeof(Half);

  CudaTraining(const TrainConfig& config, size_t table_size, size_t n_backward_blocks,
               size_t n_rows, BufferAllocator* from)
      : table_gradients(config.cuda_deterministic != 0 ? 0 : table_size, from),
        fixed_table_gradients(config.cuda_deterministic != 0 ? table_size : 0, from),
        weight_gradients(kNgpWeights * n_backward_blocks, from),
        row_gradients(kNgpWeights * n_rows, from),
        row_samples(n_rows, from),
        table_copies(kHalf && Ngp(config).half_table != 0 ? table_size : 0, from),
        weight_copies(kHalf ? kNgpWeights : 0, from) {}

  // The masters where there are no copies of them.
  const float* Fp32Table(const Buffer<float>& masters) const {
    return table_copies.empty() ? masters.data() : nullptr;
  }

  Buffer<float> table_gradients;
  Buffer<int64_t> fixed_table_gradients;
  Buffer<float> weight_gradients;  // one row a block of the backward pass
  Buffer<float> row_gradients;     // the sums of the blocks, for each row
  Buffer<uint32_t> row_samples;    // kept, of the rows that this rank computes
  Buffer<Half> table_copies, weight_copies;
};

// A batch's rays, up to `capacity`; also used for the host's copy.
struct CudaBatch : CudaFieldBatch {
  CudaBatch(size_t capacity, const CudaRayNeeds& needs, BufferAllocator* from)
      : CudaFieldBatch(capacity, needs.weights, from),
        views(needs.views ? capacity : 0, from),
        depths(needs.depths ? capacity : 0, from) {}
  Buffer<int32_t> views;
  Buffer<float> depths;
};

// What is found of them beside the sums; also used for the host's copy.
struct CudaRayResults {
  CudaRayResults(size_t capacity, const CudaRayNeeds& needs, BufferAllocator* from)
      : errors(needs.errors ? capacity : 0, from),
        gradients(needs.gradients ? capacity / kPoseRays + 1 : 0, from) {}
  Buffer<float> errors;
  Buffer<kernels::RayGradient> gradients;  // of one ray in kPoseRays
};

// Of up to `capacity` rays.
template <typename T>
struct CudaRays : CudaMarchedRays {
  CudaRays(size_t capacity, const CudaRayNeeds& needs, BufferAllocator* from)
      : CudaMarchedRays(capacity, from),
        batch(capacity, needs, from),
        harmonics(kDirectionWidth * capacity, from),
        horizons(needs.horizons ? capacity : 0, from),
        results(capacity, needs, from) {}
  CudaBatch batch;
  Buffer<T> harmonics;
  Buffer<uint32_t> horizons;
  CudaRayResults results;
};

// Of up to `capacity` marched samples.
template <typename T>
struct CudaSamples : CudaFieldSamples {
  CudaSamples(size_t capacity, BufferAllocator* from)
      : CudaFieldSamples(capacity, from),
        encodings(kEncodingWidth * capacity, from),
        geometry(kGeometryWidth * capacity, from),
        grad_encodings(kEncodingWidth * capacity, from) {}
  Buffer<T> encodings, geometry;
  Buffer<float> grad_encodings;
};

// Values that the host passes to a step; it returns CudaStepCounts.
struct CudaStepControl : CudaRayControl {
  uint32_t first_ray = 0;  // the first of this rank's rays among those of all ranks
  uint32_t row_rays[kCudaLanes + 1] =
      {};  // where the rows that this rank computes begin among them
  kernels::cuda::AdamStepSettings table, weights;
};

}  // namespace nerf
