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

// A cell's eight corners are one row of 16 floats: corner c (bit 0 x, bit 1 y, bit 2 z) in lanes 2c
// and 2c + 1. Consecutive samples of a ray mostly share the cells of coarse levels, so corners are
// looked up only when the cell changes. Single loads beat gather instructions here: those are split
// into as many loads and more on every x86 core so far.
constexpr int kTile = 16;  // samples whose cells are found together
constexpr int kCorners = 8;
constexpr int kRow = 2 * kCorners;

using DRow = hn::CappedTag<float, kRow>;
using VRow = hn::Vec<DRow>;
constexpr size_t kVectors =
    kRow / HWY_MIN(static_cast<size_t>(HWY_MAX_BYTES / sizeof(float)), static_cast<size_t>(kRow));

// Which corner a lane belongs to: 1 where the corner lies on the far side along the axis.
alignas(64) constexpr float kFar[3][kRow] = {
    {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1},
    {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
};

// Positions of a tile as structure of arrays; the tail repeats the last sample.
struct TilePositions {
  alignas(64) float axis[3][kTile];
};

HWY_INLINE void LoadTile(const Vec3* positions, int n, TilePositions* tile) {
  for (int i = 0; i < kTile; ++i) {
    const Vec3 p = positions[HWY_MIN(i, n - 1)];
    tile->axis[0][i] = p.x;
    tile->axis[1][i] = p.y;
    tile->axis[2][i] = p.z;
  }
}

// Cells of a tile in one level, and where in its cell each sample lies, 0 to 1.
struct TileCells {
  alignas(64) int32_t cell[3][kTile];
  alignas(64) float fraction[3][kTile];
};

HWY_INLINE void FindCells(int resolution, const TilePositions& tile, TileCells* cells) {
  const hn::CappedTag<float, kTile> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto scale = hn::Set(df, static_cast<float>(resolution));
  const auto last_cell = hn::Set(df, static_cast<float>(resolution - 1));
  const auto zero = hn::Zero(df), one = hn::Set(df, 1.0f);
  for (int axis = 0; axis < 3; ++axis) {
    for (size_t i = 0; i < kTile; i += hn::Lanes(df)) {
      const auto position = hn::Min(hn::Max(hn::Load(df, tile.axis[axis] + i), zero), one);
      const auto scaled = hn::Mul(position, scale);
      const auto floor = hn::Min(hn::Floor(scaled), last_cell);
      hn::Store(hn::ConvertTo(di, floor), di, cells->cell[axis] + i);
      hn::Store(hn::Sub(scaled, floor), df, cells->fraction[axis] + i);
    }
  }
}

// Indexing of one level.
struct LevelIndex {
  bool dense;
  uint32_t y_factor, z_factor, mask;

  LevelIndex(const HashGridShape& shape, int level)
      : dense(shape.IsDense(level)), mask(shape.entries() - 1) {
    const uint32_t corners = shape.resolution[level] + 1;
    y_factor = dense ? corners : 2654435761u;
    z_factor = dense ? corners * corners : 805459861u;
  }
  HWY_INLINE void Entries(uint32_t x, uint32_t y, uint32_t z, uint32_t* entries) const {
    const uint32_t ys[2] = {y * y_factor, (y + 1) * y_factor};
    const uint32_t zs[2] = {z * z_factor, (z + 1) * z_factor};
    for (int c = 0; c < kCorners; ++c) {
      const uint32_t cx = x + (c & 1), cy = ys[(c >> 1) & 1], cz = zs[c >> 2];
      entries[c] = dense ? cx + cy + cz : (cx ^ cy ^ cz) & mask;
    }
  }
};

// Trilinear weights of a sample, each twice, in the vector that starts at lane `offset`.
HWY_INLINE VRow Weights(size_t offset, float fx, float fy, float fz) {
  const DRow d;
  const auto along = [&](int axis, float fraction) HWY_ATTR {
    // far ? fraction : 1 - fraction
    const auto far = hn::Load(d, kFar[axis] + offset);
    const auto slope = hn::Set(d, 2 * fraction - 1);
    return hn::MulAdd(far, slope, hn::Set(d, 1 - fraction));
  };
  return hn::Mul(hn::Mul(along(0, fx), along(1, fy)), along(2, fz));
}

// The cell that the corners at hand belong to.
struct CurrentCell {
  int32_t x = -1, y = -1, z = -1;
  HWY_INLINE bool Move(const TileCells& cells, int i) {
    if (cells.cell[0][i] == x && cells.cell[1][i] == y && cells.cell[2][i] == z) return false;
    x = cells.cell[0][i];
    y = cells.cell[1][i];
    z = cells.cell[2][i];
    return true;
  }
};

// One level of a tile: corner entries and weights, corner-major so that a vector holds one corner
// of several samples.
struct TileCorners {
  alignas(64) uint32_t entries[kCorners][kTile];
  alignas(64) float weights[kCorners][kTile];
};

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
  const DRow d;
  const hn::CappedTag<float, 2> d2;
  const hn::Repartition<uint64_t, DRow> d64;
  const size_t lanes = hn::Lanes(d);
  const LevelIndex index(*params.shape, params.level);
  const int resolution = params.shape->resolution[params.level];
  float* HWY_RESTRICT const table = params.grad_table;
  uint8_t* HWY_RESTRICT const touched = params.touched;
  TilePositions tile;
  TileCells cells;
  CurrentCell cell;
  VRow sums[kVectors];
  const auto flush = [&]() HWY_ATTR {
    if (cell.x < 0) return;
    uint32_t entries[kCorners];
    index.Entries(cell.x, cell.y, cell.z, entries);
    alignas(64) float row[kRow];
    for (size_t v = 0; v < kVectors; ++v) hn::Store(sums[v], d, row + v * lanes);
    for (int c = 0; c < kCorners; ++c) {
      float* at = table + size_t{2} * entries[c];
      hn::StoreU(hn::Add(hn::LoadU(d2, at), hn::LoadU(d2, row + 2 * c)), d2, at);
      touched[entries[c] / 8] = 1;
    }
  };
  for (int begin = 0; begin < params.n; begin += kTile) {
    const int n = std::min(kTile, params.n - begin);
    LoadTile(params.positions + begin, n, &tile);
    FindCells(resolution, tile, &cells);
    for (int i = 0; i < n; ++i) {
      const CurrentCell before = cell;
      if (cell.Move(cells, i)) {
        const CurrentCell now = cell;
        cell = before;
        flush();
        cell = now;
        for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
      }
      uint64_t pair;
      hwy::CopyBytes<8>(params.grad_features + static_cast<size_t>(begin + i) * params.stride,
                        &pair);
      const VRow grad = hn::BitCast(d, hn::Set(d64, pair));
      for (size_t v = 0; v < kVectors; ++v) {
        const VRow weights =
            Weights(v * lanes, cells.fraction[0][i], cells.fraction[1][i], cells.fraction[2][i]);
        sums[v] = hn::MulAdd(weights, grad, sums[v]);
      }
    }
  }
  flush();
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
