#include "engine/methods/mlp/parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/philox.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

// Of an untrained density, before ReLU: a ReLU that starts below zero everywhere never learns.
constexpr float kFirstDensity = 0.5f;

std::vector<ParameterBlock> BlocksOf(const std::vector<MlpLayout>& networks) {
  std::vector<ParameterBlock> blocks;
  for (const MlpLayout& network : networks) {
    for (const MlpLayer& layer : network.layers) {
      const auto n_in = static_cast<uint32_t>(layer.n_in);
      const auto n_out = static_cast<uint32_t>(layer.n_out);
      blocks.push_back({layer.name + ".weights", {n_in, n_out}});
      blocks.push_back({layer.name + ".biases", {n_out}});
    }
  }
  return blocks;
}

std::vector<Buffer<float>> Split(const std::vector<MlpLayout>& networks,
                                 const Buffer<float>& values) {
  std::vector<Buffer<float>> parts;
  const float* from = values.data();
  for (const MlpLayout& network : networks) {
    parts.emplace_back(network.size);
    std::copy_n(from, network.size, parts.back().data());
    from += network.size;
  }
  return parts;
}

}  // namespace

MlpParameters::MlpParameters(const TrainConfig& config)
    : config_(config),
      networks_(MlpNetworks(config)),
      dense_(BlocksOf(networks_), kMlpGradientLanes) {
  size_t offset = 0;
  uint32_t stream = 1;
  for (const MlpLayout& network : networks_) {
    offsets_.push_back(offset);
    derived_.emplace_back(network, /*with_backward=*/true);
    for (const MlpLayer& layer : network.layers) {
      // At first nothing is moved.
      if (network.outputs == MlpOutputs::kShift && &layer == &network.output()) continue;
      float* const weights = dense_.values() + offset + layer.weights;
      const float reach = std::sqrt(6.0f / static_cast<float>(layer.n_in + layer.n_out_used));
      for (int in = 0; in < layer.n_in; ++in) {
        for (int out = 0; out < layer.n_out_used; ++out) {
          const auto i = static_cast<uint32_t>(in * layer.n_out + out);
          const uint32_t word = RandomWords(config.seed, RandomUse::kInit, stream, i / 4)[i % 4];
          weights[i] = (2 * UniformFloat(word) - 1) * reach;
        }
      }
      ++stream;
    }
    if (network.outputs == MlpOutputs::kRadiance)
      dense_.values()[offset + network.output().biases] = kFirstDensity;
    offset += network.size;
  }
  dense_.RestartMoments();
  Derive();
}

MlpNetwork MlpParameters::Network(int i, const MlpPlacement& placement) const {
  return {&networks_[i], dense_.values() + offsets_[i], &derived_[i], placement};
}

void MlpParameters::Derive() {
  for (size_t i = 0; i < networks_.size(); ++i)
    derived_[i].Derive(networks_[i], dense_.values() + offsets_[i]);
}

bool MlpParameters::Update(float learning_rate, int t, ThreadPool* pool) {
  dense_.Update(AdamAt(learning_rate, config_.beta1, config_.beta2, config_.epsilon, t), pool);
  if (t % kMlpAverageInterval == 0)
    dense_.UpdateAverages(AverageDecay(config_, kMlpAverageInterval));
  Derive();
  return dense_.IsFinite();
}

absl::Status MlpParameters::Load(const TensorFile& file) {
  NERF_RETURN_IF_ERROR(dense_.Load(file));
  Derive();
  return absl::OkStatus();
}

absl::Status MlpParameters::Initialize(const TensorFile& file) {
  NERF_RETURN_IF_ERROR(dense_.Initialize(file));
  Derive();
  return absl::OkStatus();
}

std::vector<Buffer<float>> MlpParameters::Evaluation() const {
  return Split(networks_, dense_.Evaluation());
}

absl::StatusOr<std::vector<Buffer<float>>> ReadMlpEvaluation(const TensorFile& file,
                                                             const TrainConfig& config) {
  const std::vector<MlpLayout> networks = MlpNetworks(config);
  NERF_ASSIGN_OR_RETURN(const Buffer<float> values,
                        ReadEvaluationParameters(file, BlocksOf(networks)));
  return Split(networks, values);
}

}  // namespace nerf
