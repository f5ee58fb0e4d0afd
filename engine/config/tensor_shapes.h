#pragma once

#include <string>
#include <vector>

#include "engine/config/train_config.h"

namespace nerf {

// Sizes of the ngp field that no setting changes (docs/engine.md).
inline constexpr int kHashWidth = 32;  // features of a point, all levels together
inline constexpr int kHidden = 64;
inline constexpr int kDensityOutputs = 16;  // output 0 is the density's exponent
inline constexpr int kShFeatures = 16;      // spherical harmonics of degree 4

// A tensor's name in a file, its type ("F32", "F16", ...) and its sizes, outermost first.
struct TensorShape {
  std::string name;
  std::string dtype;
  std::vector<uint32_t> shape;
  bool operator==(const TensorShape&) const = default;
};

// The field's tensors that a config trains, as a model file (F16) holds them. Every hash level has
// 2^log2_hashmap_size entries, also a coarse one that uses fewer, so that shapes follow from the
// config alone and not from the scene.
std::vector<TensorShape> FieldTensorShapes(const TrainConfig& config);

// Checks that a file with tensors `held` can initialize a job with `config`: every tensor of
// FieldTensorShapes is there with that shape, in F16 or F32. Errors: InvalidArgument that names the
// first tensor that does not fit, with both shapes.
absl::Status CheckInitFits(const TrainConfig& config, const std::vector<TensorShape>& held);

}  // namespace nerf
