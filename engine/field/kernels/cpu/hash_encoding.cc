#include "engine/field/kernels/hash_encoding.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/hash_encoding.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// After highway.h: it is included once per target.
#include "engine/field/kernels/cpu/half_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Cost: a sample reads 8 entries of 4 to 16 bytes per level, mostly from L2 or beyond. So the
// corners of a tile are computed in vectors, and those of the next level are prefetched while this
// level's are read. Entries are loaded one by one, because x86 cores split a gather into as many
// loads. The exception is an entry of one word, where gathering sixteen at once also vectorizes the
// conversion and the sum: a training step then took 4% less time.
constexpr bool kGathersWords = HWY_TARGET <= HWY_AVX3;
constexpr int kTile = kHashTile;
constexpr int kCorners = 8;

// Positions of a tile as a structure of arrays. A partial tile is filled up with its last sample.
struct TilePositions {
  alignas(64) float axis[3][kTile];
};

HWY_INLINE void LoadTile(const Vec3* positions, int n, TilePositions* tile) {
  const hn::CappedTag<float, kTile> d;
  if (n == kTile) {
    for (size_t i = 0; i < kTile; i += hn::Lanes(d)) {
      hn::Vec<decltype(d)> x, y, z;
      hn::LoadInterleaved3(d, &positions[i].x, x, y, z);
      hn::Store(x, d, tile->axis[0] + i);
      hn::Store(y, d, tile->axis[1] + i);
      hn::Store(z, d, tile->axis[2] + i);
    }
    return;
  }
  for (int i = 0; i < kTile; ++i) {
    const Vec3 p = positions[HWY_MIN(i, n - 1)];
    tile->axis[0][i] = p.x;
    tile->axis[1][i] = p.y;
    tile->axis[2][i] = p.z;
  }
}

// The corners of a tile's cells at one level. Bits 0, 1 and 2 of corner c are set if it is on the
// far side along x, y and z.
struct TileCorners {
  alignas(64) uint32_t entries[kCorners][kTile];
  alignas(64) float weights[kCorners][kTile];
};

void FindCorners(const HashGridShape& shape, int level, const TilePositions& tile,
                 TileCorners* corners) {
  const hn::CappedTag<float, kTile> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  using VU = hn::Vec<decltype(du)>;
  using VF = hn::Vec<decltype(df)>;
  const int resolution = shape.resolution[level];
  const bool dense = shape.IsDense(level);
  const uint32_t n_corners = resolution + 1;
  const auto scale = hn::Set(df, static_cast<float>(resolution));
  const auto last_cell = hn::Set(df, static_cast<float>(resolution - 1));
  const auto zero = hn::Zero(df), one = hn::Set(df, 1.0f);
  const auto mask = hn::Set(du, shape.entries() - 1);
  const auto y_factor = hn::Set(du, dense ? n_corners : kHashPrimeY);
  const auto z_factor = hn::Set(du, dense ? n_corners * n_corners : kHashPrimeZ);
  const auto unit = hn::Set(du, 1u);
  for (size_t i = 0; i < kTile; i += hn::Lanes(df)) {
    const auto split = [&](const float* coordinate, VU* cell, VF* fraction) HWY_ATTR {
      const auto scaled = hn::Mul(hn::Min(hn::Max(hn::Load(df, coordinate + i), zero), one), scale);
      const auto floor = hn::Min(hn::Floor(scaled), last_cell);
      *cell = hn::BitCast(du, hn::ConvertTo(di, floor));
      *fraction = hn::Sub(scaled, floor);
    };
    VU x0, y0, z0;
    VF fx, fy, fz;
    split(tile.axis[0], &x0, &fx);
    split(tile.axis[1], &y0, &fy);
    split(tile.axis[2], &z0, &fz);
    const VU xs[2] = {x0, hn::Add(x0, unit)};
    const VU ys[2] = {hn::Mul(y0, y_factor), hn::Mul(hn::Add(y0, unit), y_factor)};
    const VU zs[2] = {hn::Mul(z0, z_factor), hn::Mul(hn::Add(z0, unit), z_factor)};
    const VF wx[2] = {hn::Sub(one, fx), fx}, wy[2] = {hn::Sub(one, fy), fy},
             wz[2] = {hn::Sub(one, fz), fz};
    for (int c = 0; c < kCorners; ++c) {
      const int cx = c & 1, cy = (c >> 1) & 1, cz = c >> 2;
      const VU entry = dense ? hn::Add(hn::Add(xs[cx], ys[cy]), zs[cz])
                             : hn::And(hn::Xor(hn::Xor(xs[cx], ys[cy]), zs[cz]), mask);
      hn::Store(entry, du, corners->entries[c] + i);
      hn::Store(hn::Mul(hn::Mul(wx[cx], wy[cy]), wz[cz]), df, corners->weights[c] + i);
    }
  }
}

