#include "engine/export/splats/packed_splats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace nerf {
namespace {

constexpr int kOrderBits = 21;  // of each coordinate

// Puts two zeros between the bits of a number.
uint64_t Spread(uint64_t bits) {
  uint64_t spread = 0;
  for (int i = 0; i < kOrderBits; ++i) spread |= (bits >> i & 1) << (3 * i);
  return spread;
}

}  // namespace

std::vector<FileSplat> SplatsInOrder(const FileSplats& splats) {
  std::vector<FileSplat> all;
  all.reserve(splats.size());
  for (size_t i = 0; i < splats.size(); ++i) all.push_back(splats.At(i));
  Vec3 low{INFINITY, INFINITY, INFINITY};
  float side = 0;
  for (const FileSplat& splat : all) {
    for (int axis = 0; axis < 3; ++axis) low[axis] = std::min(low[axis], splat.position[axis]);
  }
  for (const FileSplat& splat : all) {
    for (int axis = 0; axis < 3; ++axis) side = std::max(side, splat.position[axis] - low[axis]);
  }
  const double steps = side > 0 ? ((1 << kOrderBits) - 1) / static_cast<double>(side) : 0;
  std::vector<std::pair<uint64_t, uint32_t>> order;
  order.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    uint64_t code = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const double step = steps * static_cast<double>(all[i].position[axis] - low[axis]);
      code |= Spread(static_cast<uint64_t>(step)) << axis;
    }
    order.emplace_back(code, static_cast<uint32_t>(i));
  }
  std::sort(order.begin(), order.end());
  std::vector<FileSplat> sorted;
  sorted.reserve(all.size());
  for (const auto& [code, i] : order) sorted.push_back(all[i]);
  return sorted;
}

SmallestThree SmallestThreeOf(const float (&q)[4]) {
  SmallestThree packed;
  for (int i = 1; i < 4; ++i) {
    if (std::abs(q[i]) > std::abs(q[packed.largest])) packed.largest = i;
  }
  const float sign = q[packed.largest] < 0 ? -1.0f : 1.0f;
  for (int i = 0, kept = 0; i < 4; ++i) {
    if (i != packed.largest) packed.rest[kept++] = sign * q[i];
  }
  return packed;
}

}  // namespace nerf
