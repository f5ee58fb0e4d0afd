#include "engine/methods/autograd/composite_op.h"

namespace nerf::autograd {
namespace {

// [n_samples]: the ray of each sample.
torch::Tensor RayOf(const torch::Tensor& ray_offsets) {
  const int64_t n_rays = ray_offsets.size(0) - 1;
  return torch::repeat_interleave(torch::arange(n_rays, ray_offsets.options()),
                                  ray_offsets.slice(0, 1) - ray_offsets.slice(0, 0, n_rays));
}

}  // namespace

Composited Composite(const torch::Tensor& ray_offsets, const torch::Tensor& sigmas,
                     const torch::Tensor& deltas) {
  TORCH_CHECK(ray_offsets.dim() == 1 && ray_offsets.size(0) > 0, "Composite: ray_offsets are ",
              ray_offsets.sizes(), ", expected [n_rays + 1]");
  TORCH_CHECK(sigmas.dim() == 1 && sigmas.sizes() == deltas.sizes(), "Composite: sigmas are ",
              sigmas.sizes(), ", deltas ", deltas.sizes(), ", expected [n_samples] both");
  const int64_t n_rays = ray_offsets.size(0) - 1;
  // Optical depth is summed over all rays and the sum at each ray's start is subtracted. In double,
  // a whole batch's sum leaves enough digits for each ray.
  const torch::Tensor optical = sigmas.to(torch::kFloat64) * deltas.to(torch::kFloat64);
  const torch::Tensor through =
      torch::cat({torch::zeros({1}, optical.options()), optical.cumsum(0)});  // [n_samples + 1]
  const torch::Tensor starts = through.index({ray_offsets.slice(0, 0, n_rays)});
  const torch::Tensor ends = through.index({ray_offsets.slice(0, 1)});
  const torch::Tensor before =
      through.slice(0, 0, optical.size(0)) - starts.index({RayOf(ray_offsets)});
  return {.weights = (torch::exp(-before) * -torch::expm1(-optical)).to(sigmas.scalar_type()),
          .transmittance = torch::exp(starts - ends).to(sigmas.scalar_type())};
}

torch::Tensor Distortion(const torch::Tensor& ray_offsets, const torch::Tensor& weights,
                         const torch::Tensor& coordinates, double length) {
  TORCH_CHECK(weights.dim() == 1 && weights.sizes() == coordinates.sizes(),
              "Distortion: weights are ", weights.sizes(), ", coordinates ", coordinates.sizes(),
              ", expected [n_samples] both");
  const torch::Tensor w = weights.to(torch::kFloat64), s = coordinates.to(torch::kFloat64);
  const int64_t n_rays = ray_offsets.size(0) - 1, n_samples = w.size(0);
  // For each sample the sum over the samples of its ray in front of it, as above.
  const auto in_front = [&](const torch::Tensor& values) {
    const torch::Tensor sums = torch::cat({torch::zeros({1}, values.options()), values.cumsum(0)});
    const torch::Tensor starts = sums.index({ray_offsets.slice(0, 0, n_rays)});
    return sums.slice(0, 0, n_samples) - starts.index({RayOf(ray_offsets)});
  };
  const torch::Tensor terms = 2 * w * (s * in_front(w) - in_front(w * s)) + w * w * (length / 3);
  return SumOverRays(ray_offsets, terms.unsqueeze(1)).squeeze(1).to(weights.scalar_type());
}

torch::Tensor SumOverRays(const torch::Tensor& ray_offsets, const torch::Tensor& values) {
  TORCH_CHECK(values.dim() == 2, "SumOverRays: values are ", values.sizes(),
              ", expected [n_samples, k]");
  const torch::Tensor zeros =
      torch::zeros({ray_offsets.size(0) - 1, values.size(1)}, values.options());
  return zeros.scatter_add(0, RayOf(ray_offsets).unsqueeze(1).expand_as(values), values);
}

}  // namespace nerf::autograd
