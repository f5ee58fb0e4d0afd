#pragma once

#include <torch/types.h>

#include "engine/kernels/hash_encoding.h"

namespace nerf::autograd {

// Multiresolution hash encoding (kernels/hash_encoding.h) in tensor operations, differentiable by
// table and by positions, in float or double, on the device of both.
// Shapes: table [n_levels, entries, F]; positions [n, 3] in the unit cube (others are clamped);
// returns [n, F n_levels]; F = n_features. Throws c10::Error where shapes or devices differ. Floats
// on a CUDA device whose positions need no gradient go through our kernels
// (hash_encoding_kernels_op.h), where the build has them and no deterministic algorithms are asked
// for; then there are no second derivatives.
torch::Tensor HashEncode(const kernels::HashGridShape& shape, const torch::Tensor& table,
                         const torch::Tensor& positions);

}  // namespace nerf::autograd
