#pragma once

#include <torch/types.h>

#include <vector>

#include "engine/base/vec3.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "engine/methods/mlp/network.h"

namespace nerf::autograd {

// A network of method mlp in LibTorch's operations, differentiable by its parameters and inputs.
// The parameters are leaves that on the CPU share the network's memory, which outlives this; on
// another device they are copies, and so must be what is evaluated. Under autocast
// layers are multiplied in bf16; what leaves the network is float.
class MlpTensors {
 public:
  MlpTensors(const MlpNetwork& network, const torch::Device& device);

  // The last hidden layer [n, width], of encoded inputs [n, input_width].
  torch::Tensor Trunk(const torch::Tensor& inputs) const;
  // The output layer behind the trunk [n, n_out_used]: the density before its ReLU, or the shift.
  torch::Tensor Output(const torch::Tensor& trunk) const;
  // sRGB colors [n, 3] seen along directions [n, 3] of unit length.
  torch::Tensor Color(const torch::Tensor& trunk, const torch::Tensor& directions) const;
  // Copies the leaves' gradients to where the parameters have theirs; none leaves it as it is.
  void CopyGradients(float* gradients) const;

  const MlpLayout& layout() const { return layout_; }

 private:
  struct Leaf {
    torch::Tensor weights, biases;
    torch::Tensor operator()(const torch::Tensor& inputs) const {
      return torch::addmm(biases, inputs, weights);
    }
  };

  const MlpLayout& layout_;
  std::vector<Leaf> leaves_;
};

// A field of such networks that may depend on time.
class MlpFieldTensors {
 public:
  // warp: moves points before they reach the field; null: none.
  MlpFieldTensors(const MlpNetwork& field, const MlpNetwork* warp,
                  const torch::Device& device = torch::kCPU);

  // Densities [n] of points [n, 3] in scene units at times [n].
  torch::Tensor Density(const torch::Tensor& positions, const torch::Tensor& times) const;
  // Densities and colors [n, 4].
  torch::Tensor Radiance(const torch::Tensor& positions, const torch::Tensor& directions,
                         const torch::Tensor& times) const;

  // Of the field, then of the warp.
  const std::vector<MlpTensors>& networks() const { return networks_; }

 private:
  torch::Tensor Trunk(const torch::Tensor& positions, const torch::Tensor& times) const;
  torch::Tensor DensityOf(const torch::Tensor& trunk) const;

  const MlpPlacement placement_;
  std::vector<MlpTensors> networks_;
};

}  // namespace nerf::autograd
