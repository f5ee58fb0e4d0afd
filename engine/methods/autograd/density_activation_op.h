#pragma once

#include <torch/types.h>

namespace nerf::autograd {

// sigma = exp(min(output - shift, 15)), any shape. The gradient is grad * sigma, also where the
// exponent is clamped: a density beyond the clamp must be able to shrink.
torch::Tensor DensityActivation(const torch::Tensor& outputs, float shift);

}  // namespace nerf::autograd
