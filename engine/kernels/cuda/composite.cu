#include "engine/kernels/composite.h"

#include <algorithm>

#include "engine/kernels/cuda/block_reduce.cuh"
#include "engine/kernels/cuda/launch.cuh"
#include "engine/kernels/distortion.h"

// One thread per ray. A ray keeps about five samples, and those of neighboring rays are adjacent,
// so that the reads of a warp share cache lines.
namespace nerf::kernels::cuda {
namespace {

// Distortion coordinate of the sample at `row`.
__device__ float CoordinateOf(const CompositeLossParams& p, uint32_t row) {
  return DistortionCoordinate(p.steps, p.t_middles[row]);
}

// A multiple of 2^-32: sums of such numbers below 2^21 are exact in double, so they do not depend
// on how rays are divided among blocks and ranks.
__device__ double Exact(double value) { return rint(value * 4294967296.0) * (1 / 4294967296.0); }

struct alignas(16) Grad {
  float color[3];
  float exponent;
};

__global__ void __launch_bounds__(kBlock)
    CompositeLossKernel(const __grid_constant__ CompositeLossParams p) {
  const uint32_t n_rays = *p.n_rays;
  const float scale = *p.gradient_scale;
  const float distortion_weight = p.distortion == nullptr ? 0 : *p.distortion;
  const bool has_distortion = distortion_weight != 0;
  const float distortion_scale = 3 * distortion_weight * scale;
  const float length = (p.step_scale == nullptr ? 1 : *p.step_scale) * kDistortionPerStep;
  double loss = 0, squared_error = 0;
  for (uint32_t r = blockIdx.x * blockDim.x + threadIdx.x; r < n_rays;
       r += gridDim.x * blockDim.x) {
    const uint32_t begin = p.ray_offsets[r], end = p.ray_offsets[r + 1];
    Vec3 color;
    float transmittance = 1;
    Distortion distortion, before;
    for (uint32_t k = begin; k < end; ++k) {
      const uint32_t row = p.rows[k];
      color = color + p.colors[k] * p.weights[row];
      transmittance *= 1 - p.alphas[row];
      if (has_distortion) distortion.Add(p.weights[row], CoordinateOf(p, row), length);
    }
    color = color + p.backgrounds[r] * transmittance;
    Vec3 grad_color;
    const Vec3 residuals = color - p.targets[r];
    double ray_loss = 0, ray_error = 0;
    for (int channel = 0; channel < 3; ++channel) {
      const float residual = residuals[channel];
      const ChannelLoss channel_loss = LossOfResidual(p.loss, residual);
      grad_color[channel] = scale * channel_loss.derivative;
      ray_loss += channel_loss.value / 3.0;
      ray_error += static_cast<double>(residual) * residual / 3.0;
    }
    loss += Exact(ray_loss + distortion_weight * distortion.value);
    squared_error += Exact(ray_error);
    float behind = Dot(grad_color, color) + 2 * distortion_scale * distortion.value;
    transmittance = 1;
    for (uint32_t k = begin; k < end; ++k) {
      const uint32_t row = p.rows[k];
      const Vec3 c = p.colors[k];
      const float weight = p.weights[row];
      float grad_weight = Dot(grad_color, c);
      if (has_distortion) {
        const float coordinate = CoordinateOf(p, row);
        grad_weight +=
            distortion_scale * DistortionGradient(distortion, before, weight, coordinate, length);
        before.Add(weight, coordinate, length);
      }
      const float grad_sigma = CompositeBackwardStep(grad_weight, p.alphas[row], weight,
                                                     p.deltas[row], &transmittance, &behind);
      Grad grad;
      for (int channel = 0; channel < 3; ++channel)
        grad.color[channel] = weight * grad_color[channel] * c[channel] * (1 - c[channel]);
      // d sigma / d exponent = sigma, also where the exponent is clamped: a density beyond the
      // clamp must be able to shrink.
      grad.exponent = grad_sigma * p.sigmas[row];
      reinterpret_cast<Grad*>(p.grads)[k] = grad;
    }
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
  Launch("composite_loss", CompositeLossKernel, std::clamp(n_blocks, 1, kLossBlocks), kBlock, 0,
         stream, params);
}

}  // namespace nerf::kernels::cuda