template <int kFeatures, typename T>
HWY_INLINE void PrefetchCorners(const TileCorners& corners, int n, const T* table) {
  // The two corners of an edge along x mostly share a cache line.
  for (int c = 0; c < kCorners; c += 2) {
    for (int i = 0; i < n; ++i)
      hwy::Prefetch(table + static_cast<size_t>(kFeatures) * corners.entries[c][i]);
  }
}

// features[i * stride + f] of n samples at one level, sample by sample.
template <int kFeatures, typename T>
HWY_INLINE void Interpolate(const TileCorners& corners, int n, const T* table, float* features,
                            int stride) {
  const hn::FixedTag<float, kFeatures> d;
  for (int i = 0; i < n; ++i, features += stride) {
    const auto entry = [&](int c) HWY_ATTR {
      return LoadFloats(d, table + static_cast<size_t>(kFeatures) * corners.entries[c][i]);
    };
    const auto weight = [&](int c) HWY_ATTR { return hn::Set(d, corners.weights[c][i]); };
    // Two sums: a single chain of additions would be slower than the loads.
    auto near = hn::Mul(weight(0), entry(0)), far = hn::Mul(weight(4), entry(4));
    for (int c = 1; c < 4; ++c) {
      near = hn::MulAdd(weight(c), entry(c), near);
      far = hn::MulAdd(weight(c + 4), entry(c + 4), far);
    }
    hn::StoreU(hn::Add(near, far), d, features);
  }
}

// The same for two features in half precision, whose entry is one word: a vector of samples at a
// time.
HWY_INLINE void InterpolatePairs(const TileCorners& corners, int n, const Half* table,
                                 float* features, int stride) {
  const hn::CappedTag<float, kTile> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> du16;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  alignas(64) float pairs[2 * kTile];
  for (int i = 0; i < kTile; i += static_cast<int>(hn::Lanes(d))) {
    // Summed for the near and the far side of the cell, in the order of Interpolate.
    hn::Vec<decltype(d)> even[2], odd[2];
    for (int c = 0; c < kCorners; ++c) {
      const auto entry = hn::BitCast(di, hn::Load(du, corners.entries[c] + i));
      const auto word =
          hn::BitCast(du, hn::GatherIndex(di, reinterpret_cast<const int32_t*>(table), entry));
      const auto weight = hn::Load(d, corners.weights[c] + i);
      const auto low = hn::BitCast(dh, hn::TruncateTo(du16, word));
      const auto high = hn::BitCast(dh, hn::TruncateTo(du16, hn::ShiftRight<16>(word)));
      const auto low_value = hn::PromoteTo(d, low), high_value = hn::PromoteTo(d, high);
      const int side = c / 4;
      even[side] =
          c % 4 == 0 ? hn::Mul(weight, low_value) : hn::MulAdd(weight, low_value, even[side]);
      odd[side] =
          c % 4 == 0 ? hn::Mul(weight, high_value) : hn::MulAdd(weight, high_value, odd[side]);
    }
    hn::StoreInterleaved2(hn::Add(even[0], even[1]), hn::Add(odd[0], odd[1]), d, pairs + 2 * i);
  }
  for (int i = 0; i < n; ++i, features += stride)
    std::memcpy(features, pairs + 2 * i, 2 * sizeof(float));
}

