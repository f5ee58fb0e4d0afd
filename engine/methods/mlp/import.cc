#include "engine/methods/mlp/import.h"

#include <bit>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr uint32_t kPositionInputs = 63, kDirectionInputs = 27;

// A linear layer as PyTorch has it: weights [n_out][n_in], biases [n_out].
struct Linear {
  uint32_t n_in = 0, n_out = 0;
  std::vector<float> weights, biases;
};

class StateDictionary {
 public:
  StateDictionary(const std::map<std::string, Tensor>& tensors, std::string prefix)
      : tensors_(tensors), prefix_(std::move(prefix)) {}

  bool Has(const std::string& layer) const {
    return tensors_.contains(prefix_ + layer + ".weight");
  }
  absl::StatusOr<Linear> Read(const std::string& layer) const {
    const std::string name = prefix_ + layer;
    const auto weights = tensors_.find(name + ".weight"), biases = tensors_.find(name + ".bias");
    if (weights == tensors_.end() || biases == tensors_.end())
      return absl::InvalidArgumentError(
          fmt::format("tensors {}.weight and .bias are missing", name));
    const std::vector<uint32_t>& shape = weights->second.shape;
    if (shape.size() != 2 || biases->second.shape != std::vector<uint32_t>{shape[0]})
      return absl::InvalidArgumentError(fmt::format("{} is no linear layer", name));
    return Linear{shape[1], shape[0], ToFloats(weights->second), ToFloats(biases->second)};
  }
  absl::Status Expect(const Linear& linear, const std::string& layer, uint32_t n_in,
                      uint32_t n_out) const {
    if (linear.n_in == n_in && linear.n_out == n_out) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{}{} is [{}, {}], expected [{}, {}]", prefix_,
                                                  layer, linear.n_out, linear.n_in, n_out, n_in));
  }

 private:
  const std::map<std::string, Tensor>& tensors_;
  const std::string prefix_;
};

// second(first(x)) as one layer.
Linear Product(const Linear& first, const Linear& second) {
  Linear product{first.n_in, second.n_out, {}, second.biases};
  product.weights.resize(size_t{product.n_in} * product.n_out);
  for (uint32_t out = 0; out < second.n_out; ++out) {
    std::vector<double> row(first.n_in);
    double bias = second.biases[out];
    for (uint32_t k = 0; k < second.n_in; ++k) {
      const double weight = second.weights[size_t{out} * second.n_in + k];
      bias += weight * first.biases[k];
      for (uint32_t in = 0; in < first.n_in; ++in)
        row[in] += weight * first.weights[size_t{k} * first.n_in + in];
    }
    product.biases[out] = static_cast<float>(bias);
    for (uint32_t in = 0; in < first.n_in; ++in)
      product.weights[size_t{out} * first.n_in + in] = static_cast<float>(row[in]);
  }
  return product;
}

// Writes a layer as our files have it: [n_in][n_out] with padding. Input `in` of the layer becomes
// input row_of(in).
template <typename RowOf>
void Write(const MlpLayer& layer, const Linear& linear, RowOf row_of, TensorFile* file) {
  std::vector<float> weights(static_cast<size_t>(layer.n_in) * layer.n_out), biases(layer.n_out);
  for (uint32_t out = 0; out < linear.n_out; ++out) {
    biases[out] = linear.biases[out];
    for (uint32_t in = 0; in < linear.n_in; ++in)
      weights[size_t{row_of(in)} * layer.n_out + out] =
          linear.weights[size_t{out} * linear.n_in + in];
  }
  const auto n_in = static_cast<uint32_t>(layer.n_in), n_out = static_cast<uint32_t>(layer.n_out);
  file->tensors[layer.name + ".weights"] =
      TensorFromFloats(weights.data(), {n_in, n_out}, DType::kF32);
  file->tensors[layer.name + ".biases"] = TensorFromFloats(biases.data(), {n_out}, DType::kF32);
}

