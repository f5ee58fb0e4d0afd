#include "engine/methods/autograd/dense_layers_op.h"

namespace nerf::autograd {

torch::Tensor DenseLayers(torch::Tensor inputs, const std::vector<torch::Tensor>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    TORCH_CHECK(inputs.dim() == 2 && weights[i].dim() == 2 && inputs.size(1) == weights[i].size(0),
                "DenseLayers: layer ", i, " expects inputs for weights ", weights[i].sizes(),
                ", got ", inputs.sizes());
    inputs = torch::matmul(inputs, weights[i]);
    if (i + 1 < weights.size()) inputs = torch::relu(inputs);
  }
  return inputs;
}

}  // namespace nerf::autograd
