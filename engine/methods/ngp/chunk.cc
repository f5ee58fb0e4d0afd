#include "engine/methods/ngp/chunk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/base/check.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/color_loss.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/dense_layer.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/hash_position_gradient.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/methods/ngp/buffer_rows.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/layer_backward.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kBackwardRows =
    128;  // rows whose activations (1.1 KB each) go through the backward pass together

// What the distortion of a ray counts in the scaled loss of the batch, the mean over its rays.
float DistortionScale(const ChunkInput& input) {
  return input.batch->distortion * input.config->loss_scale / input.batch->n_rays;
}

// What a ray's depth counts in the scaled loss of the batch.
float DepthScale(const ChunkInput& input) {
  return Ngp(*input.config).depth_weight * input.config->loss_scale / input.batch->n_rays;
}

const uint32_t* TransposedPairs(const ChunkInput& input, int offset, int column = 0) {
  if (input.transposed_pairs == nullptr) return nullptr;
  return input.transposed_pairs + offset / 2 + column;
}

}  // namespace

NgpChunk::NgpChunk() : color_inputs_(size_t{kColorInputWidth} * kBackwardRows) { Reserve(1024); }

void NgpChunk::Reserve(int n_rows) {
  if (n_rows <= capacity_) return;
  const size_t old_rows = n_rows_, rows = std::max(n_rows, 2 * capacity_);
  Grow(&positions_, old_rows, rows);
  Grow(&ray_of_, old_rows, rows);
  for (Buffer<float>* column :
       {&deltas_, &sigmas_, &alphas_, &weights_, &light_, &factors_, &normalized_t_}) {
    Grow(column, old_rows, rows);
  }
  Grow(&encodings_, old_rows * kEncodingWidth, rows * kEncodingWidth);
  Grow(&density_hidden_, old_rows * kHiddenWidth, rows * kHiddenWidth);
  Grow(&geometry_, old_rows * kGeometryWidth, rows * kGeometryWidth);
  // Color and gradients are written after the last growth.
  color_hidden0_ = Buffer<float>(rows * kHiddenWidth);
  color_hidden1_ = Buffer<float>(rows * kHiddenWidth);
  colors_ = Buffer<float>(rows * kColorWidth);
  grad_geometry_ = Buffer<float>(rows * kGeometryWidth);
  capacity_ = static_cast<int>(rows);
}

void RaysInFlight::Start(const ChunkInput& input, int first, int end) {
  begin = first;
  rays.resize(end - first);
  wave.active.resize(rays.size());
  for (int r = 0; r < end - first; ++r) {
    rays[r] = kernels::StartMarch(input.grid, input.steps, input.batch->rays[first + r],
                                  input.batch->jitters[first + r]);
    wave.active[r] = r;
  }
  wave.March(input.grid, input.steps, input.SamplesAhead(), rays.data());
}

void NgpChunk::Run(const ChunkInput& input, const RaysInFlight& in_flight, int begin, int end,
                   LaneOutput* output) {
  const RayBatch& batch = *input.batch;
  const int n_rays = end - begin, first = begin - in_flight.begin;
  NERF_CHECK(n_rays % batch.rays_per_pixel == 0);
  rays_.resize(n_rays);
  marches_.assign(in_flight.rays.begin() + first, in_flight.rays.begin() + first + n_rays);
  harmonics_.resize(size_t{kDirectionWidth} * n_rays);
  direction_terms_.resize(size_t{kHiddenWidth} * n_rays);
  n_rows_ = 0;
  first_ray_ = begin;
  for (int r = 0; r < n_rays; ++r) {
    RayState& ray = rays_[r];
    ray.transmittance = 1;
    ray.done = false;
    ray.color = {};
    ray.distortion = ray.before = {};
    ray.near_depth = 0;
    ray.roulette = {};
    kernels::SphericalHarmonics4(batch.rays[begin + r].direction,
                                 harmonics_.data() + size_t{kDirectionWidth} * r);
  }
  March(input, in_flight.wave, first, output);
  PlayRoulette(input, begin);
  first_background_ = n_rows_;
  if (input.network.learns_background) AddBackground(input, begin, output);
  ForwardColor(input);
  CompositeAndLoss(input, begin, output);
  CompositeBackward(input);
  for (int row = 0; row < n_rows_; row += kBackwardRows) {
    BackwardRows(input, row, std::min(kBackwardRows, n_rows_ - row), output);
  }
  output->n_trained += n_rows_;
}

