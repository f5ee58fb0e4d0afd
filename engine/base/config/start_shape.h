#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/config/tensor_shape.h"

namespace nerf {

inline constexpr uint32_t kMaxTableEntries = uint32_t{1} << 22;  // the most that settings allow

// Whether a start's tensor of shape `held` can initialize `wanted`: it has the same shape, or is a
// hash table of another number of entries, a power of two, which grows or shrinks.
inline bool ShapeFitsStart(std::vector<uint32_t> held, const TensorShape& wanted) {
  constexpr size_t kEntries = 1;  // axis
  const bool is_table = std::string_view(wanted.name).ends_with("field.hash_table");
  if (is_table && held.size() == 3 && wanted.shape.size() == 3 &&
      std::has_single_bit(held[kEntries]) && held[kEntries] <= kMaxTableEntries) {
    held[kEntries] = wanted.shape[kEntries];
  }
  return held == wanted.shape;
}

}  // namespace nerf
