#pragma once

#include "engine/base/config/train_config.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/cuda_field_arrays.h"

namespace nerf {

// What the march and the loss of a step on a CUDA device read and write there. The arrays outlive
// what is made of them.
struct CudaRayWork {
  const TrainConfig& config;
  kernels::MarchSteps steps;  // of the scene
  const CudaRayControl* control;
  CudaFieldBatch& batch;
  CudaMarchedRays& rays;
  CudaFieldSamples& samples;
  CudaStepCounts* counts;

  // Samples lie at (position - box_min) * inverse_box_size.
  kernels::cuda::MarchParams March(const kernels::MarchGrid& grid, Vec3 box_min,
                                   Vec3 inverse_box_size) const;
  // Without extras but the rays' weights.
  kernels::cuda::CompositeLossParams Loss() const;
};

// Copies rays of a batch to the front of the host's arrays. Where these have weights and the batch
// has none, they are 1.
void CopyRays(const RayBatch& batch, IndexRange rays, CudaFieldBatch* to);
// Records the copies of the host's arrays to the device's.
void UploadRays(const CudaFieldBatch& from, CudaFieldBatch* to, kernels::Stream stream);

// Runs graphs, and takes their time on the device.
class CudaGraphRuns {
 public:
  explicit CudaGraphRuns(kernels::Stream stream) : stream_(stream) {}
  // Returns the seconds when it is over.
  double Run(const kernels::cuda::Graph& graph) {
    begin_.Record(stream_);
    graph.Launch(stream_);
    end_.Record(stream_);
    kernels::cuda::Synchronize(stream_);
    return end_.SecondsSince(begin_);
  }

 private:
  const kernels::Stream stream_;
  kernels::cuda::Event begin_, end_;
};

}  // namespace nerf