template <int kFeatures, typename T>
void EncodeTiles(const HashEncodeForwardParams<T>& params) {
  const HashGridShape& shape = *params.shape;
  const int n_active = HWY_MIN(params.n_active, shape.n_levels);
  const size_t n_zeros = static_cast<size_t>(kFeatures) * (shape.n_levels - n_active);
  TilePositions tile;
  TileCorners corners[2];
  for (int begin = 0; begin < params.n; begin += kTile) {
    const int n = std::min(kTile, params.n - begin);
    LoadTile(params.positions + begin, n, &tile);
    FindCorners(shape, 0, tile, &corners[0]);
    for (int level = 0; level < n_active; ++level) {
      const T* const table = params.table + shape.level_size() * level;
      if (level + 1 < n_active) {
        TileCorners* const next = &corners[(level + 1) % 2];
        FindCorners(shape, level + 1, tile, next);
        PrefetchCorners<kFeatures>(*next, n, table + shape.level_size());
      }
      const TileCorners& at = corners[level % 2];
      float* features =
          params.features + static_cast<size_t>(begin) * params.stride + kFeatures * level;
      if constexpr (kFeatures == 2 && std::is_same_v<T, Half> && kGathersWords) {
        InterpolatePairs(at, n, table, features, params.stride);
      } else {
        Interpolate<kFeatures>(at, n, table, features, params.stride);
      }
    }
    if (n_zeros == 0) continue;
    for (int i = 0; i < n; ++i) {
      float* const row = params.features + static_cast<size_t>(begin + i) * params.stride;
      std::fill_n(row + kFeatures * n_active, n_zeros, 0.0f);
    }
  }
}

template <typename T>
void Encode(const HashEncodeForwardParams<T>& params) {
  if (params.shape->n_features == 4) {
    EncodeTiles<4>(params);
  } else {
    EncodeTiles<2>(params);
  }
}

void EncodeFloats(const HashEncodeForwardParams<float>& params) { Encode(params); }
void EncodeHalves(const HashEncodeForwardParams<Half>& params) { Encode(params); }

template <int kFeatures>
void ScatterTiles(const HashEncodeBackwardParams& params) {
  const hn::FixedTag<float, kFeatures> d;
  float* HWY_RESTRICT const table = params.grad_table;
  uint8_t* HWY_RESTRICT const touched = params.touched;
  TilePositions tile;
  TileCorners corners[2];
  const auto tile_gradients = [&](int begin) {
    return params.grad_features + static_cast<size_t>(begin / kTile) * params.tile_stride;
  };
  const auto find = [&](int begin) HWY_ATTR {
    const int n = std::min(kTile, params.n - begin);
    if (n <= 0) return;
    TileCorners* const found = &corners[begin / kTile % 2];
    LoadTile(params.positions + begin, n, &tile);
    FindCorners(*params.shape, params.level, tile, found);
    PrefetchCorners<kFeatures>(*found, n, table);
    const float* const gradients = tile_gradients(begin);
    for (int i = 0; i < kFeatures * kTile; i += kLineFloats) hwy::Prefetch(gradients + i);
  };
  find(0);
  for (int begin = 0; begin < params.n; begin += kTile) {
    find(begin + kTile);
    const int n = std::min(kTile, params.n - begin);
    const TileCorners& at = corners[begin / kTile % 2];
    const float* gradient = tile_gradients(begin);
    for (int i = 0; i < n; ++i, gradient += kFeatures) {
      const auto grad = hn::LoadU(d, gradient);
      for (int c = 0; c < kCorners; ++c) {
        const uint32_t entry = at.entries[c][i];
        float* const to = table + static_cast<size_t>(kFeatures) * entry;
        hn::StoreU(hn::MulAdd(hn::Set(d, at.weights[c][i]), grad, hn::LoadU(d, to)), d, to);
        touched[entry / (kLineFloats / kFeatures)] = 1;
      }
    }
  }
}

void HashEncodeBackward(const HashEncodeBackwardParams& params) {
  if (params.shape->n_features == 4) {
    ScatterTiles<4>(params);
  } else {
    ScatterTiles<2>(params);
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(EncodeFloats);
HWY_EXPORT(EncodeHalves);
HWY_EXPORT(HashEncodeBackward);
namespace cpu {
void HashEncodeForward(const HashEncodeForwardParams<float>& params) {
  HWY_DYNAMIC_DISPATCH(EncodeFloats)(params);
}
void HashEncodeForward(const HashEncodeForwardParams<Half>& params) {
  HWY_DYNAMIC_DISPATCH(EncodeHalves)(params);
}
void HashEncodeBackward(const HashEncodeBackwardParams& params) {
  HWY_DYNAMIC_DISPATCH(HashEncodeBackward)(params);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
