#include "engine/train/cuda_ray_work.h"

#include <algorithm>

#include "engine/train/schedule.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

cuda::MarchParams CudaRayWork::March(const kernels::MarchGrid& grid, Vec3 box_min,
                                     Vec3 inverse_box_size) const {
  cuda::MarchParams march;
  march.grid = grid;
  march.steps = steps;
  march.step_scale = &control->step_scale;
  march.box_min = box_min;
  march.inverse_box_size = inverse_box_size;
  march.min_transmittance = MinTransmittance(config);
  march.alpha_threshold = config.alpha_threshold;
  march.ray_capacity = static_cast<uint32_t>(batch.rays.size());
  march.n_rays = &control->n_rays;
  march.rays = batch.rays.data();
  march.jitters = batch.jitters.data();
  march.states = rays.states.data();
  march.segments = rays.segments.data();
  march.alive = rays.alive.data();
  march.alive_counts = counts->alive;
  march.sample_capacity = static_cast<uint32_t>(samples.positions.size());
  march.counts = counts->samples;
  march.overflow = &counts->overflow;
  march.t_middles = samples.t_middles.data();
  march.deltas = samples.deltas.data();
  march.cells = samples.cells.data();
  march.ray_of = samples.ray_of.data();
  march.positions = samples.positions.data();
  march.alphas = samples.alphas.data();
  march.weights = samples.weights.data();
  march.block_sums = rays.block_sums.data();
  march.ray_offsets = rays.offsets.data();
  march.rows = samples.rows.data();
  return march;
}

cuda::CompositeLossParams CudaRayWork::Loss() const {
  return {.ray_capacity = static_cast<uint32_t>(batch.rays.size()),
          .n_rays = &control->n_rays,
          .ray_offsets = rays.offsets.data(),
          .rows = samples.rows.data(),
          .alphas = samples.alphas.data(),
          .deltas = samples.deltas.data(),
          .sigmas = samples.sigmas.data(),
          .weights = samples.weights.data(),
          .t_middles = samples.t_middles.data(),
          .steps = steps,
          .step_scale = &control->step_scale,
          .colors = samples.colors.data(),
          .targets = batch.targets.data(),
          .backgrounds = batch.backgrounds.data(),
          .gradient_scale = &control->gradient_scale,
          .loss = LossShapeOf(config),
          .distortion = &control->distortion,
          .grads = samples.grads.data(),
          .losses = counts->losses,
          .extras = {.ray_weights = batch.weights.data()}};
}

void CopyRays(const RayBatch& batch, IndexRange rays, CudaFieldBatch* to) {
  const auto copy = [&](const auto& from, auto& array) {
    std::copy(from.begin() + rays.begin, from.begin() + rays.end, array.begin());
  };
  copy(batch.rays, to->rays);
  copy(batch.jitters, to->jitters);
  copy(batch.targets, to->targets);
  copy(batch.backgrounds, to->backgrounds);
  if (to->weights.empty()) return;
  if (batch.weights.empty())
    std::fill(to->weights.begin(), to->weights.end(), 1.0f);
  else
    copy(batch.weights, to->weights);
}

void UploadRays(const CudaFieldBatch& from, CudaFieldBatch* to, kernels::Stream stream) {
  const auto copy = [&](const auto& source, auto& array) {
    if (!array.empty()) cuda::CopyToDevice(array.data(), source.data(), array.byte_size(), stream);
  };
  copy(from.rays, to->rays);
  copy(from.jitters, to->jitters);
  copy(from.targets, to->targets);
  copy(from.backgrounds, to->backgrounds);
  copy(from.weights, to->weights);
}

}  // namespace nerf
