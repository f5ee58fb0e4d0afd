#include "engine/train/field_chunk.h"

#include <algorithm>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/color_loss.h"
#include "engine/field/kernels/composite.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

// What the distortion of a ray counts in the scaled loss of the batch, the mean over its rays.
float DistortionScale(const FieldChunkInput& input) {
  return input.batch->distortion * input.config->loss_scale / input.batch->n_rays;
}

}  // namespace

void FieldChunk::Reserve(int n_rows, ChunkField* field) {
  if (n_rows <= capacity_) return;
  capacity_ = std::max(n_rows, 2 * capacity_);
  for (std::vector<Vec3>* column : {&positions_, &colors_, &grad_colors_})
    column->resize(capacity_);
  ray_of_.resize(capacity_);
  for (std::vector<float>* column :
       {&deltas_, &sigmas_, &alphas_, &weights_, &normalized_t_, &grad_sigmas_}) {
    column->resize(capacity_);
  }
  field->Reserve(capacity_, n_rows_);
}

void FieldChunk::Run(const FieldChunkInput& input, int begin, int end, int lane, ChunkField* field,
                     ChunkSums* sums) {
  const RayBatch& batch = *input.batch;
  const int n_rays = end - begin;
  rays_.assign(n_rays, CompositedRay());
  marches_.resize(n_rays);
  n_rows_ = 0;
  for (int r = 0; r < n_rays; ++r) {
    marches_[r] = kernels::StartMarch(input.grid, input.steps, batch.rays[begin + r],
                                      batch.jitters[begin + r]);
  }
  field->Begin(n_rays, batch.rays.data() + begin,
               batch.times.empty() ? nullptr : batch.times.data() + begin);
  for (int taken = 0; taken < kernels::kMaxSamplesPerRay && CollectActiveRays();
       taken += input.round_samples) {
    MarchRound(input, field, sums);
  }
  field->Color(n_rows_, ray_of_.data(), colors_.data());
  CompositeAndLoss(input, begin, sums);
  CompositeBackward(input);
  if (n_rows_ > 0) {
    field->Backward(n_rows_, ray_of_.data(), grad_sigmas_.data(), grad_colors_.data(), lane);
  }
  sums->n_trained += n_rows_;
}

bool FieldChunk::CollectActiveRays() {
  wave_.active.clear();
  for (size_t r = 0; r < rays_.size(); ++r) {
    if (!rays_[r].done) wave_.active.push_back(static_cast<int>(r));
  }
  return !wave_.active.empty();
}

// Adds a row with its density for each of the next samples of the active rays, and drops those that
// are hidden.
void FieldChunk::MarchRound(const FieldChunkInput& input, ChunkField* field, ChunkSums* sums) {
  const int n_active = static_cast<int>(wave_.active.size());
  wave_.March(input.grid, input.steps, input.round_samples, marches_.data());
  Reserve(n_rows_ + input.round_samples * n_active, field);
  int end = n_rows_;
  for (int i = 0; i < n_active; ++i) {
    const int r = wave_.active[i], n_found = wave_.n_found[i];
    rays_[r].done = n_found < input.round_samples;
    const size_t first = static_cast<size_t>(i) * input.round_samples;
    const uint32_t* const cells = wave_.cells.data() + first;
    sums->cells.insert(sums->cells.end(), cells, cells + n_found);
    for (size_t found = first; found < first + n_found; ++found, ++end) {
      const float t = wave_.t_middles[found];
      positions_[end] = marches_[r].origin + marches_[r].direction * t;
      deltas_[end] = wave_.deltas[found];
      normalized_t_[end] = kernels::DistortionCoordinate(input.scene_steps, t);
      ray_of_[end] = r;
    }
  }
  const int row = n_rows_, n = end - n_rows_;
  if (n == 0) return;
  sums->n_marched += n;
  field->Density(row, n, positions_.data() + row, ray_of_.data() + row, sigmas_.data() + row);
  kernels::cpu::Alphas({.n = n,
                        .sigmas = sigmas_.data() + row,
                        .deltas = deltas_.data() + row,
                        .alphas = alphas_.data() + row});
  sums->sigmas.insert(sums->sigmas.end(), sigmas_.data() + row, sigmas_.data() + end);
  n_rows_ = DropHidden(*input.config, row, end, field);
}

