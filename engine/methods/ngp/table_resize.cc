#include "engine/methods/ngp/table_resize.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/layouts/ngp_layers.h"

namespace nerf {
namespace {

using kernels::HashGridEntry;
using kernels::HashGridShape;

// Calls visit(entry in `from`, entry in `to`) for each vertex of a level, x fastest.
template <typename Visit>
void ForEachVertex(const HashGridShape& from, const HashGridShape& to, int level, Visit visit) {
  const auto corners = static_cast<uint32_t>(to.resolution[level]) + 1;
  const bool was_dense = from.IsDense(level), is_dense = to.IsDense(level);
  for (uint32_t z = 0; z < corners; ++z) {
    for (uint32_t y = 0; y < corners; ++y) {
      for (uint32_t x = 0; x < corners; ++x) {
        visit(HashGridEntry(x, y, z, corners, was_dense, from.entries() - 1),
              HashGridEntry(x, y, z, corners, is_dense, to.entries() - 1));
      }
    }
  }
}

// The entries of a level of a smaller table, as means of those of the larger one.
class WeightedMeans {
 public:
  WeightedMeans(std::span<float> means, int n_features)
      : means_(means), n_features_(n_features), weights_(means.size() / n_features) {}

  void Add(const float* features, size_t entry) {
    float weight = 0;
    for (int f = 0; f < n_features_; ++f) weight += features[f] * features[f];
    float* const sums = &means_[entry * n_features_];
    for (int f = 0; f < n_features_; ++f) sums[f] += weight * features[f];
    weights_[entry] += weight;
  }
  void Divide() {
    for (size_t entry = 0; entry < weights_.size(); ++entry) {
      if (weights_[entry] == 0) continue;
      for (int f = 0; f < n_features_; ++f) means_[entry * n_features_ + f] /= weights_[entry];
    }
  }

 private:
  const std::span<float> means_;
  const int n_features_;
  std::vector<float> weights_;
};

// A level that does not fit into the smaller table vertex by vertex.
void ShrinkHashedLevel(const HashGridShape& from, const HashGridShape& to, int level,
                       const float* source, std::span<float> target) {
  const int n_features = to.n_features;
  WeightedMeans means(target, n_features);
  const auto add = [&](size_t held, size_t entry) { means.Add(source + held * n_features, entry); };
  if (from.IsDense(level)) {
    ForEachVertex(from, to, level, add);
  } else {
    for (size_t entry = 0; entry < from.entries(); ++entry) add(entry, entry & (to.entries() - 1));
  }
  means.Divide();
}

}  // namespace

HashGridShape ShapeOfStart(const TensorFile& file, const HashGridShape& shape) {
  const auto found = file.tensors.find(kHashTableName);
  if (found == file.tensors.end() || found->second.shape.size() != 3) return shape;
  const uint32_t entries = found->second.shape[1];
  if (!std::has_single_bit(entries)) return shape;
  HashGridShape held = shape;
  held.log2_hashmap_size = std::countr_zero(entries);
  return held;
}

Buffer<float> ResizedTable(const HashGridShape& from, const HashGridShape& to,
                           const Buffer<float>& table) {
  NERF_CHECK(table.size() == from.level_size() * from.n_levels);
  const auto n_features = static_cast<size_t>(to.n_features);
  Buffer<float> resized(to.level_size() * to.n_levels);
  for (int level = 0; level < to.n_levels; ++level) {
    const float* const source = table.data() + from.level_size() * level;
    const std::span<float> target =
        resized.span().subspan(to.level_size() * level, to.level_size());
    if (to.IsDense(level)) {
      ForEachVertex(from, to, level, [&](size_t held, size_t entry) {
        std::copy_n(source + held * n_features, n_features, &target[entry * n_features]);
      });
    } else if (from.entries() > to.entries()) {
      ShrinkHashedLevel(from, to, level, source, target);
    } else {
      for (size_t begin = 0; begin < to.level_size(); begin += from.level_size())
        std::copy_n(source, from.level_size(), target.data() + begin);
    }
  }
  return resized;
}

}  // namespace nerf
