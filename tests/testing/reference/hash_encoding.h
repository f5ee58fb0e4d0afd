#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/vec3.h"
#include "engine/field/kernels/hash_encoding.h"

namespace nerf::reference {

// One corner of the cell that a point lies in: its entry in the level's table and its trilinear
// weight.
struct HashCorner {
  uint32_t entry;
  double weight;
};
// The eight corners. Source: Mueller et al. 2022, section 3, eq. 4.
std::vector<HashCorner> HashCorners(const kernels::HashGridShape& shape, int level, Vec3 position);

// [n][n_levels * n_features] features of the positions.
std::vector<double> HashEncodeForward(const kernels::HashGridShape& shape,
                                      std::span<const double> table,
                                      std::span<const Vec3> positions);

// [n_levels][entries][n_features] gradient of sum(grad_features * features) by the table.
std::vector<double> HashEncodeBackward(const kernels::HashGridShape& shape,
                                       std::span<const Vec3> positions,
                                       std::span<const double> grad_features);

}  // namespace nerf::reference