// The chunk's rays have marched in `ahead`, from first_slot on.
void NgpChunk::March(const ChunkInput& input, const RayWave& ahead, int first_slot,
                     LaneOutput* output) {
  const RayWave* wave = &ahead;
  slots_.resize(rays_.size());
  std::iota(slots_.begin(), slots_.end(), first_slot);
  for (int taken = 0; taken < kernels::kMaxSamplesPerRay && CollectActiveRays();
       taken += input.round_samples) {
    const int offset = taken % input.SamplesAhead();
    if (taken > 0 && offset == 0) {
      wave_.active = active_;
      wave_.March(input.grid, input.steps, input.SamplesAhead(), marches_.data());
      for (size_t i = 0; i < active_.size(); ++i) slots_[active_[i]] = static_cast<int>(i);
      wave = &wave_;
    }
    EvaluateDensity(input, *wave, offset, output);
  }
}

bool NgpChunk::CollectActiveRays() {
  active_.clear();
  for (size_t r = 0; r < rays_.size(); ++r) {
    if (!rays_[r].done) active_.push_back(static_cast<int>(r));
  }
  return !active_.empty();
}

// Adds a row with its density for each of the next samples of the active rays, which are in `wave`
// behind `offset` others, and drops those that are hidden.
void NgpChunk::EvaluateDensity(const ChunkInput& input, const RayWave& wave, int offset,
                               LaneOutput* output) {
  Reserve(n_rows_ + input.round_samples * static_cast<int>(active_.size()));
  int end = n_rows_;
  for (const int r : active_) {
    const int n_ahead = wave.n_found[slots_[r]], n_left = n_ahead - offset;
    const int n_found = std::min(n_left, input.round_samples);
    rays_[r].done = n_found == n_left && n_ahead < input.SamplesAhead();
    const size_t first = static_cast<size_t>(slots_[r]) * input.SamplesAhead() + offset;
    const uint32_t* cells = wave.cells.data() + first;
    output->cells.insert(output->cells.end(), cells, cells + n_found);
    for (size_t found = first; found < first + n_found; ++found, ++end) {
      positions_[end] = marches_[r].origin + marches_[r].direction * wave.t_middles[found];
      deltas_[end] = wave.deltas[found];
      normalized_t_[end] = kernels::DistortionCoordinate(input.scene_steps, wave.t_middles[found]);
      ray_of_[end] = r;
    }
  }
  const size_t row = n_rows_;
  const int n = end - n_rows_;
  output->n_marched += n;
  ToEncodedCube(input.network, n, positions_.data() + row, positions_.data() + row);
  NgpDensityForward(
      input.network, n, positions_.data() + row, encodings_.data() + row * kEncodingWidth,
      density_hidden_.data() + row * kHiddenWidth, geometry_.data() + row * kGeometryWidth);
  kernels::cpu::DensityActivation({.n = n,
                                   .outputs = geometry_.data() + row * kGeometryWidth,
                                   .stride = kGeometryWidth,
                                   .shift = input.network.density_shift,
                                   .deltas = deltas_.data() + row,
                                   .sigmas = sigmas_.data() + row,
                                   .alphas = alphas_.data() + row});
  output->sigmas.insert(output->sigmas.end(), sigmas_.data() + row, sigmas_.data() + row + n);
  n_rows_ = DropHidden(input, n_rows_, end);
}

// Adds an opaque row for each ray that has light left: the field infinitely far away. It takes all
// of that light, so its density gets no gradient.
void NgpChunk::AddBackground(const ChunkInput& input, int begin, LaneOutput* output) {
  Reserve(n_rows_ + static_cast<int>(rays_.size()));
  for (size_t r = 0; r < rays_.size(); ++r) {
    RayState& ray = rays_[r];
    if (ray.transmittance <= 0 || ray.transmittance < MinTransmittance(*input.config)) continue;
    positions_[n_rows_] = EncodedHorizon(input.network, input.batch->rays[begin + r].direction);
    ray_of_[n_rows_] = static_cast<int>(r);
    deltas_[n_rows_] = sigmas_[n_rows_] = normalized_t_[n_rows_] = 0;
    alphas_[n_rows_] = 1;
    weights_[n_rows_] = kernels::CompositeForwardStep(1, &ray.transmittance);
    light_[n_rows_] = 0;
    factors_[n_rows_] = 1;
    ++n_rows_;
  }
  const int row = first_background_, n = n_rows_ - row;
  output->n_marched += n;
  if (n == 0) return;
  NgpDensityForward(input.network, n, positions_.data() + row,
                    encodings_.data() + size_t(row) * kEncodingWidth,
                    density_hidden_.data() + size_t(row) * kHiddenWidth,
                    geometry_.data() + size_t(row) * kGeometryWidth);
}

