#pragma once

#include <torch/types.h>

#include "engine/kernels/hash_encoding.h"

namespace nerf::autograd {

// Multiresolution hash encoding (kernels/hash_encoding.h) in tensor operations, differentiable by
// table and by positions, in float or double.
// Shapes: table [n_levels, entries, 2]; positions [n, 3] in the unit cube (others are clamped);
// returns [n, 2 n_levels]. Throws c10::Error where shapes differ.
torch::Tensor HashEncode(const kernels::HashGridShape& shape, const torch::Tensor& table,
                         const torch::Tensor& positions);

}  // namespace nerf::autograd