// Advances each ray's transmittance over its new samples and closes the gaps that samples behind
// the limit leave. Returns the new number of rows.
int FieldChunk::DropHidden(const TrainConfig& config, int begin, int end, ChunkField* field) {
  const float limit = MinTransmittance(config);
  int kept = begin;
  for (int row = begin; row < end; ++row) {
    CompositedRay& ray = rays_[ray_of_[row]];
    if (!kernels::IsVisible(ray.transmittance, alphas_[row], limit, config.alpha_threshold))
      continue;
    if (kept != row) {
      positions_[kept] = positions_[row];
      ray_of_[kept] = ray_of_[row];
      deltas_[kept] = deltas_[row];
      normalized_t_[kept] = normalized_t_[row];
      sigmas_[kept] = sigmas_[row];
      field->MoveRow(row, kept);
    }
    alphas_[kept] = kernels::EffectiveAlpha(alphas_[row], ray.transmittance, limit);
    weights_[kept] = kernels::CompositeForwardStep(alphas_[kept], &ray.transmittance);
    if (ray.transmittance < limit) ray.done = true;
    ++kept;
  }
  return kept;
}

void FieldChunk::CompositeAndLoss(const FieldChunkInput& input, int begin, ChunkSums* sums) {
  const RayBatch& batch = *input.batch;
  const float length = batch.step_scale * kernels::kDistortionPerStep;
  for (int row = 0; row < n_rows_; ++row) {
    CompositedRay& ray = rays_[ray_of_[row]];
    ray.color = ray.color + colors_[row] * weights_[row];
    ray.distortion.Add(weights_[row], normalized_t_[row], length);
  }
  const kernels::LossShape loss_shape = LossShapeOf(*input.config);
  const float scale = input.config->loss_scale / (3.0f * batch.n_rays);
  for (size_t r = 0; r < rays_.size(); ++r) {
    CompositedRay& ray = rays_[r];
    const Vec3 color = ray.color + batch.backgrounds[begin + r] * ray.transmittance;
    const float weight = batch.weights.empty() ? 1.0f : batch.weights[begin + r];
    for (int channel = 0; channel < 3; ++channel) {
      const float residual = color[channel] - batch.targets[begin + r][channel];
      const kernels::ChannelLoss loss = kernels::LossOfResidual(loss_shape, residual);
      ray.grad_color[channel] = scale * weight * loss.derivative;
      sums->loss += weight * loss.value / 3.0;
      sums->squared_error += static_cast<double>(weight) * residual * residual / 3.0;
    }
    sums->loss += static_cast<double>(batch.distortion) * ray.distortion.value;
    ray.behind = Dot(ray.grad_color, color) + 2 * DistortionScale(input) * ray.distortion.value;
  }
}

// From the gradients of a ray's color and distortion to those of its samples' colors and densities.
void FieldChunk::CompositeBackward(const FieldChunkInput& input) {
  const float scale = DistortionScale(input);
  const float length = input.batch->step_scale * kernels::kDistortionPerStep;
  for (CompositedRay& ray : rays_) ray.transmittance = 1;
  for (int row = 0; row < n_rows_; ++row) {
    CompositedRay& ray = rays_[ray_of_[row]];
    const float weight = weights_[row], normalized_t = normalized_t_[row];
    const float grad_weight = Dot(ray.grad_color, colors_[row]) +
                              scale * kernels::DistortionGradient(ray.distortion, ray.before,
                                                                  weight, normalized_t, length);
    ray.before.Add(weight, normalized_t, length);
    grad_sigmas_[row] = kernels::CompositeBackwardStep(
        grad_weight, alphas_[row], weight, deltas_[row], &ray.transmittance, &ray.behind);
    grad_colors_[row] = ray.grad_color * weight;
  }
}

}  // namespace nerf
