#pragma once

#include <torch/types.h>

namespace nerf::autograd {

// The 16 real spherical harmonics of kernels/spherical_harmonics.h, differentiable by the
// directions. Shapes: directions [n, 3] of unit length; returns [n, 16].
torch::Tensor SphericalHarmonics4(const torch::Tensor& directions);

}  // namespace nerf::autograd
