#include "engine/kernels/composite.h"

#include <algorithm>

#include "engine/kernels/cuda/block_reduce.cuh"
#include "engine/kernels/cuda/launch.cuh"
#include "engine/kernels/distortion.h"

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
};

// Calls visit(k, sample) for the kept samples [begin, end), in order.
template <typename Visit>
__device__ void ForEachSample(const CompositeLossParams& p, uint32_t begin, uint32_t end,
                              bool has_distortion, Visit visit) {
  for (uint32_t first = begin; first < end; first += kLoads) {
    RaySample samples[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t k = min(first + j, end - 1), row = p.rows[k];
      samples[j] = {p.colors[k], p.alphas[row], p.weights[row], p.deltas[row], p.sigmas[row], 0};
      if (has_distortion) samples[j].coordinate = DistortionCoordinate(p.steps, p.t_middles[row]);
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
    ForEachSample(p, begin, end, has_distortion, [&](uint32_t, const RaySample& sample) {
      color = color + sample.color * sample.weight;
      transmittance *= 1 - sample.alpha;
      if (has_distortion) distortion.Add(sample.weight, sample.coordinate, length);
    });
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
    ForEachSample(p, begin, end, has_distortion, [&](uint32_t k, const RaySample& sample) {
      const Vec3 c = sample.color;
      float grad_weight = Dot(grad_color, c);
      if (has_distortion) {
        grad_weight += distortion_scale * DistortionGradient(distortion, before, sample.weight,
                                                             sample.coordinate, length);
        before.Add(sample.weight, sample.coordinate, length);
      }
      const float grad_sigma = CompositeBackwardStep(grad_weight, sample.alpha, sample.weight,
                                                     sample.delta, &transmittance, &behind);
      Grad grad;
      for (int channel = 0; channel < 3; ++channel)
        grad.color[channel] = sample.weight * grad_color[channel] * c[channel] * (1 - c[channel]);
      // d sigma / d exponent = sigma, also where the exponent is clamped: a density beyond the
      // clamp must be able to shrink.
      grad.exponent = grad_sigma * sample.sigma;
      reinterpret_cast<Grad*>(p.grads)[k] = grad;
    });
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