// Advances each ray's transmittance over its new samples and closes the gaps that samples behind
// the limit leave. Returns the new number of rows.
int NgpChunk::DropHidden(const ChunkInput& input, int begin, int end) {
  const float limit = MinTransmittance(*input.config);
  int kept = begin;
  for (int row = begin; row < end; ++row) {
    RayState& ray = rays_[ray_of_[row]];
    if (!kernels::IsVisible(ray.transmittance, alphas_[row], limit,
                            input.config->alpha_threshold)) {
      continue;
    }
    if (kept != row) MoveRow(row, kept);
    alphas_[kept] = kernels::EffectiveAlpha(alphas_[kept], ray.transmittance, limit);
    weights_[kept] = kernels::CompositeForwardStep(alphas_[kept], &ray.transmittance);
    light_[kept] = ray.transmittance;
    factors_[kept] = 1;
    if (ray.transmittance < limit) ray.done = true;
    ++kept;
  }
  return kept;
}

void NgpChunk::PlayRoulette(const ChunkInput& input, int begin) {
  const float limit = RouletteWeight(*input.config, input.batch->fraction);
  if (limit <= 0) return;
  for (int row = 0; row < n_rows_; ++row) rays_[ray_of_[row]].roulette.Count(weights_[row], limit);
  for (size_t r = 0; r < rays_.size(); ++r) {
    // The low bits of the jitter, which hardly move a sample.
    const float jitter = input.batch->jitters[begin + r] * 4096;
    rays_[r].roulette.Start(limit, jitter - std::floor(jitter));
  }
  int kept = 0;
  for (int row = 0; row < n_rows_; ++row) {
    const float factor = rays_[ray_of_[row]].roulette.Factor(weights_[row], limit);
    if (factor == 0) continue;
    if (kept != row) MoveRow(row, kept);
    light_[kept] = light_[row];
    weights_[kept] = weights_[row] * factor;
    factors_[kept] = factor;
    ++kept;
  }
  n_rows_ = kept;
}

void NgpChunk::MoveRow(int from, int to) {
  positions_[to] = positions_[from];
  ray_of_[to] = ray_of_[from];
  deltas_[to] = deltas_[from];
  normalized_t_[to] = normalized_t_[from];
  sigmas_[to] = sigmas_[from];
  alphas_[to] = alphas_[from];
  CopyRow<kEncodingWidth>(&encodings_, from, to);
  CopyRow<kHiddenWidth>(&density_hidden_, from, to);
  CopyRow<kGeometryWidth>(&geometry_, from, to);
}

// Adds the appearance of each ray's view to its direction term.
void NgpChunk::AddViewTerms(const ChunkInput& input) {
  if (input.view_terms == nullptr) return;
  for (size_t r = 0; r < rays_.size(); ++r) {
    const int32_t view = input.batch->views[first_ray_ + r];
    const float* const added = input.view_terms + size_t{kHiddenWidth} * view;
    float* const term = direction_terms_.data() + kHiddenWidth * r;
    for (int j = 0; j < kHiddenWidth; ++j) term[j] += added[j];
  }
}

void NgpChunk::ForwardColor(const ChunkInput& input) {
  if (n_rows_ == 0) return;
  NgpDirectionTerms(input.network, static_cast<int>(rays_.size()), harmonics_.data(),
                    direction_terms_.data());
  AddViewTerms(input);
  for (int row = 0; row < n_rows_; row += kBackwardRows) {
    const int n = std::min(kBackwardRows, n_rows_ - row);
    float* const hidden0 = color_hidden0_.data() + size_t{kHiddenWidth} * row;
    for (int i = 0; i < n; ++i) {
      std::memcpy(hidden0 + size_t{kHiddenWidth} * i,
                  direction_terms_.data() + size_t{kHiddenWidth} * ray_of_[row + i],
                  kHiddenWidth * sizeof(float));
    }
    NgpColorForward(input.network, n, geometry_.data() + size_t{kGeometryWidth} * row, hidden0,
                    color_hidden1_.data() + size_t{kHiddenWidth} * row,
                    colors_.data() + size_t{kColorWidth} * row);
  }
}

