#pragma once

#include <cmath>

namespace nerf {

// The network of method ngp, the one place that states its sizes: hash encoding -> density MLP ->
// color MLP on (spherical harmonics of the direction, outputs of the density MLP). ReLU between
// layers, no biases. Kernels, tensor shapes and memory estimates derive from this table.
inline constexpr int kEncodingWidth = 32;  // features of a point, all levels together
inline constexpr int kHiddenWidth = 64;
inline constexpr int kGeometryWidth = 16;  // outputs of the density MLP; 0 is the exponent of sigma
inline constexpr int kDirectionWidth = 16;  // spherical harmonics of degree 0 to 3
inline constexpr int kColorInputWidth = kDirectionWidth + kGeometryWidth;
inline constexpr int kColorChannels = 3;
inline constexpr int kColorWidth = 16;  // the channels, padded to a vector with zero weights

// Indices into kNgpLayers. The inputs of kColorHidden0 are the direction's harmonics, then the
// geometry features.
enum NgpLayerIndex {
  kDensityHidden,
  kDensityOutput,
  kColorHidden0,
  kColorHidden1,
  kColorOutput,
  kNgpLayerCount
};

// Cells along a side of the coarsest level of the hash table.
inline constexpr int kBaseResolution = 16;
// The same of a level: in geometric progression from base to finest.
inline int HashLevelResolution(int level, int n_levels, int base, int finest) {
  const double fraction = n_levels > 1 ? static_cast<double>(level) / (n_levels - 1) : 0;
  return static_cast<int>(
      std::floor(base * std::pow(static_cast<double>(finest) / base, fraction) + 1e-6));
}

// One layer's weights in the buffer that holds all of them: [n_in][n_out] row-major from `offset`
// on. n_out_used is less than n_out where columns are padding.
struct NgpLayer {
  const char* tensor_name;  // in files, which hold [n_out_used][n_in]
  int n_in, n_out, n_out_used;
  int offset;
};

namespace ngp_layers_internal {

inline constexpr NgpLayer kSizes[kNgpLayerCount] = {
    {"field.density_mlp.0", kEncodingWidth, kHiddenWidth, kHiddenWidth, 0},
    {"field.density_mlp.1", kHiddenWidth, kGeometryWidth, kGeometryWidth, 0},
    {"field.color_mlp.0", kColorInputWidth, kHiddenWidth, kHiddenWidth, 0},
    {"field.color_mlp.1", kHiddenWidth, kHiddenWidth, kHiddenWidth, 0},
    {"field.color_mlp.2", kHiddenWidth, kColorWidth, kColorChannels, 0},
};

constexpr int OffsetOf(int layer) {
  int offset = 0;
  for (int i = 0; i < layer; ++i) offset += kSizes[i].n_in * kSizes[i].n_out;
  return offset;
}

constexpr NgpLayer Layer(int layer) {
  const NgpLayer& sizes = kSizes[layer];
  return {sizes.tensor_name, sizes.n_in, sizes.n_out, sizes.n_out_used, OffsetOf(layer)};
}

}  // namespace ngp_layers_internal

inline constexpr NgpLayer kNgpLayers[kNgpLayerCount] = {
    ngp_layers_internal::Layer(kDensityHidden), ngp_layers_internal::Layer(kDensityOutput),
    ngp_layers_internal::Layer(kColorHidden0), ngp_layers_internal::Layer(kColorHidden1),
    ngp_layers_internal::Layer(kColorOutput)};
inline constexpr int kNgpWeights = ngp_layers_internal::OffsetOf(kNgpLayerCount);
inline constexpr const char* kHashTableName = "field.hash_table";

}  // namespace nerf
