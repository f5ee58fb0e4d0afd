#pragma once

#include <torch/types.h>

namespace nerf::autograd {

// The weight of each packed sample, and for each ray the transmittance behind its last sample (1 if
// it has none).
struct Composited {
  torch::Tensor weights;        // [n_samples]
  torch::Tensor transmittance;  // [n_rays]
};

// Alpha compositing (kernels/composite.h) of packed samples, differentiable by sigmas and deltas.
// Shapes: ray_offsets [n_rays + 1] int64: samples of ray r are [ray_offsets[r], ray_offsets[r +
// 1]); sigmas, deltas [n_samples], in float or double.
Composited Composite(const torch::Tensor& ray_offsets, const torch::Tensor& sigmas,
                     const torch::Tensor& deltas);

// Sums of packed values [n_samples, k] over the samples of each ray: [n_rays, k].
torch::Tensor SumOverRays(const torch::Tensor& ray_offsets, const torch::Tensor& values);

// Distortion loss of each ray (kernels/distortion.h): [n_rays], differentiable by weights. Shapes:
// weights, coordinates (s of the samples' middles, ascending along a ray) [n_samples]. `length` is
// the extent of every sample.
torch::Tensor Distortion(const torch::Tensor& ray_offsets, const torch::Tensor& weights,
                         const torch::Tensor& coordinates, double length);

}  // namespace nerf::autograd