void NgpChunk::CompositeAndLoss(const ChunkInput& input, int begin, LaneOutput* output) {
  const RayBatch& batch = *input.batch;
  const float length = batch.step_scale * kernels::kDistortionPerStep;
  for (int row = 0; row < n_rows_; ++row) {
    RayState& ray = rays_[ray_of_[row]];
    const float* color = colors_.data() + size_t{kColorWidth} * row;
    ray.color = ray.color + Vec3{color[0], color[1], color[2]} * weights_[row];
    if (row < first_background_) ray.distortion.Add(weights_[row], normalized_t_[row], length);
    if (!batch.depths.empty()) ray.near_depth += weights_[row] * DepthAttraction(input, row);
  }
  const kernels::LossShape loss_shape = LossShapeOf(*input.config);
  const float scale = input.config->loss_scale / (3.0f * batch.n_rays);
  const bool has_gain = input.view_gains != nullptr;
  const auto gain_of = [&](size_t r) {
    return has_gain ? input.view_gains[batch.views[begin + r]] : Vec3{1, 1, 1};
  };
  const auto color_of = [&](size_t r) {
    return rays_[r].color * gain_of(r) + batch.backgrounds[begin + r] * rays_[r].transmittance;
  };
  const size_t rays_per_pixel = batch.rays_per_pixel;
  Vec3 pixel;  // color of the ray's pixel
  for (size_t r = 0; r < rays_.size(); ++r) {
    RayState& ray = rays_[r];
    const Vec3 gain = gain_of(r), scene_color = ray.color * gain, color = color_of(r);
    if (r % rays_per_pixel == 0) {
      pixel = color;
      for (size_t other = r + 1; other < r + rays_per_pixel; ++other)
        pixel = pixel + color_of(other);
      pixel = pixel * (1.0f / static_cast<float>(rays_per_pixel));
    }
    const float weight = batch.weights.empty() ? 1.0f : batch.weights[begin + r];
    Vec3 gradient;  // by `color`
    float error = 0;
    for (int channel = 0; channel < 3; ++channel) {
      const float target = batch.targets[begin + r][channel];
      float residual = pixel[channel] - target;
      if (has_gain) residual = kernels::ResidualOfExposed(residual, target);
      const kernels::ChannelLoss loss = kernels::LossOfResidual(loss_shape, residual);
      gradient[channel] = scale * weight * loss.derivative;
      error += std::abs(residual) / 3;
      output->loss += weight * loss.value / 3.0;
      output->squared_error += static_cast<double>(weight) * residual * residual / 3.0;
    }
    if (input.ray_errors != nullptr) input.ray_errors[begin + r] = error;
    output->loss += static_cast<double>(input.batch->distortion) * ray.distortion.value;
    ray.behind = Dot(gradient, color) + 2 * DistortionScale(input) * ray.distortion.value;
    if (!batch.depths.empty() && batch.depths[begin + r] > 0) {
      output->loss += Ngp(*input.config).depth_weight * (1.0 - ray.near_depth);
      ray.behind -= DepthScale(input) * ray.near_depth;
    }
    ray.grad_color = gradient * gain;
    if (has_gain) input.grad_log_gains[begin + r] = gradient * scene_color;
  }
}

