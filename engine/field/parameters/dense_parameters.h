#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/buffer.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"

namespace nerf {

// A tensor among parameters: its name in files and its shape, row-major.
struct ParameterBlock {
  std::string name;
  std::vector<uint32_t> shape;

  size_t size() const;
};

// Adam's settings at update t, counted from 1.
kernels::AdamSettings AdamAt(float learning_rate, float beta1, float beta2, float epsilon, int t);

// The tensor `name` of a file. Errors: InvalidArgument where it is missing, of another shape, or
// not F32 or F16.
absl::StatusOr<const Tensor*> FindFloats(const TensorFile& file, const std::string& name,
                                         const std::vector<uint32_t>& shape);
// As FindFloats, as floats.
absl::StatusOr<std::vector<float>> ReadFloats(const TensorFile& file, const std::string& name,
                                              const std::vector<uint32_t>& shape);

// Parameters that every step updates as a whole, such as the weights of MLPs: blocks in one array,
// with gradient lanes, Adam's moments and a moving average. In files block NAME is NAME
// (parameters; in models the average, F16), adam.first.NAME, adam.second.NAME and average.NAME.
class DenseParameters {
 public:
  // Zeros. Every block's size is a multiple of 16, so that each begins at a cache line.
  DenseParameters(std::vector<ParameterBlock> blocks, int n_lanes);

  size_t size() const { return values_.size(); }
  // Where block i begins.
  size_t offset(int i) const { return offsets_[i]; }
  // The same memory as long as this lives.
  float* values() { return values_.data(); }
  const float* values() const { return values_.data(); }
  const float* averages() const { return averages_.data(); }
  // Everything that a file stores, for a device that trains a copy.
  struct Arrays {
    std::span<float> values, first, second, averages;
  };
  Arrays arrays() { return {values_.span(), first_.span(), second_.span(), averages_.span()}; }
  // Where a step's gradients go, [n_lanes][size()]; zeros between steps.
  float* gradients(int lane) { return gradients_.data() + size() * lane; }

  // Moments become zero and the average the values.
  void RestartMoments();
  // Sums the gradient lanes (gradient_lanes.h), applies Adam and clears the lanes.
  void Update(const kernels::AdamSettings& settings, ThreadPool* pool);
  void UpdateAverages(float decay);
  bool IsFinite() const;

  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);
  void SaveModel(TensorFile* file) const;
  // Values from a model or checkpoint; restarts the moments.
  absl::Status Initialize(const TensorFile& file);
  // The average as a model holds it, rounded to half precision.
  Buffer<float> Evaluation() const;

 private:
  std::vector<ParameterBlock> blocks_;
  std::vector<size_t> offsets_;
  int n_lanes_;
  Buffer<float> values_, averages_, first_, second_, gradients_;
};

// DenseParameters::Evaluation of what a model or checkpoint file holds. Errors: InvalidArgument
// naming the tensor.
absl::StatusOr<Buffer<float>> ReadEvaluationParameters(const TensorFile& file,
                                                       const std::vector<ParameterBlock>& blocks);

}  // namespace nerf
