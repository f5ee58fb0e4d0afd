#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/network.h"

namespace nerf {

// Gradients of one hash level, [entries][n_features], with its touched cache lines
// (kernels/hash_encoding.h). All zero between levels, so that a thread reuses one, which fits a
// core's cache, for all its levels.
struct LevelGradients {
  explicit LevelGradients(const kernels::HashGridShape& shape)
      : values(shape.level_size()), touched(shape.level_size() / kernels::kLineFloats) {}
  Buffer<float> values;
  Buffer<uint8_t> touched;
};

// Trainable parameters of the ngp field with their Adam moments and moving averages. MLP buffers
// have the layout of kNgpLayers.
class NgpParameters {
 public:
  NgpParameters(const TrainConfig& config, const kernels::HashGridShape& shape);

  // Table uniform in +-1e-4, MLP weights by Glorot and Bengio 2010, from the config's seed.
  void InitializeRandomly();

  const kernels::HashGridShape& shape() const { return shape_; }
  const float* table() const { return table_.data(); }
  // The half-precision copy of the table, updated with it; null unless setting half_table is on.
  // With half_table the table's moments are bf16, else fp32.
  const Half* half_table() const { return half_table_.size() > 0 ? half_table_.data() : nullptr; }
  const float* weights() const { return weights_.data(); }
  // Weights of each layer as [n_out][n_in], for the backward pass; follow weights() after each
  // update.
  const float* transposed_weights() const { return transposed_.data(); }
  // Both as pairs for layers in bf16 (PackNgpWeightPairs), or null; follow weights(), too.
  const uint32_t* weight_pairs() const { return weight_pairs_; }
  const uint32_t* transposed_pairs() const { return transposed_pairs_; }

  // Where a step's MLP gradients go, [kGradientLanes][kNgpWeights].
  float* weight_gradients(int lane) {
    return weight_gradients_.data() + size_t{kNgpWeights} * lane;
  }

  // Adam's settings at update t for the table and for the MLPs, whose L2 penalty is scaled like
  // their gradients.
  kernels::AdamSettings TableAdam(float learning_rate, int t) const;
  kernels::AdamSettings WeightsAdam(float learning_rate, int t) const;

  // Everything that a file stores, for a device that trains a copy. Requires: half_table=0.
  struct Arrays {
    std::span<float> table, table_first, table_second, table_average;
    std::span<float> weights, weights_first, weights_second, weights_average;
  };
  Arrays arrays();

  // Adam on one level of the table; clears the gradients. t counts updates from 1.
  void UpdateTableLevel(int level, float learning_rate, int t, LevelGradients* gradients);
  // For gradients that SumLanes has summed in lane 0: adds the L2 penalty, applies Adam and clears
  // the lanes.
  void UpdateWeights(float learning_rate, int t);
  // Clears the lanes instead: the MLPs stay as they are.
  void DropWeightGradients() { weight_gradients_.SetZero(); }
  // Whether every weight of the MLPs is a finite number. A table entry that is not finite makes a
  // weight not finite as soon as a gradient uses it.
  bool WeightsAreFinite() const;
  // Updates the moving average of the MLPs and of some levels, n_steps after its last update.
  void UpdateAverages(int n_steps, std::span<const int> levels, ThreadPool* pool);
  void UpdateAverages(int n_steps, ThreadPool* pool);  // of all levels

  // A level as the encoding reads it (half_table or table), and its bytes in a cache line of
  // kLineFloats entries: what other ranks need after an update (rank_exchange.h).
  std::byte* ReadLevel(int level);
  size_t ReadLineBytes() const;
  // All that is kept of a level: table, moments, averages, half_table.
  std::vector<std::span<std::byte>> LevelArrays(int level);

  // State tensors as TrainingStep::Save and Load describe them.
  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);
  // The averages in F16.
  void SaveModel(TensorFile* file) const;
  // Parameters from a file, whose table may have another size; moments are 0, averages the
  // parameters.
  absl::Status Initialize(const TensorFile& file);

  // Copies of the evaluation parameters, rounded to half precision.
  Buffer<Half> EvaluationTable() const;
  Buffer<float> EvaluationWeights() const;

 private:
  // Recomputes what is derived from the parameters.
  void Derive();
  void DeriveWeights();
  void RestartMoments();

  const TrainConfig config_;
  const kernels::HashGridShape shape_;
  Buffer<float> table_, table_average_;
  Buffer<float> table_first_, table_second_;  // moments
  Buffer<uint32_t> table_moments_;            // or, with half_table, pairs of them in bf16
  Buffer<Half> half_table_;
  Buffer<float> weights_, transposed_, weights_first_, weights_second_, weights_average_;
  Buffer<float> weight_gradients_;
  Buffer<uint32_t> pairs_buffer_, transposed_pairs_buffer_;
  const uint32_t* weight_pairs_ = nullptr;
  const uint32_t* transposed_pairs_ = nullptr;
};

// The evaluation parameters that a model or checkpoint holds, rounded to half precision, in the
// layout of NgpField.
struct NgpEvaluationParameters {
  Buffer<Half> table;
  Buffer<float> weights;
  Buffer<float> appearance = {};  // ReadShownAppearance; empty: the mean of the training views
};
absl::StatusOr<NgpEvaluationParameters> ReadNgpEvaluationParameters(
    const TensorFile& file, const kernels::HashGridShape& shape);

}  // namespace nerf