// From the gradients of a ray's color and distortion to those of its samples' colors (before the
// sigmoid) and density exponents.
void NgpChunk::CompositeBackward(const ChunkInput& input) {
  const float scale = DistortionScale(input);
  const float length = input.batch->step_scale * kernels::kDistortionPerStep;
  for (int row = 0; row < n_rows_; ++row) {
    RayState& ray = rays_[ray_of_[row]];
    float* output = colors_.data() + size_t{kColorWidth} * row;
    const Vec3 color{output[0], output[1], output[2]};
    const float weight = weights_[row], normalized_t = normalized_t_[row];
    float grad_weight = Dot(ray.grad_color, color);
    if (row < first_background_) {
      grad_weight += scale * kernels::DistortionGradient(ray.distortion, ray.before, weight,
                                                         normalized_t, length);
      ray.before.Add(weight, normalized_t, length);
    }
    if (!input.batch->depths.empty())
      grad_weight -= DepthScale(input) * DepthAttraction(input, row);
    const float grad_sigma =
        factors_[row] *
        kernels::CompositeBackwardStep(grad_weight, weight, deltas_[row], light_[row], &ray.behind);
    std::fill_n(output, kColorWidth, 0.0f);
    for (int channel = 0; channel < 3; ++channel) {
      const float c = color[channel];
      output[channel] = weights_[row] * ray.grad_color[channel] * c * (1 - c);
    }
    // d sigma / d exponent is sigma itself; where the exponent was clamped too, so that a density
    // that ran away can come back.
    grad_geometry_[size_t{kGeometryWidth} * row] = grad_sigma * sigmas_[row];
  }
  ScaleNearGradients(input);
}

// kernels::DepthAttraction of a row.
float NgpChunk::DepthAttraction(const ChunkInput& input, int row) const {
  if (row >= first_background_) return 0;
  const float depth = input.batch->depths[first_ray_ + ray_of_[row]];
  if (depth <= 0) return 0;
  const float t = input.scene_steps.FromSteps(normalized_t_[row] / kernels::kDistortionPerStep);
  return kernels::DepthAttraction(t, depth);
}

void NgpChunk::ScaleNearGradients(const ChunkInput& input) {
  const float near = Ngp(*input.config).near_gradients;
  if (near <= 0) return;
  for (int row = 0; row < first_background_; ++row) {
    const float t = input.scene_steps.FromSteps(normalized_t_[row] / kernels::kDistortionPerStep);
    if (t >= near) continue;
    const float factor = kernels::NearGradientFactor(t, near);
    grad_geometry_[size_t{kGeometryWidth} * row] *= factor;
    float* const grad_color = colors_.data() + size_t{kColorWidth} * row;
    for (int channel = 0; channel < 3; ++channel) grad_color[channel] *= factor;
  }
}

// Backward pass of the color MLP's first layer: color_hidden0_ holds the gradient of its outputs.
// Overwrites the geometry features with their gradient.
void NgpChunk::BackwardColorInput(const ChunkInput& input, int begin, int n, LaneOutput* output) {
  const int offset = kNgpLayers[kColorHidden0].offset;
  float* const geometry = geometry_.data() + size_t{kGeometryWidth} * begin;
  const float* const grad_outputs = color_hidden0_.data() + size_t{kHiddenWidth} * begin;
  for (int i = 0; i < n; ++i) {
    float* const inputs = color_inputs_.data() + size_t{kColorInputWidth} * i;
    std::copy_n(harmonics_.data() + size_t{kDirectionWidth} * ray_of_[begin + i], kDirectionWidth,
                inputs);
    std::copy_n(geometry + size_t{kGeometryWidth} * i, kGeometryWidth, inputs + kDirectionWidth);
  }
  for (int i = 0; input.grad_view_terms != nullptr && i < n; ++i) {
    float* const sum =
        input.grad_view_terms + size_t{kHiddenWidth} * (first_ray_ + ray_of_[begin + i]);
    for (int j = 0; j < kHiddenWidth; ++j) sum[j] += grad_outputs[size_t{kHiddenWidth} * i + j];
  }
  kernels::cpu::DenseBackwardWeights({.n_rows = n,
                                      .n_in = kColorInputWidth,
                                      .n_out = kHiddenWidth,
                                      .inputs = color_inputs_.data(),
                                      .input_stride = kColorInputWidth,
                                      .grad_outputs = grad_outputs,
                                      .grad_output_stride = kHiddenWidth,
                                      .grad_weights = output->weight_gradients + offset});
  kernels::cpu::DenseBackwardInput({.n_rows = n,
                                    .n_in = kGeometryWidth,
                                    .n_out = kHiddenWidth,
                                    .grad_outputs = grad_outputs,
                                    .grad_output_stride = kHiddenWidth,
                                    .weights = input.transposed_weights + offset + kDirectionWidth,
                                    .weight_pairs = TransposedPairs(input, offset, kDirectionWidth),
                                    .weight_stride = kColorInputWidth,
                                    .grad_inputs = geometry,
                                    .grad_input_stride = kGeometryWidth});
}

