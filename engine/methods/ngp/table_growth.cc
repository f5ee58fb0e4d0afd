#include "engine/methods/ngp/table_growth.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/ngp_layers.h"

namespace nerf {
namespace {

using kernels::HashGridEntry;
using kernels::HashGridShape;

// A level that the larger table indexes directly, vertex by vertex.
void GrowDenseLevel(const HashGridShape& from, const HashGridShape& to, int level,
                    const float* source, float* target) {
  const int n_features = to.n_features;
  const auto corners = static_cast<uint32_t>(to.resolution[level]) + 1;
  const bool was_dense = from.IsDense(level);
  for (uint32_t z = 0; z < corners; ++z) {
    for (uint32_t y = 0; y < corners; ++y) {
      for (uint32_t x = 0; x < corners; ++x) {
        const size_t entry = HashGridEntry(x, y, z, corners, was_dense, from.entries() - 1);
        target = std::copy_n(source + entry * n_features, n_features, target);
      }
    }
  }
}

}  // namespace

HashGridShape ShapeOfStart(const TensorFile& file, const HashGridShape& shape) {
  const auto found = file.tensors.find(kHashTableName);
  if (found == file.tensors.end() || found->second.shape.size() != 3) return shape;
  const uint32_t entries = found->second.shape[1];
  if (!std::has_single_bit(entries) || entries > shape.entries()) return shape;
  HashGridShape held = shape;
  held.log2_hashmap_size = std::countr_zero(entries);
  return held;
}

Buffer<float> GrownTable(const HashGridShape& from, const HashGridShape& to,
                         const Buffer<float>& table) {
  NERF_CHECK(from.log2_hashmap_size <= to.log2_hashmap_size);
  NERF_CHECK(table.size() == from.level_size() * from.n_levels);
  Buffer<float> grown(to.level_size() * to.n_levels);
  for (int level = 0; level < to.n_levels; ++level) {
    const float* const source = table.data() + from.level_size() * level;
    float* const target = grown.data() + to.level_size() * level;
    if (to.IsDense(level)) {
      GrowDenseLevel(from, to, level, source, target);
      continue;
    }
    for (size_t begin = 0; begin < to.level_size(); begin += from.level_size())
      std::copy_n(source, from.level_size(), target + begin);
  }
  return grown;
}

}  // namespace nerf
