#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"

namespace nerf {

// Values that a training learns for its pictures or lenses beside the field, with Adam's moments.
// Part of a training's state: in files they are the F32 tensors NAME, adam.first.NAME and
// adam.second.NAME.
class ViewValues {
 public:
  ViewValues() = default;  // none
  // All values are 0. shape: of the tensors.
  ViewValues(std::string name, std::vector<uint32_t> shape);

  size_t size() const { return values_.size(); }
  float& operator[](size_t i) { return values_[i]; }
  const float& operator[](size_t i) const { return values_[i]; }

  // Shapes: gradients [size()].
  void Update(const kernels::AdamSettings& settings, std::span<const float> gradients);

  void Save(TensorFile* file) const;
  // Errors: InvalidArgument naming the tensor; nothing is then changed.
  absl::Status Load(const TensorFile& file);

 private:
  std::string name_;
  std::vector<uint32_t> shape_;
  std::vector<float> values_, first_moments_, second_moments_;
};

}  // namespace nerf
