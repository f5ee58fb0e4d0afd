#pragma once

#include <cstddef>
#include <vector>

namespace nerf {

// The index of the item whose removal leaves the smallest gap in steps between its neighbors: an
// inner one, so that the first and the last stay. Items are in the order of their `step`. Requires:
// at least three.
template <typename Item>
size_t MostCrowded(const std::vector<Item>& items) {
  size_t found = 1;
  for (size_t i = 2; i + 1 < items.size(); ++i) {
    const auto gap = [&](size_t at) { return items[at + 1].step - items[at - 1].step; };
    if (gap(i) < gap(found)) found = i;
  }
  return found;
}

}  // namespace nerf
