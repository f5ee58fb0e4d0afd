#include "engine/field/parameters/gradient_lanes.h"

#include <algorithm>

namespace nerf {
namespace {

// Floats of each lane that are summed at once, so that 32 lanes of them fit the L2 cache.
constexpr size_t kBlock = 1024;

// One addition of the tree: lane `to` += lane `from`, which together cover lanes [to, end).
struct Addition {
  int to, from, end;
  bool IsWithin(IndexRange range) const { return to >= range.begin && end <= range.end; }
};

std::vector<Addition> Tree(int n_lanes) {
  std::vector<Addition> tree;
  for (int stride = 1; stride < n_lanes; stride *= 2) {
    for (int to = 0; to + stride < n_lanes; to += 2 * stride)
      tree.push_back({to, to + stride, std::min(to + 2 * stride, n_lanes)});
  }
  return tree;
}

// The inner loop has a constant length, so that -O2 vectorizes it.
void AddFloats(const float* __restrict from, size_t n, float* __restrict to) {
  constexpr size_t kUnrolled = 16;
  size_t i = 0;
  for (; i + kUnrolled <= n; i += kUnrolled) {
    for (size_t j = i; j < i + kUnrolled; ++j) to[j] += from[j];
  }
  for (; i < n; ++i) to[i] += from[i];
}

// Of the floats [first, end) of each lane.
void Add(const std::vector<Addition>& additions, size_t size, size_t first, size_t end,
         float* lanes) {
  for (size_t begin = first; begin < end; begin += kBlock) {
    const size_t n = std::min(kBlock, end - begin);
    for (const Addition& addition : additions) {
      AddFloats(lanes + size * addition.from + begin, n, lanes + size * addition.to + begin);
    }
  }
}

}  // namespace

IndexRange PartOf(int n, int part, int n_parts) {
  const auto first = [&](int64_t p) { return static_cast<int>((p * n + n_parts - 1) / n_parts); };
  return {first(part), first(part + 1)};
}

void SumLanes(IndexRange range, int n_lanes, size_t size, float* lanes) {
  std::vector<Addition> within = Tree(n_lanes);
  std::erase_if(within, [&](const Addition& a) { return !a.IsWithin(range); });
  Add(within, size, 0, size, lanes);
}

void SumLaneSlice(int n_lanes, size_t size, size_t begin, size_t n, float* lanes) {
  Add(Tree(n_lanes), size, begin, begin + n, lanes);
}

std::vector<int> LanesWithSums(IndexRange range, int n_lanes) {
  std::vector<int> lanes;
  for (int lane = range.begin; lane < range.end; ++lane) lanes.push_back(lane);
  for (const Addition& addition : Tree(n_lanes)) {
    if (addition.IsWithin(range)) std::erase(lanes, addition.from);
  }
  return lanes;
}

void SumRanges(const std::vector<IndexRange>& ranges, int n_lanes, size_t size, float* lanes) {
  std::vector<Addition> between = Tree(n_lanes);
  for (const IndexRange& range : ranges)
    std::erase_if(between, [&](const Addition& a) { return a.IsWithin(range); });
  Add(between, size, 0, size, lanes);
}

}  // namespace nerf
