#pragma once

#include <torch/types.h>

#include "engine/field/kernels/hash_encoding.h"

namespace nerf::autograd {

// Multiresolution hash encoding (kernels/hash_encoding.h) in tensor operations, differentiable by
// table and by positions, in float or double, on the device of both.
// Shapes: table [n_levels, entries, F]; positions [n, 3] in the unit cube (others are clamped);
// returns [n, F n_levels]; F = n_features. Throws c10::Error if shapes or devices do not match.
// Uses our CUDA kernels (hash_encoding_kernels_op.h, no second derivatives) if the build has them,
// inputs are float32 on a CUDA device, positions need no gradient, and deterministic algorithms are
// not requested.
torch::Tensor HashEncode(const kernels::HashGridShape& shape, const torch::Tensor& table,
                         const torch::Tensor& positions);

}  // namespace nerf::autograd
