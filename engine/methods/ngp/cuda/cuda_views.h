#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"
#include "engine/methods/ngp/cuda/cuda_buffers.h"
#include "engine/methods/ngp/learned_views.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// The arrays on a device for what a step learns of n_views pictures: gains and terms, and the sums
// of their gradients over rays, in fixed point. Empty where the config learns no such thing.
struct CudaViewValues {
  CudaViewValues(const TrainConfig& config, size_t n_views, BufferAllocator* from);
  Buffer<Vec3> gains;              // ViewExposures::gains
  Buffer<float> terms;             // ViewAppearances::terms
  Buffer<int64_t> grad_log_gains;  // [n_views][3]
  Buffer<int64_t> grad_terms;      // [n_views][kHiddenWidth]
};

// What a step on a CUDA device learns of its pictures and lenses. That is little: the device sums
// gradients over the rays of each picture, whatever the order of its threads, or leaves those of
// rays, and the host has what is learned, with Adam's moments. So files are those of the CPU's
// step.
class NgpCudaViews {
 public:
  // views: the training pictures.
  NgpCudaViews(const TrainConfig& config, const SceneGeometry& geometry,
               std::span<const View> views);

  const LearnedViews& learned() const { return learned_; }
  LearnedViews& learned() { return learned_; }

  // On the device; null where there are none.
  const Vec3* gains() const { return device_.gains.data(); }
  const float* terms() const { return device_.terms.data(); }
  int64_t* grad_log_gains() { return device_.grad_log_gains.data(); }
  int64_t* grad_terms() { return device_.grad_terms.data(); }

  // What a step's graph does first and last: brings the values, clears the sums; returns the sums.
  void RecordBegin(kernels::Stream stream);
  void RecordEnd(kernels::Stream stream);

  // After a graph has run: update t (counted from 1), from what it left in the sums and in
  // `results`, on the host. factor: what undoes the scale of its gradients.
  void Update(const NgpParameters& parameters, const RayBatch& batch, int t, float factor,
              const CudaRayResults& results, std::vector<LensCamera>* cameras);
  // Takes what LearnedViews::Read has read.
  void Take(LearnedViews read);

 private:
  void CopyToPinned();

  const TrainConfig config_;
  ThreadPool pool_{1};  // the caller alone: there is little to do
  LearnedViews learned_;
  CudaViewValues device_;
  CudaViewValues host_;                 // the host's ends of copies
  std::vector<RayGradient> grad_rays_;  // of a step's rays
};

}  // namespace nerf
