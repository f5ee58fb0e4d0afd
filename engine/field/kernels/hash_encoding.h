#pragma once

#include <cmath>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/half_float.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

inline constexpr int kMaxHashLevels = 16;
inline constexpr uint32_t kHashPrimeY = 2654435761u, kHashPrimeZ = 805459861u;  // eq. 4
inline constexpr int kLineFloats = 16;  // floats per cache line, the unit of AdamSparse

// Multiresolution hash encoding: level l overlays the unit cube with a grid of resolution[l]^3
// cells whose corners index a table of 2^log2_hashmap_size entries of two or four features; a point
// gets the trilinear interpolation of its cell's eight corners. A level whose corners fit into the
// table is indexed directly (dense), a finer one by a spatial hash.
// Source: Mueller et al. 2022, "Instant neural graphics primitives with a multiresolution hash
// encoding", section 3, eq. 2-4.
struct HashGridShape {
  int n_levels = kMaxHashLevels;
  int n_features = 2;  // per entry: 2 or 4
  int log2_hashmap_size = 18;
  int resolution[kMaxHashLevels] = {};  // cells along a side

  uint32_t entries() const { return uint32_t{1} << log2_hashmap_size; }
  size_t level_size() const { return static_cast<size_t>(n_features) << log2_hashmap_size; }
  int width() const { return n_levels * n_features; }  // features per point
  bool IsDense(int level) const {
    const uint64_t corners = static_cast<uint64_t>(resolution[level]) + 1;
    return corners * corners * corners <= entries();
  }
};

// Resolutions in geometric progression from base to finest.
inline HashGridShape MakeHashGridShape(int n_levels, int n_features, int log2_hashmap_size,
                                       int base, int finest) {
  HashGridShape shape{n_levels, n_features, log2_hashmap_size, {}};
  for (int level = 0; level < n_levels; ++level)
    shape.resolution[level] = HashLevelResolution(level, n_levels, base, finest);
  return shape;
}

// Entry of corner (x, y, z) of a level.
NERF_HD inline uint32_t HashGridEntry(uint32_t x, uint32_t y, uint32_t z, uint32_t corners,
                                      bool dense, uint32_t mask) {
  if (dense) return x + corners * (y + corners * z);
  return (x ^ (y * kHashPrimeY) ^ (z * kHashPrimeZ)) & mask;
}

// features[i * stride + F l + f] for i in [0, n), l in [0, n_levels), f in [0, F), F = n_features.
// T is float or Half; sums are fp32. Levels from n_active on are not read; their features are 0.
// Shapes: positions [n] in [0, 1]^3 (others are clamped); table [n_levels][entries][F]; stride >= F
// n_levels, in floats. Requires: features does not alias the table.
template <typename T>
struct HashEncodeForwardParams {
  const HashGridShape* shape = nullptr;
  const T* table = nullptr;
  int n = 0;
  const Vec3* positions = nullptr;
  float* features = nullptr;
  int stride = 0;
  int n_active = kMaxHashLevels;
};

inline constexpr int kHashTile = 16;  // samples that are processed together

// Adds the gradient of one level to the table, samples in order:
//   grad_table[entry(corner)][f] += weight(corner) * grad_features[tile * tile_stride + F k + f]
// where sample i is sample k = i % kHashTile of tile i / kHashTile. A tile stores one level's
// gradients contiguously: if a row held all levels of a sample, each level would load cache lines
// that are mostly the other levels'. touched[entry * F / 16] = 1 for each entry that is added to:
// the cache lines that AdamSparse visits.
// Shapes: positions [n] in [0, 1]^3; grad_table [entries][F] of that level; tile_stride in floats.
struct HashEncodeBackwardParams {
  const HashGridShape* shape = nullptr;
  int level = 0;
  int n = 0;
  const Vec3* positions = nullptr;
  const float* grad_features = nullptr;
  int tile_stride = 0;
  float* grad_table = nullptr;
  uint8_t* touched = nullptr;
};

namespace cpu {
void HashEncodeForward(const HashEncodeForwardParams<float>& params);
void HashEncodeForward(const HashEncodeForwardParams<Half>& params);
void HashEncodeBackward(const HashEncodeBackwardParams& params);
}  // namespace cpu

// The same op with arrays laid out for a device: features are stored in planes of two, plane p with
// features 2 p and 2 p + 1 of every sample. All samples read one level before the next, whose table
// then stays in the L2 cache, and neighboring threads write neighboring words. All pointers are to
// device memory.
namespace cuda {

// features[(p * stride + i) * 2 + f] for i in range. T is float or Half; sums are fp32.
// Shapes: table [n_levels][entries][F], positions [capacity], features [F n_levels / 2][stride][2].
// Traffic per sample and level: 8 reads of F sizeof(T) bytes, 12 bytes of position, F sizeof(T)
// written.
template <typename T>
struct HashEncodeForwardParams {
  HashGridShape shape;
  const T* table = nullptr;
  const float* fp32_table = nullptr;  // read instead of table if not null
  DeviceRange range;
  const Vec3* positions = nullptr;
  T* features = nullptr;
  uint32_t stride = 0;
};

// Gradients of the table in fixed point: sums are then independent of the order of additions. One
// unit is 2^-32; sums up to 2^31 fit.
inline constexpr float kFixedPointOne = 4294967296.0f;

// grad_table[l][entry(corner)][f] += weight(corner) * gradient of feature F l + f of sample i, for
// i in range, at positions[rows[i]] (positions[i] if rows is null). Exactly one of grad_table and
// fixed_grad_table is not null; sums of floats depend on the order of additions, fixed point does
// not.
// Shapes: grad_features [F n_levels / 2][stride][2], planes as above; grad_table, fixed_grad_table
// [n_levels][entries][F].
// Traffic: 8 atomic additions of 4 F bytes (8 F in fixed point) per sample and level.
struct HashEncodeBackwardParams {
  HashGridShape shape;
  DeviceRange range;
  const Vec3* positions = nullptr;
  const uint32_t* rows = nullptr;
  const float* grad_features = nullptr;
  uint32_t stride = 0;
  float* grad_table = nullptr;
  int64_t* fixed_grad_table = nullptr;
};

void HashEncodeForward(const HashEncodeForwardParams<float>& params, Stream stream);
void HashEncodeForward(const HashEncodeForwardParams<Half>& params, Stream stream);
void HashEncodeBackward(const HashEncodeBackwardParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
