#include "engine/field/kernels/composite.h"

#include <algorithm>
#include <cmath>

#include "engine/field/kernels/cuda/block_reduce.cuh"
#include "engine/field/kernels/cuda/fixed_point.cuh"
#include "engine/field/kernels/cuda/launch.cuh"
#include "engine/field/kernels/distortion.h"

// One thread per ray. A ray keeps about five samples, and those of neighboring rays are adjacent,
// so that the reads of a warp share cache lines. What a kernel waits for is the memory's latency
// along its longest rays, so a thread loads several samples at a time.
namespace nerf::kernels::cuda {
namespace {

constexpr int kLoads = 4;  // of samples that a thread waits for together

struct RaySample {
  Vec3 color;
  float alpha, weight, delta, sigma;
  float coordinate;  // of the distortion, if there is one
  float t;           // if there are extras

  // Whether it lies infinitely far away.
  __device__ bool IsHorizon(const CompositeLossExtras& extras) const {
    return extras.has_horizons && delta == 0;
  }
};

// Calls visit(k, sample) for the kept samples [begin, end), in order.
template <bool kExtended, typename Visit>
__device__ void ForEachSample(const CompositeLossParams& p, uint32_t begin, uint32_t end,
                              bool has_distortion, Visit visit) {
  for (uint32_t first = begin; first < end; first += kLoads) {
    RaySample samples[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t k = min(first + j, end - 1), row = p.rows[k];
      samples[j] = {p.colors[k], p.alphas[row], p.weights[row], p.deltas[row], p.sigmas[row], 0, 0};
      if (has_distortion) samples[j].coordinate = DistortionCoordinate(p.steps, p.t_middles[row]);
      if constexpr (kExtended) samples[j].t = p.t_middles[row];
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j)
      if (first + j < end) visit(first + j, samples[j]);
  }
}

// A multiple of 2^-32: sums of such numbers below 2^21 are exact in double, so they do not depend
// on how rays are divided among blocks and ranks.
__device__ double Exact(double value) { return rint(value * 4294967296.0) * (1 / 4294967296.0); }

struct alignas(16) Grad {
  float color[3];
  float exponent;
};

// A number of all rays of a step.
struct StepValues {
  float scale, distortion, length;
};

// What the extras say of a ray.
struct RayExtras {
  float weight = 1, depth = 0;
  Vec3 gain = {1, 1, 1};
  uint32_t view = 0;
};
__device__ RayExtras ExtrasOf(const CompositeLossExtras& extras, uint32_t r) {
  RayExtras ray;
  if (extras.ray_weights != nullptr) ray.weight = extras.ray_weights[r];
  if (extras.depths != nullptr) ray.depth = extras.depths[r];
  if (extras.views != nullptr) ray.view = static_cast<uint32_t>(extras.views[r]);
  if (extras.view_gains != nullptr) ray.gain = extras.view_gains[ray.view];
  return ray;
}

// Sums over a ray's samples.
struct RaySums {
  Vec3 color;  // without the background
  float transmittance = 1;
  Distortion distortion;
  float near_depth = 0;  // of the weights by DepthAttraction
};
template <bool kExtended>
__device__ RaySums SumsOf(const CompositeLossParams& p, uint32_t begin, uint32_t end,
                          const StepValues& step, const RayExtras& ray) {
  const bool has_distortion = step.distortion != 0;
  RaySums sums;
  ForEachSample<kExtended>(p, begin, end, has_distortion, [&](uint32_t, const RaySample& sample) {
    sums.color = sums.color + sample.color * sample.weight;
    sums.transmittance *= 1 - sample.alpha;
    if (kExtended && sample.IsHorizon(p.extras)) return;
    if (has_distortion) sums.distortion.Add(sample.weight, sample.coordinate, step.length);
    if constexpr (kExtended)
      sums.near_depth += sample.weight * DepthAttraction(sample.t, ray.depth);
  });
  return sums;
}

struct LossSums {
  double loss = 0, squared_error = 0;
};

// Gradient by the color of ray r, background included; *sums becomes the loss of its pixel's color.
template <bool kExtended>
__device__ Vec3 LossOfColor(const CompositeLossParams& p, uint32_t r, float scale,
                            const RayExtras& ray, Vec3 pixel, LossSums* sums) {
  if constexpr (kExtended) scale *= ray.weight;
  const Vec3 target = p.targets[r], residuals = pixel - target;
  Vec3 gradient;
  float absolute = 0;
  for (int channel = 0; channel < 3; ++channel) {
    float residual = residuals[channel];
    if constexpr (kExtended) {
      if (p.extras.view_gains != nullptr) residual = ResidualOfExposed(residual, target[channel]);
      absolute += std::abs(residual) / 3;
    }
    const ChannelLoss channel_loss = LossOfResidual(p.loss, residual);
    gradient[channel] = scale * channel_loss.derivative;
    sums->loss += channel_loss.value / 3.0;
    sums->squared_error += static_cast<double>(residual) * residual / 3.0;
  }
  if constexpr (kExtended) {
    if (p.extras.ray_errors != nullptr) p.extras.ray_errors[r] = absolute;
    sums->loss *= ray.weight;
    sums->squared_error *= ray.weight;
  }
  return gradient;
}

// Color of the pixel of this thread's ray: with four rays per pixel the mean over four neighboring
// threads, all of which call it.
__device__ Vec3 PixelColor(const CompositeLossExtras& extras, Vec3 color) {
  if (extras.rays_per_pixel == nullptr || *extras.rays_per_pixel == 1) return color;
  const unsigned four = 0xfu << (threadIdx.x % 32 / 4 * 4);
  for (int channel = 0; channel < 3; ++channel) {
    color[channel] += __shfl_xor_sync(four, color[channel], 1);
    color[channel] += __shfl_xor_sync(four, color[channel], 2);
    color[channel] *= 0.25f;
  }
  return color;
}

// Forward and backward pass of ray r; returns its loss.
template <bool kExtended>
__device__ LossSums CompositeRay(const CompositeLossParams& p, uint32_t r, const StepValues& step) {
  const bool has_distortion = step.distortion != 0;
  const float distortion_scale = 3 * step.distortion * step.scale;
  const float depth_scale = kExtended ? 3 * p.extras.depth_weight * step.scale : 0;
  const uint32_t begin = p.ray_offsets[r], end = p.ray_offsets[r + 1];
  RayExtras ray;
  if constexpr (kExtended) ray = ExtrasOf(p.extras, r);
  const RaySums sums = SumsOf<kExtended>(p, begin, end, step, ray);
  const Vec3 scene_color = kExtended ? sums.color * ray.gain : sums.color;
  const Vec3 color = scene_color + p.backgrounds[r] * sums.transmittance;
  const Vec3 pixel = kExtended ? PixelColor(p.extras, color) : color;
  LossSums loss;
  Vec3 grad_color = LossOfColor<kExtended>(p, r, step.scale, ray, pixel, &loss);
  loss.loss += step.distortion * sums.distortion.value;
  float behind = Dot(grad_color, color) + 2 * distortion_scale * sums.distortion.value;
  if constexpr (kExtended) {
    if (ray.depth > 0) {
      loss.loss += p.extras.depth_weight * (1.0 - sums.near_depth);
      behind -= depth_scale * sums.near_depth;
    }
    if (p.extras.grad_log_gains != nullptr) {
      const Vec3 gradient = grad_color * scene_color;
      for (int channel = 0; channel < 3; ++channel)
        AddFixed(p.extras.grad_log_gains + 3 * size_t{ray.view} + channel, gradient[channel]);
    }
    grad_color = grad_color * ray.gain;
  }
  float transmittance = 1;
  Distortion before;
  ForEachSample<kExtended>(p, begin, end, has_distortion, [&](uint32_t k, const RaySample& sample) {
    const Vec3 c = sample.color;
    const bool is_horizon = kExtended && sample.IsHorizon(p.extras);
    float grad_weight = Dot(grad_color, c);
    if (has_distortion && !is_horizon) {
      grad_weight += distortion_scale * DistortionGradient(sums.distortion, before, sample.weight,
                                                           sample.coordinate, step.length);
      before.Add(sample.weight, sample.coordinate, step.length);
    }
    float factor = 1;  // on the sample's gradients
    if constexpr (kExtended) {
      if (!is_horizon) grad_weight -= depth_scale * DepthAttraction(sample.t, ray.depth);
      const float near = p.extras.near_gradients;
      if (near > 0 && !is_horizon) factor = NearGradientFactor(sample.t, near);
    }
    const float grad_sigma = CompositeBackwardStep(grad_weight, sample.alpha, sample.weight,
                                                   sample.delta, &transmittance, &behind);
    Grad grad;
    for (int channel = 0; channel < 3; ++channel)
      grad.color[channel] = sample.weight * grad_color[channel] * c[channel] * (1 - c[channel]);
    // d sigma / d exponent = sigma, also where the exponent is clamped: a density beyond the clamp
    // must be able to shrink.
    grad.exponent = grad_sigma * sample.sigma;
    if constexpr (kExtended) {
      for (float& channel : grad.color) channel *= factor;
      grad.exponent *= factor;
    }
    reinterpret_cast<Grad*>(p.grads)[k] = grad;
  });
  return loss;
}

template <bool kExtended>
__global__ void __launch_bounds__(kBlock)
    CompositeLossKernel(const __grid_constant__ CompositeLossParams p) {
  const uint32_t n_rays = *p.n_rays;
  const StepValues step{*p.gradient_scale, p.distortion == nullptr ? 0 : *p.distortion,
                        (p.step_scale == nullptr ? 1 : *p.step_scale) * kDistortionPerStep};
  double loss = 0, squared_error = 0;
  for (uint32_t r = blockIdx.x * blockDim.x + threadIdx.x; r < n_rays;
       r += gridDim.x * blockDim.x) {
    const LossSums of_ray = CompositeRay<kExtended>(p, r, step);
    loss += Exact(of_ray.loss);
    squared_error += Exact(of_ray.squared_error);
  }
  loss = BlockSum(loss);
  squared_error = BlockSum(squared_error);
  if (threadIdx.x == 0) {
    p.losses[2 * blockIdx.x] = loss;
    p.losses[2 * blockIdx.x + 1] = squared_error;
  }
}

}  // namespace

void CompositeLoss(const CompositeLossParams& params, Stream stream) {
  const int n_blocks = static_cast<int>((params.ray_capacity + kBlock - 1) / kBlock);
  const auto kernel =
      params.extras.AskForNone() ? CompositeLossKernel<false> : CompositeLossKernel<true>;
  Launch("composite_loss", kernel, std::clamp(n_blocks, 1, kLossBlocks), kBlock, 0, stream, params);
}

}  // namespace nerf::kernels::cuda
