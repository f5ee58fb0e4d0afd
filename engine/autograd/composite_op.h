#pragma once

#include <torch/types.h>

namespace nerf::autograd {

// What compositing packed samples leaves: the weight of each sample, and for each ray the
// transmittance behind its last sample (1 where it has none).
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

// How far apart the weights of each ray lie (kernels/distortion.h): [n_rays], differentiable by
// weights. Shapes: weights, places (the samples' middles, ascending along a ray) [n_samples];
// length is the extent of every sample.
torch::Tensor Distortion(const torch::Tensor& ray_offsets, const torch::Tensor& weights,
                         const torch::Tensor& places, double length);

}  // namespace nerf::autograd
