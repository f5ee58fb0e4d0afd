#include "engine/methods/autograd/mlp_tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "engine/methods/autograd/ray_tensors.h"

namespace nerf::autograd {
namespace {

// As MlpEncode and MlpEncodeTime, for points [n, k].
torch::Tensor Encoded(const torch::Tensor& points, int n_octaves, int width) {
  std::vector<torch::Tensor> parts = {points};
  for (int octave = 0; octave < n_octaves; ++octave) {
    const torch::Tensor angles = points * std::ldexp(1.0, octave);
    parts.push_back(torch::sin(angles));
    parts.push_back(torch::cos(angles));
  }
  const torch::Tensor encoded = torch::cat(parts, 1);
  return torch::constant_pad_nd(encoded, {0, width - encoded.size(1)});
}

// What the trunk of a network reads, of placed points [n, 3] at times [n].
torch::Tensor InputsOf(const MlpLayout& layout, const torch::Tensor& placed,
                       const torch::Tensor& times) {
  const torch::Tensor encoded = Encoded(placed, kMlpPositionOctaves, kMlpPositionWidth);
  if (!layout.reads_time) return encoded;
  return torch::cat({encoded, Encoded(times.unsqueeze(1), kMlpTimeOctaves, kMlpTimeWidth)}, 1);
}

}  // namespace

MlpTensors::MlpTensors(const MlpNetwork& network, const torch::Device& device)
    : layout_(*network.layout) {
  for (const MlpLayer& layer : layout_.layers) {
    leaves_.push_back(
        {AsLeaf(network.parameters + layer.weights, {layer.n_in, layer.n_out}, device),
         AsLeaf(network.parameters + layer.biases, {layer.n_out}, device)});
  }
}

torch::Tensor MlpTensors::Trunk(const torch::Tensor& inputs) const {
  torch::Tensor hidden = torch::relu(leaves_[0](inputs));
  for (int l = 1; l < layout_.depth; ++l) {
    if (l == layout_.skip) hidden = torch::cat({inputs, hidden}, 1);
    hidden = torch::relu(leaves_[l](hidden));
  }
  return hidden;
}

torch::Tensor MlpTensors::Output(const torch::Tensor& trunk) const {
  const MlpLayer& layer = layout_.output();
  return leaves_[layout_.depth](trunk).slice(1, 0, layer.n_out_used).to(torch::kFloat32);
}

torch::Tensor MlpTensors::Color(const torch::Tensor& trunk, const torch::Tensor& directions) const {
  torch::Tensor feature = leaves_[layout_.depth + 1](trunk);
  if (layout_.feature_relu) feature = torch::relu(feature);
  const torch::Tensor encoded = Encoded(directions, kMlpDirectionOctaves, kMlpDirectionWidth);
  const torch::Tensor hidden =
      torch::relu(leaves_[layout_.depth + 2](torch::cat({feature, encoded}, 1)));
  return torch::sigmoid(leaves_[layout_.depth + 3](hidden).slice(1, 0, 3).to(torch::kFloat32));
}

void MlpTensors::CopyGradients(float* gradients) const {
  const auto copy = [&](const torch::Tensor& leaf, size_t offset) {
    if (!leaf.grad().defined()) return;
    const torch::Tensor gradient = leaf.grad().cpu().contiguous();
    std::copy_n(gradient.data_ptr<float>(), gradient.numel(), gradients + offset);
  };
  for (size_t i = 0; i < leaves_.size(); ++i) {
    copy(leaves_[i].weights, layout_.layers[i].weights);
    copy(leaves_[i].biases, layout_.layers[i].biases);
  }
}

MlpFieldTensors::MlpFieldTensors(const MlpNetwork& field, const MlpNetwork* warp,
                                 const torch::Device& device)
    : placement_(field.placement) {
  networks_.emplace_back(field, device);
  if (warp != nullptr) networks_.emplace_back(*warp, device);
}

torch::Tensor MlpFieldTensors::Trunk(const torch::Tensor& positions,
                                     const torch::Tensor& times) const {
  const Vec3 c = placement_.center;
  const torch::Tensor center = torch::tensor({c.x, c.y, c.z}, positions.device());
  torch::Tensor placed = (positions - center) * placement_.scale;
  if (networks_.size() > 1) {
    const MlpTensors& warp = networks_[1];
    const torch::Tensor shift = warp.Output(warp.Trunk(InputsOf(warp.layout(), placed, times)));
    placed = placed + shift * (times != 0).to(torch::kFloat32).unsqueeze(1);
  }
  return networks_[0].Trunk(InputsOf(networks_[0].layout(), placed, times));
}

torch::Tensor MlpFieldTensors::DensityOf(const torch::Tensor& trunk) const {
  return torch::relu(networks_[0].Output(trunk).select(1, 0)) * placement_.scale;
}

torch::Tensor MlpFieldTensors::Density(const torch::Tensor& positions,
                                       const torch::Tensor& times) const {
  return DensityOf(Trunk(positions, times));
}

torch::Tensor MlpFieldTensors::Radiance(const torch::Tensor& positions,
                                        const torch::Tensor& directions,
                                        const torch::Tensor& times) const {
  const torch::Tensor trunk = Trunk(positions, times);
  return torch::cat({DensityOf(trunk).unsqueeze(1), networks_[0].Color(trunk, directions)}, 1);
}

}  // namespace nerf::autograd
