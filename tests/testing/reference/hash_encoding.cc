#include "tests/testing/reference/hash_encoding.h"

#include <algorithm>
#include <cmath>

namespace nerf::reference {
namespace {

uint32_t Entry(const kernels::HashGridShape& shape, int level, const uint32_t (&corner)[3]) {
  const uint64_t side = static_cast<uint64_t>(shape.resolution[level]) + 1;
  const uint64_t n_entries = uint64_t{1} << shape.log2_hashmap_size;
  if (side * side * side <= n_entries) {
    return static_cast<uint32_t>((corner[2] * side + corner[1]) * side + corner[0]);
  }
  const uint32_t hash = corner[0] * 1u ^ corner[1] * 2654435761u ^ corner[2] * 805459861u;
  return static_cast<uint32_t>(hash % n_entries);
}

}  // namespace

std::vector<HashCorner> HashCorners(const kernels::HashGridShape& shape, int level, Vec3 position) {
  uint32_t low[3];
  double fraction[3];
  for (int axis = 0; axis < 3; ++axis) {
    const double scaled =
        std::clamp(static_cast<double>(position[axis]), 0.0, 1.0) * shape.resolution[level];
    low[axis] = static_cast<uint32_t>(
        std::min(std::floor(scaled), static_cast<double>(shape.resolution[level] - 1)));
    fraction[axis] = scaled - low[axis];
  }
  std::vector<HashCorner> corners;
  for (uint32_t z = 0; z < 2; ++z) {
    for (uint32_t y = 0; y < 2; ++y) {
      for (uint32_t x = 0; x < 2; ++x) {
        const double weight = (x ? fraction[0] : 1 - fraction[0]) *
                              (y ? fraction[1] : 1 - fraction[1]) *
                              (z ? fraction[2] : 1 - fraction[2]);
        corners.push_back({Entry(shape, level, {low[0] + x, low[1] + y, low[2] + z}), weight});
      }
    }
  }
  return corners;
}

std::vector<double> HashEncodeForward(const kernels::HashGridShape& shape,
                                      std::span<const double> table,
                                      std::span<const Vec3> positions) {
  std::vector<double> features;
  const size_t n_features = shape.n_features;
  const size_t level_size = n_features << shape.log2_hashmap_size;
  for (const Vec3& position : positions) {
    for (int level = 0; level < shape.n_levels; ++level) {
      double sum[4] = {};
      for (const HashCorner& corner : HashCorners(shape, level, position)) {
        for (size_t f = 0; f < n_features; ++f)
          sum[f] += corner.weight * table[level_size * level + n_features * corner.entry + f];
      }
      features.insert(features.end(), sum, sum + n_features);
    }
  }
  return features;
}

std::vector<double> HashEncodeBackward(const kernels::HashGridShape& shape,
                                       std::span<const Vec3> positions,
                                       std::span<const double> grad_features) {
  const size_t n_features = shape.n_features;
  const size_t level_size = n_features << shape.log2_hashmap_size;
  std::vector<double> grad_table(level_size * shape.n_levels);
  for (size_t i = 0; i < positions.size(); ++i) {
    for (int level = 0; level < shape.n_levels; ++level) {
      for (const HashCorner& corner : HashCorners(shape, level, positions[i])) {
        for (size_t f = 0; f < n_features; ++f) {
          grad_table[level_size * level + n_features * corner.entry + f] +=
              corner.weight * grad_features[(i * shape.n_levels + level) * n_features + f];
        }
      }
    }
  }
  return grad_table;
}

}  // namespace nerf::reference
