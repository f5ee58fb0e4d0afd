#pragma once

#include <torch/types.h>

#include <vector>

#include "engine/methods/ngp/network.h"

namespace nerf::autograd {

// Parameters of the ngp field as leaf tensors.
struct NgpTensors {
  torch::Tensor table;                // [n_levels, entries, n_features]
  std::vector<torch::Tensor> layers;  // as kNgpLayers: [n_in, n_out], padded columns included
};

// Outputs [n, 16] of the density MLP at positions [n, 3] in the unit cube; column 0 is the
// density's exponent.
torch::Tensor NgpGeometry(const kernels::HashGridShape& shape, const NgpTensors& parameters,
                          const torch::Tensor& positions);

// sRGB colors [n, 3] along directions [n, 3] of unit length, given the density MLP's outputs.
torch::Tensor NgpColor(const NgpTensors& parameters, const torch::Tensor& geometry,
                       const torch::Tensor& directions);

}  // namespace nerf::autograd
