#pragma once

#include <torch/types.h>

namespace nerf::autograd {

// sigma = exp(min(output - shift, 15)), any shape. The gradient is grad * sigma, where the exponent
// was clamped too: a density that ran away must be able to come back.
torch::Tensor DensityActivation(const torch::Tensor& outputs, float shift);

}  // namespace nerf::autograd