absl::Status ImportNetwork(const StateDictionary& state, const MlpLayout& layout,
                           TensorFile* file) {
  const auto width = static_cast<uint32_t>(layout.width);
  const auto in_place = [](uint32_t in) { return in; };
  NERF_ASSIGN_OR_RETURN(const Linear first, state.Read("layer1"));
  NERF_RETURN_IF_ERROR(state.Expect(first, "layer1", kPositionInputs, width));
  for (int i = 0; i < layout.depth; ++i) {
    const std::string name = fmt::format("layers_xyz.{}", i);
    NERF_ASSIGN_OR_RETURN(const Linear linear, state.Read(name));
    const bool skips = i > 0 && i == layout.skip;
    NERF_RETURN_IF_ERROR(state.Expect(linear, name, width + (skips ? kPositionInputs : 0), width));
    if (i == 0) {
      Write(layout.trunk(0), Product(first, linear), in_place, file);
    } else if (skips) {  // it has the hidden layer before the encoding
      Write(
          layout.trunk(i), linear,
          [&](uint32_t in) { return in < width ? kMlpPositionWidth + in : in - width; }, file);
    } else {
      Write(layout.trunk(i), linear, in_place, file);
    }
  }
  struct Named {
    const char* name;
    const MlpLayer& layer;
    uint32_t n_in, n_out;
  };
  for (const Named& named :
       {Named{"fc_alpha", layout.output(), width, 1},
        Named{"fc_feat", layout.feature(), width, width},
        Named{"layers_dir.0", layout.color_hidden(), width + kDirectionInputs, width / 2},
        Named{"fc_rgb", layout.color(), width / 2, 3}}) {
    NERF_ASSIGN_OR_RETURN(const Linear linear, state.Read(named.name));
    NERF_RETURN_IF_ERROR(state.Expect(linear, named.name, named.n_in, named.n_out));
    Write(named.layer, linear, in_place, file);
  }
  return absl::OkStatus();
}

// The sizes of the network, as its tensors tell them.
absl::Status ReadSizes(const StateDictionary& state, MlpSettings* mlp) {
  NERF_ASSIGN_OR_RETURN(const Linear first, state.Read("layer1"));
  if (!std::has_single_bit(first.n_out) || first.n_out < 32 || first.n_out > 256) {
    return absl::InvalidArgumentError(
        fmt::format("layer1 has {} outputs; 32, 64, 128 and 256 are read", first.n_out));
  }
  mlp->width = static_cast<int>(first.n_out);
  mlp->depth = mlp->skip = 0;
  for (; mlp->depth < 8 && state.Has(fmt::format("layers_xyz.{}", mlp->depth)); ++mlp->depth) {
    NERF_ASSIGN_OR_RETURN(const Linear linear,
                          state.Read(fmt::format("layers_xyz.{}", mlp->depth)));
    if (linear.n_in == first.n_out) continue;
    if (mlp->skip != 0) return absl::InvalidArgumentError("two layers read the position");
    mlp->skip = mlp->depth;
  }
  if (mlp->depth == 0) return absl::InvalidArgumentError("layers_xyz.0 is missing");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportedMlp> ImportNerfPytorch(const std::map<std::string, Tensor>& tensors) {
  const StateDictionary coarse(tensors, "model_coarse_state_dict.");
  const StateDictionary fine(tensors, "model_fine_state_dict.");
  ImportedMlp imported;
  NERF_ASSIGN_OR_RETURN(imported.config, DefaultConfig("mlp"));
  imported.config.background = Background::kWhite;
  imported.config.near = 2;
  MlpSettings& mlp = Mlp(imported.config);
  NERF_RETURN_IF_ERROR(ReadSizes(coarse, &mlp));
  mlp.feature_relu = 1;
  mlp.coarse_samples = mlp.fine_samples = 64;
  mlp.far = 6;
  mlp.depth_planes = 1;
  const std::vector<MlpLayout> networks = MlpNetworks(imported.config);
  NERF_RETURN_IF_ERROR(ImportNetwork(coarse, networks[0], &imported.model));
  NERF_RETURN_IF_ERROR(ImportNetwork(fine, networks[1], &imported.model));
  return imported;
}

}  // namespace nerf
