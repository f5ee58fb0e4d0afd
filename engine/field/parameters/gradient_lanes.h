#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nerf {

// A step's work is divided among a fixed number of gradient lanes, each with a copy of the dense
// gradients (MLP weights) that its own work adds to. The lanes are summed by one fixed binary tree,
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)) ...
// so the sum has the same bits for any number of threads, and for any number of ranks that each
// compute a range of lanes.

// Lanes, chunks or rays [begin, end).
struct IndexRange {
  int begin = 0;
  int end = 0;
  bool operator==(const IndexRange&) const = default;
};

// Part `part` of n items that are divided into n_parts ranges as equally as possible, in order:
// the chunks of a lane, or the lanes of a rank.
IndexRange PartOf(int n, int part, int n_parts);

// Adds up lanes [n_lanes][size] in place as far as the tree allows with those of `range` alone.
// The sum of all lanes, range {0, n_lanes}, is then in lane 0.
void SumLanes(IndexRange range, int n_lanes, size_t size, float* lanes);

// The same sum of all lanes for their floats [begin, begin + n) alone, so that threads can share
// it.
void SumLaneSlice(int n_lanes, size_t size, size_t begin, size_t n, float* lanes);

// Where SumLanes leaves the sums of a range: at most two per level of the tree. Rising.
std::vector<int> LanesWithSums(IndexRange range, int n_lanes);

// Completes the sum in lane 0 when SumLanes was done for each of `ranges`, which together are
// [0, n_lanes), and the lanes of LanesWithSums are in place.
void SumRanges(const std::vector<IndexRange>& ranges, int n_lanes, size_t size, float* lanes);

}  // namespace nerf
