#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "engine/methods/mlp/network.h"

namespace nerf {

inline constexpr int kMlpAverageInterval = 16;  // steps between updates of the moving average

// The networks of a training with their optimizer state: one, or coarse and fine, in one array.
class MlpParameters {
 public:
  // Random weights (Glorot and Bengio 2010) from the config's seed.
  explicit MlpParameters(const TrainConfig& config);

  int n_networks() const { return static_cast<int>(networks_.size()); }
  // Network i, as long as this lives.
  MlpNetwork Network(int i, const MlpPlacement& placement) const;
  // Where gradients of network i go.
  float* gradients(int lane, int i) { return dense_.gradients(lane) + offsets_[i]; }

  // Everything that a file stores, for a device that trains a copy.
  DenseParameters::Arrays arrays() { return dense_.arrays(); }

  // One step of Adam; t counts updates from 1. Returns false if a parameter is not finite then.
  bool Update(float learning_rate, int t, ThreadPool* pool);

  void Save(TensorFile* file) const { dense_.Save(file); }
  absl::Status Load(const TensorFile& file);
  void SaveModel(TensorFile* file) const { dense_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file);
  // The evaluation weights of each network.
  std::vector<Buffer<float>> Evaluation() const;

 private:
  void Derive();

  const TrainConfig config_;
  const std::vector<MlpLayout> networks_;
  std::vector<size_t> offsets_;  // of the networks
  DenseParameters dense_;
  std::vector<MlpDerived> derived_;
};

// The evaluation weights of each network in a model or checkpoint file.
absl::StatusOr<std::vector<Buffer<float>>> ReadMlpEvaluation(const TensorFile& file,
                                                             const TrainConfig& config);

}  // namespace nerf