// Gradients of a layer's weights, then of its inputs, which overwrite the inputs: nothing needs
// those any more.
void NgpChunk::BackwardLayer(const ChunkInput& input, NgpLayerIndex index, int n,
                             const float* grad_outputs, bool inputs_are_relu, float* inputs,
                             LaneOutput* output) {
  const NgpLayer& layer = kNgpLayers[index];
  LayerBackward({.n_rows = n,
                 .n_in = layer.n_in,
                 .n_out = layer.n_out,
                 .grad_outputs = grad_outputs,
                 .transposed_weights = input.transposed_weights + layer.offset,
                 .transposed_pairs = TransposedPairs(input, layer.offset),
                 .inputs_are_relu = inputs_are_relu,
                 .inputs = inputs,
                 .grad_weights = output->weight_gradients + layer.offset});
}

// Adds a sample's gradient by position to its ray, of which it is origin + t direction. The color's
// dependence on the direction is left out.
void NgpChunk::BackwardRay(const ChunkInput& input, int row, const float* grad_encoding) {
  const int ray = first_ray_ + ray_of_[row];
  if (row >= first_background_ || (ray + input.batch->step) % kPoseRays != 0) return;
  Vec3 gradient;
  kernels::cpu::HashPositionGradient(
      kernels::HashPositionGradientParams<float>{.shape = &input.network.shape,
                                                 .table = input.network.table,
                                                 .n = 1,
                                                 .positions = positions_.data() + row,
                                                 .grad_features = grad_encoding,
                                                 .stride = kEncodingWidth,
                                                 .n_active = input.network.n_active_levels,
                                                 .grad_positions = &gradient});
  gradient = PositionGradient(input.network, positions_[row], gradient);
  const float t = input.scene_steps.FromSteps(normalized_t_[row] / kernels::kDistortionPerStep);
  RayGradient& sum = input.grad_rays[ray];
  sum.origin = sum.origin + gradient;
  sum.direction = sum.direction + gradient * t;
}

// From the gradients of colors and density exponents to those of weights and encodings. Each
// buffer of activations becomes the buffer of their gradients, named by the references below.
void NgpChunk::BackwardRows(const ChunkInput& input, int begin, int n, LaneOutput* output) {
  const auto rows = [&](Buffer<float>& buffer, int width) {
    return buffer.data() + size_t(width) * begin;
  };
  constexpr bool kRelu = true, kNoRelu = false;
  float* const color_hidden1 = rows(color_hidden1_, kHiddenWidth);
  float* const color_hidden0 = rows(color_hidden0_, kHiddenWidth);
  float* const geometry = rows(geometry_, kGeometryWidth);
  float* const density_hidden = rows(density_hidden_, kHiddenWidth);
  float* const encodings = rows(encodings_, kEncodingWidth);
  const float* const grad_colors = rows(colors_, kColorWidth);  // CompositeBackward left it there
  float* const grad_geometry = rows(grad_geometry_, kGeometryWidth);

  BackwardLayer(input, kColorOutput, n, grad_colors, kRelu, color_hidden1, output);
  const float* const grad_color_hidden1 = color_hidden1;
  BackwardLayer(input, kColorHidden1, n, grad_color_hidden1, kRelu, color_hidden0, output);
  BackwardColorInput(input, begin, n, output);
  const float* const grad_geometry_of_color = geometry;
  for (int i = 0; i < n; ++i) {
    const float* from_color = grad_geometry_of_color + size_t{kGeometryWidth} * i;
    float* grad = grad_geometry + size_t{kGeometryWidth} * i;
    grad[0] += from_color[0];  // of the density exponent, which CompositeBackward wrote
    for (int j = 1; j < kGeometryWidth; ++j) grad[j] = from_color[j];
  }
  BackwardLayer(input, kDensityOutput, n, grad_geometry, kRelu, density_hidden, output);
  const float* const grad_density_hidden = density_hidden;
  BackwardLayer(input, kDensityHidden, n, grad_density_hidden, kNoRelu, encodings, output);
  const float* const grad_encodings = encodings;
  if (input.grad_rays != nullptr) {
    for (int i = 0; i < n; ++i)
      BackwardRay(input, begin + i, grad_encodings + size_t{kEncodingWidth} * i);
  }
  output->Append(n, positions_.data() + begin, input.network.shape.n_features, grad_encodings);
}

}  // namespace nerf
