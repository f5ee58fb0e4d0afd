#pragma once

#include "engine/base/aabb.h"
#include "engine/base/encoded_space.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/methods/ngp/describe/ngp_memory.h"

namespace nerf {

// The levels of the hash encoding: 8 of four features or 16 of two. Resolutions are in geometric
// progression, from 16 cells along the unit cube to finest_resolution, doubled n_doublings times.
struct NgpEncoding {
  int log2_hashmap_size = 17;
  int n_features_per_level = 4;
  int finest_resolution = 1024;
  int n_doublings = 0;  // EncodingDoublings
};
kernels::HashGridShape NgpHashGridShape(const NgpEncoding& encoding);

// A view of the ngp field's parameters. Borrows them.
struct NgpNetwork {
  kernels::HashGridShape shape;
  Aabb box;                          // the outermost box
  const float* table = nullptr;      // [n_levels][entries][n_features]; may be null with half_table
  const float* weights = nullptr;    // [kNgpWeights], layers as in kNgpLayers
  float density_shift = 0;           // kernels::DensityFromOutput
  const Half* half_table = nullptr;  // the table in half precision; read instead of it if not null
  int n_active_levels = kernels::kMaxHashLevels;  // the finer levels of the encoding give zeros
  const uint32_t* weight_pairs = nullptr;         // PackNgpWeightPairs of `weights`, or null
  // What the encoding's unit cube covers: `box`; all of space, contracted into twice `inner_box`;
  // or what lies in `frustum`.
  Contraction contraction = Contraction::kNone;
  Aabb inner_box = {};  // level-0 box; read with kLinf and kL2
  Frustum frustum = {};
  bool learns_background = false;
  // What the shown view's appearance adds to every direction term, [kHiddenWidth], or null.
  const float* appearance = nullptr;
};

// Packs the weights into pairs for layers in bf16 (kernels/dense_layer.h). A layer's pairs begin at
// half of its offset. Shapes: weights [kNgpWeights], each layer [n_in][n_out], or [n_out][n_in] if
// `transposed`; pairs [kNgpWeightPairs], zeros before the first call. Returns `pairs`; null, and
// writes nothing, where the process multiplies in fp32.
const uint32_t* PackNgpWeightPairs(const float* weights, bool transposed, uint32_t* pairs);

EncodedSpace SpaceOf(const NgpNetwork& network);

// Maps positions of the training frame to the unit cube of `box`. Shapes: positions, unit [n].
// `unit` may be `positions`.
void ToUnitCube(const Aabb& box, int n, const Vec3* positions, Vec3* unit);

// Maps positions of the training frame to where the network encodes them. Shapes: positions, unit
// [n]. `unit` may be `positions`.
void ToEncodedCube(const NgpNetwork& network, int n, const Vec3* positions, Vec3* unit);

// The gradient by a position of the training frame, from the gradient by its encoded position
// `unit`.
Vec3 PositionGradient(const NgpNetwork& network, Vec3 unit, Vec3 grad_unit);

// EncodedSpace::HorizonUnit of the network's space.
Vec3 EncodedHorizon(const NgpNetwork& network, Vec3 direction);

// Encoding and density MLP of n points of the unit cube. Shapes: encodings [n][32], hidden [n][64],
// geometry [n][16].
void NgpDensityForward(const NgpNetwork& network, int n, const Vec3* unit, float* encodings,
                       float* hidden, float* geometry);

// Densities of n encoded points, in batches that stay in the cache.
void NgpDensities(const NgpNetwork& network, int n, const Vec3* unit, float* sigmas);

// The direction's term of the color MLP's first layer. Before its ReLU that layer is the sum of
// this term, which is the same for all samples of a ray, and one of the geometry features.
// Shapes: harmonics [n][16], direction_terms [n][64].
void NgpDirectionTerms(const NgpNetwork& network, int n, const float* harmonics,
                       float* direction_terms);

// Color MLP. Shapes: geometry [n][16], hidden0 and hidden1 [n][64], colors [n][16] of which the
// first three are sRGB in [0, 1]. On entry hidden0 holds each sample's direction term.
void NgpColorForward(const NgpNetwork& network, int n, const float* geometry, float* hidden0,
                     float* hidden1, float* colors);

}  // namespace nerf
