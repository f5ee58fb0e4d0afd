#pragma once

namespace nerf {

// The index of the item whose removal leaves the smallest gap in steps between its neighbors: an
// inner one, so that the first and the last stay. Items are messages in the order of their `step`.
// Requires: at least three.
template <typename Items>
int MostCrowded(const Items& items) {
  int found = 1;
  for (int i = 2; i + 1 < static_cast<int>(items.size()); ++i) {
    const auto gap = [&](int at) { return items[at + 1].step() - items[at - 1].step(); };
    if (gap(i) < gap(found)) found = i;
  }
  return found;
}

}  // namespace nerf
