#include "engine/kernels/hash_encoding.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/hash_encoding.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kTile =
    16;  // samples whose features are gathered level by level before they are written out
constexpr int kCorners = 8;

// One level of a tile: corner entries and weights, corner-major so that a vector holds one corner
// of several samples.
struct TileCorners {
  alignas(64) uint32_t entries[kCorners][kTile];
  alignas(64) float weights[kCorners][kTile];
};

// Positions of a tile as structure of arrays; the tail repeats the last sample.
struct TilePositions {
  alignas(64) float x[kTile], y[kTile], z[kTile];
};

void LoadTile(const Vec3* positions, int n, TilePositions* tile) {
  for (int i = 0; i < kTile; ++i) {
    const Vec3 p = positions[std::min(i, n - 1)];
    tile->x[i] = p.x;
    tile->y[i] = p.y;
    tile->z[i] = p.z;
  }
}

void FindCorners(const HashGridShape& shape, int level, const TilePositions& tile,
                 TileCorners* corners) {
  const hn::ScalableTag<float> df;
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
  const auto y_factor = hn::Set(du, dense ? n_corners : 2654435761u);
  const auto z_factor = hn::Set(du, dense ? n_corners * n_corners : 805459861u);
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
    split(tile.x, &x0, &fx);
    split(tile.y, &y0, &fy);
    split(tile.z, &z0, &fz);
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

// An entry is two floats, read as one 64-bit lane.
void HashEncodeForward(const HashEncodeForwardParams& params) {
  const HashGridShape& shape = *params.shape;
  const hn::ScalableTag<uint64_t> d64;
  const hn::RebindToSigned<decltype(d64)> di64;
  const hn::Repartition<float, decltype(d64)> df;
  const hn::Rebind<uint32_t, decltype(d64)> du32;  // as many 32-bit lanes as d64 has 64-bit ones
  const size_t lanes = hn::Lanes(d64);
  TilePositions tile;
  TileCorners corners;
  alignas(64) uint64_t gathered[kMaxHashLevels][kTile];
  for (int begin = 0; begin < params.n; begin += kTile) {
    const int n = std::min(kTile, params.n - begin);
    LoadTile(params.positions + begin, n, &tile);
    for (int level = 0; level < shape.n_levels; ++level) {
      FindCorners(shape, level, tile, &corners);
      const int64_t* entries =
          reinterpret_cast<const int64_t*>(params.table + size_t{2} * level * shape.entries());
      for (size_t i = 0; i < kTile; i += lanes) {
        auto sum = hn::Zero(df);
        for (int c = 0; c < kCorners; ++c) {
          const auto index = hn::PromoteTo(d64, hn::Load(du32, corners.entries[c] + i));
          const auto weight_bits = hn::PromoteTo(
              d64, hn::Load(du32, reinterpret_cast<const uint32_t*>(corners.weights[c] + i)));
          const auto weights = hn::BitCast(df, hn::Or(weight_bits, hn::ShiftLeft<32>(weight_bits)));
          const auto values =
              hn::BitCast(df, hn::GatherIndex(di64, entries, hn::BitCast(di64, index)));
          sum = hn::MulAdd(weights, values, sum);
        }
        hn::Store(hn::BitCast(d64, sum), d64, gathered[level] + i);
      }
    }
    for (int i = 0; i < n; ++i) {
      float* out = params.features + static_cast<size_t>(begin + i) * params.stride;
      for (int level = 0; level < shape.n_levels; ++level) {
        hwy::CopyBytes<8>(&gathered[level][i], out + 2 * level);
      }
    }
  }
}

void HashEncodeBackward(const HashEncodeBackwardParams& params) {
  const HashGridShape& shape = *params.shape;
  const hn::CappedTag<float, 2> d2;
  TilePositions tile;
  TileCorners corners;
  for (int begin = 0; begin < params.n; begin += kTile) {
    const int n = std::min(kTile, params.n - begin);
    LoadTile(params.positions + begin, n, &tile);
    FindCorners(shape, params.level, tile, &corners);
    for (int i = 0; i < n; ++i) {
      const auto grad =
          hn::LoadU(d2, params.grad_features + static_cast<size_t>(begin + i) * params.stride +
                            2 * params.level);
      for (int c = 0; c < kCorners; ++c) {
        const uint32_t entry = corners.entries[c][i];
        float* cell = params.grad_table + size_t{2} * entry;
        params.touched[entry / 8] = 1;
        hn::StoreU(hn::MulAdd(hn::Set(d2, corners.weights[c][i]), grad, hn::LoadU(d2, cell)), d2,
                   cell);
      }
    }
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(HashEncodeForward);
HWY_EXPORT(HashEncodeBackward);
namespace cpu {
void HashEncodeForward(const HashEncodeForwardParams& params) {
  HWY_DYNAMIC_DISPATCH(HashEncodeForward)(params);
}
void HashEncodeBackward(const HashEncodeBackwardParams& params) {
  HWY_DYNAMIC_DISPATCH(HashEncodeBackward)(params);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
