#pragma once

#include "engine/base/aabb.h"
#include "engine/kernels/hash_encoding.h"

namespace nerf {

// Sizes of the ngp field: hash encoding -> density MLP 32-64-16 -> color MLP 32-64-64-3 on
// (spherical harmonics of the direction, the density MLP's outputs).
inline constexpr int kEncodingWidth = 32;
inline constexpr int kHiddenWidth = 64;
inline constexpr int kGeometryWidth =
    16;  // outputs of the density MLP; output 0 is the density's exponent
inline constexpr int kDirectionWidth = 16;
inline constexpr int kColorInputWidth = kDirectionWidth + kGeometryWidth;
inline constexpr int kColorWidth = 16;  // three, padded to a vector with zero weights

// One layer's weights in the MLP's buffer, [n_in][n_out] row-major. `n_out_used` is less than n_out
// where columns are padding.
struct NgpLayer {
  const char* tensor_name;
  int offset, n_in, n_out, n_out_used;
};
inline constexpr NgpLayer kNgpLayers[5] = {
    {"field.density_mlp.0", 0, kEncodingWidth, kHiddenWidth, kHiddenWidth},
    {"field.density_mlp.1", 2048, kHiddenWidth, kGeometryWidth, kGeometryWidth},
    {"field.color_mlp.0", 3072, kColorInputWidth, kHiddenWidth, kHiddenWidth},
    {"field.color_mlp.1", 5120, kHiddenWidth, kHiddenWidth, kHiddenWidth},
    {"field.color_mlp.2", 9216, kHiddenWidth, kColorWidth, 3},
};
inline constexpr int kColorInputLayer = 2;  // rows of the direction, then of the geometry
inline constexpr int kNgpWeights = 10240;   // floats of the MLP's buffer
// Words of the buffer of its pairs (PackNgpWeightPairs), with those that may be read after the
// last.
inline constexpr int kNgpWeightPairs = kNgpWeights / 2 + 16 * kHiddenWidth;
inline constexpr const char* kHashTableName = "field.hash_table";

// The encoding's levels: 8 of four features or 16 of two, in geometric progression from 16 cells
// along the outermost box to finest_resolution along the level-0 box, however many boxes nest
// around that.
struct NgpEncoding {
  int log2_hashmap_size = 17;
  int n_features_per_level = 4;
  int finest_resolution = 1024;
  int n_occupancy_levels = 1;
};
kernels::HashGridShape NgpHashGridShape(const NgpEncoding& encoding);

// A view of the ngp field's parameters. Borrows them.
struct NgpNetwork {
  kernels::HashGridShape shape;
  Aabb box;                        // the outermost box; mapped to the unit cube
  const float* table = nullptr;    // [n_levels][entries][n_features], or null beside half_table
  const float* weights = nullptr;  // [kNgpWeights], layers as in kNgpLayers
  float density_shift = 0;         // kernels::DensityFromOutput
  // The table in half precision; where it is not null, what the encoding reads.
  const Half* half_table = nullptr;
  int n_active_levels = kernels::kMaxHashLevels;  // of the encoding; the finer ones give zeros
  const uint32_t* weight_pairs = nullptr;         // of `weights`, or null (PackNgpWeightPairs)
};

// The layers' weights as pairs for paths that multiply in bf16 (kernels/dense_layer.h), in the
// place of the layers: a layer's pairs begin at half of its offset. weights [kNgpWeights], each
// layer [n_in][n_out] or, `transposed`, [n_out][n_in]; pairs [kNgpWeightPairs], zeros before the
// first call. Returns pairs, or null, having done nothing, where the process multiplies in fp32.
const uint32_t* PackNgpWeightPairs(const float* weights, bool transposed, uint32_t* pairs);

// Positions in the training frame to the unit cube, in place of `unit` [n].
void ToUnitCube(const Aabb& box, int n, const Vec3* positions, Vec3* unit);

// Encoding and density MLP of n points of the unit cube. Shapes: encodings [n][32], hidden [n][64],
// geometry [n][16].
void NgpDensityForward(const NgpNetwork& network, int n, const Vec3* unit, float* encodings,
                       float* hidden, float* geometry);

// Densities of n points of the unit cube, in batches that stay in the cache.
void NgpDensities(const NgpNetwork& network, int n, const Vec3* unit, float* sigmas);

// The color MLP's first layer is a sum of two terms, before its ReLU: one of the
// direction, the same for all samples of a ray, and one of the geometry features. This is the
// direction's. Shapes: harmonics [n][16], direction_terms [n][64].
void NgpDirectionTerms(const NgpNetwork& network, int n, const float* harmonics,
                       float* direction_terms);

// Color MLP. Shapes: geometry [n][16], hidden0 and hidden1 [n][64], colors [n][16] of which the
// first three are sRGB in [0, 1]. hidden0 comes with each sample's direction share.
void NgpColorForward(const NgpNetwork& network, int n, const float* geometry, float* hidden0,
                     float* hidden1, float* colors);

}  // namespace nerf
