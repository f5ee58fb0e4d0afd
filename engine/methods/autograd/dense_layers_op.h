#pragma once

#include <torch/types.h>

#include <vector>

namespace nerf::autograd {

// A bias-free MLP with ReLU between its layers and none behind the last.
// Shapes: inputs [n, n_in]; weights of each layer [n_in, n_out]; returns [n, n_out of the last].
torch::Tensor DenseLayers(torch::Tensor inputs, const std::vector<torch::Tensor>& weights);

}  // namespace nerf::autograd
