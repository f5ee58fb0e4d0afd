#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

namespace nerf::autograd {

// Rows [begin, end) of a result, differentiable by leaf tensors that the function holds.
using RowFunction = std::function<torch::Tensor(int64_t begin, int64_t end)>;

// All rows, as rows(0, n_rows), for less memory and the time of a second forward pass: forward
// keeps no activation, and the backward pass evaluates chunk_rows rows at a time once more and adds
// the gradients of the leaves. `rows` gives the same result each time and outlives the backward
// pass. n_rows and chunk_rows are at least 1.
// Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
torch::Tensor Checkpointed(const RowFunction& rows, int64_t n_rows, int64_t chunk_rows);

}  // namespace nerf::autograd
