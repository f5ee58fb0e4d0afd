#include "engine/methods/voxels/voxel_grid.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace nerf {
namespace {

// Adds to a whole voxel, padding included. The loop has a constant length, so that -O2 vectorizes
// it.
void AddWeightedVoxel(const float* __restrict voxel, float weight, float* __restrict sums) {
  for (int c = 0; c < kVoxelStride; ++c) sums[c] += weight * voxel[c];
}

void AddDifference(const float* __restrict here, const float* __restrict there,
                   const float* __restrict factors, float* __restrict gradient) {
  for (int c = 0; c < kVoxelStride; ++c) gradient[c] += factors[c] * (here[c] - there[c]);
}

}  // namespace

VoxelGrid::VoxelGrid(int resolution)
    : VoxelGrid(resolution, std::vector<bool>(static_cast<size_t>(resolution / 4) *
                                              (resolution / 4) * (resolution / 4))) {}

VoxelGrid::VoxelGrid(int resolution, const std::vector<bool>& mask)
    : resolution_(resolution), bricks_(mask.size(), -1) {
  const auto side = static_cast<size_t>(bricks_per_side());
  NERF_CHECK(resolution % 4 == 0 && mask.size() == side * side * side);
  for (size_t place = 0; place < mask.size(); ++place) {
    if (!mask[place]) continue;
    bricks_[place] = static_cast<int32_t>(places_.size());
    places_.push_back(static_cast<uint32_t>(place));
  }
  values_ = Buffer<float>(places_.size() * kBrickFloats);
}

void VoxelGrid::Interpolate(Vec3 unit, float* row) const {
  const VoxelCorners corners = CornersOf(unit);
  std::fill_n(row, kVoxelStride, 0.0f);
  for (int i = 0; i < 8; ++i) {
    const ptrdiff_t offset =
        OffsetOf(corners.Along(i, 0), corners.Along(i, 1), corners.Along(i, 2));
    const float weight = corners.Weight(i);
    if (offset < 0) {
      row[0] += weight * kEmptyExponent;
      continue;
    }
    AddWeightedVoxel(values_.data() + offset, weight, row);
  }
}

float VoxelGrid::Exponent(Vec3 unit) const {
  const VoxelCorners corners = CornersOf(unit);
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    const ptrdiff_t offset =
        OffsetOf(corners.Along(i, 0), corners.Along(i, 1), corners.Along(i, 2));
    sum += corners.Weight(i) * (offset < 0 ? kEmptyExponent : values_[offset]);
  }
  return sum;
}

VoxelGrid Copy(const VoxelGrid& grid) {
  VoxelGrid copy;
  copy.resolution_ = grid.resolution_;
  copy.bricks_ = grid.bricks_;
  copy.places_ = grid.places_;
  copy.values_ = Buffer<float>(grid.values_.size());
  std::copy(grid.values_.begin(), grid.values_.end(), copy.values_.begin());
  return copy;
}

std::vector<bool> OccupiedBricks(const OccupancyGrid& occupancy, int resolution) {
  const int side = resolution / 4;
  std::vector<bool> mask(static_cast<size_t>(side) * side * side);
  const float bricks_per_unit = static_cast<float>(side);
  const float margin = 1.0f / static_cast<float>(resolution);  // a voxel
  for (int level = 0; level < occupancy.n_levels; ++level) {
    // The side of the level's box, where the outermost box is the unit cube.
    const float size = std::ldexp(1.0f, level - (occupancy.n_levels - 1));
    const float first = 0.5f - 0.5f * size;
    const float cell = size / static_cast<float>(occupancy.resolution);
    const auto brick_at = [&](float unit) {
      return std::clamp(static_cast<int>(std::floor(unit * bricks_per_unit)), 0, side - 1);
    };
    std::vector<int> low(occupancy.resolution), high(occupancy.resolution);
    for (int i = 0; i < occupancy.resolution; ++i) {
      low[i] = brick_at(first + static_cast<float>(i) * cell - margin);
      high[i] = brick_at(first + static_cast<float>(i + 1) * cell + margin);
    }
    for (int z = 0; z < occupancy.resolution; ++z) {
      for (int y = 0; y < occupancy.resolution; ++y) {
        for (int x = 0; x < occupancy.resolution; ++x) {
          if (!occupancy.Occupied(level, x, y, z)) continue;
          for (int bz = low[z]; bz <= high[z]; ++bz) {
            for (int by = low[y]; by <= high[y]; ++by) {
              for (int bx = low[x]; bx <= high[x]; ++bx)
                mask[(static_cast<size_t>(bz) * side + by) * side + bx] = true;
            }
          }
        }
      }
    }
  }
  return mask;
}

VoxelGrid Resampled(const VoxelGrid& grid, int resolution, const std::vector<bool>& mask) {
  VoxelGrid resampled(resolution, mask);
  const int side = resampled.bricks_per_side();
  const float voxel = 1.0f / static_cast<float>(resolution);
  for (size_t b = 0; b < resampled.n_bricks(); ++b) {
    const auto place = static_cast<int>(resampled.places()[b]);
    const int x = place % side * 4, y = place / side % side * 4, z = place / (side * side) * 4;
    for (int v = 0; v < kBrickVoxels; ++v) {
      const Vec3 center{static_cast<float>(x + (v & 3)) + 0.5f,
                        static_cast<float>(y + ((v >> 2) & 3)) + 0.5f,
                        static_cast<float>(z + (v >> 4)) + 0.5f};
      grid.Interpolate(center * voxel,
                       resampled.values().data() + b * kBrickFloats + v * kVoxelStride);
    }
  }
  return resampled;
}

void AddVariationGradient(const VoxelGrid& grid, size_t begin, size_t end,
                          const VariationWeights& weights, float scale, float* gradients) {
  const int side = grid.bricks_per_side();
  const float* const values = grid.values().data();
  float factors[kVoxelStride] = {};
  std::fill_n(factors, kVoxelFloats, 2 * scale * weights.color);
  factors[0] = 2 * scale * weights.density;
  for (size_t b = begin; b < end; ++b) {
    const auto place = static_cast<int>(grid.places()[b]);
    const int corner[3] = {place % side * 4, place / side % side * 4, place / (side * side) * 4};
    for (int v = 0; v < kBrickVoxels; ++v) {
      const int at[3] = {corner[0] + (v & 3), corner[1] + ((v >> 2) & 3), corner[2] + (v >> 4)};
      const float* const here = values + b * kBrickFloats + v * kVoxelStride;
      float* const gradient = gradients + b * kBrickFloats + v * kVoxelStride;
      for (int i = 0; i < 6; ++i) {
        int next[3] = {at[0], at[1], at[2]};
        next[i / 2] += i % 2 == 0 ? -1 : 1;
        if (next[i / 2] < 0 || next[i / 2] == grid.resolution()) continue;
        const ptrdiff_t offset = grid.OffsetOf(next[0], next[1], next[2]);
        if (offset < 0) continue;
        AddDifference(here, values + offset, factors, gradient);
      }
    }
  }
}

}  // namespace nerf
