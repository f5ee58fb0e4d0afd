#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/field/parameters/gradient_lanes.h"
#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/line_counts.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/train/group/group.h"

namespace nerf {

// What the ranks of a group send each other in a step of method ngp on the CPU, so that any number
// of them trains the bytes of one. Each rank computes a range of the gradient lanes and owns some
// levels of the hash table with their moments and averages. Instead of the table's gradients ranks
// send those of samples: 12 bytes of position for every sample and, to a level's owner, 4 bytes per
// feature. Owners send back the cache lines that Adam changed, as the encoding reads them.
class NgpRankExchange {
 public:
  // group outlives the exchange; null: this process alone, which then owns everything. n_cells: of
  // the occupancy grid.
  NgpRankExchange(Group* group, const kernels::HashGridShape& shape, size_t n_cells);

  Group* group() const { return group_; }
  bool alone() const { return group_ == nullptr; }
  // The lanes that this rank computes.
  IndexRange lanes() const { return ranges_[rank_]; }
  // Its levels of the table, rising.
  const std::vector<int>& levels() const { return levels_; }

  // Before the update. Throws GroupError for a message that does not fit, also one with a cell
  // outside the grid. `lanes` are all of them, of which this rank has computed its own. Afterwards
  // every lane has its counts, losses and grid cells, and of this rank's levels below n_active the
  // samples; lane 0 of `parameters` has the sum of the MLPs' gradients. Does nothing alone.
  void ExchangeLanes(int n_active, std::span<LaneOutput> lanes, NgpParameters* parameters);

  // Every rank's part of `views` and `values`, rays_of(its lanes), to every other rank, which knows
  // neither: ranks draw their own pixels alone. Throws GroupError, also for a view that is not
  // below n_views. Does nothing alone.
  void ExchangeRays(std::span<int32_t> views, std::span<Vec3> values, size_t n_views,
                    const std::function<IndexRange(IndexRange lanes)>& rays_of);

  // After Adam has updated this rank's levels below n_active: changed[i] lists the cache lines that
  // it visited in levels()[i], rising. Brings the lines of other ranks' levels here. Adds all
  // that changed to `counts` unless that is null. Alone it does no more than that.
  void ExchangeLines(int n_active, std::span<const std::vector<uint32_t>> changed,
                     NgpParameters* parameters, NgpLineCounts* counts);

  // Bytes that rank 0 of n_ranks receives in a step of these counts: of all ranks' samples, and
  // changed lines of each level of the table.
  struct Counts {
    double n_trained = 0, n_marched = 0;
    int n_active = 0;
    std::array<double, kernels::kMaxHashLevels> n_lines = {};
  };
  static double BytesReceived(const Counts& counts, const kernels::HashGridShape& shape,
                              size_t line_bytes, int n_ranks);

  // Brings the whole state of other ranks' levels here. Throws GroupError if the ranks' weights of
  // the MLPs differ, as all of these do.
  void CollectLevels(NgpParameters* parameters);

 private:
  void WriteLanes(int to, int n_active, std::span<const LaneOutput> lanes,
                  NgpParameters* parameters);
  void ReadLanes(int from, int n_active, std::span<LaneOutput> lanes, NgpParameters* parameters);
  bool Owns(int rank, int level) const { return level % n_ranks_ == rank; }

  Group* const group_;
  const kernels::HashGridShape shape_;
  const size_t n_cells_;
  const int rank_, n_ranks_;
  std::vector<IndexRange> ranges_;  // of lanes, of each rank
  std::vector<int> levels_;
  std::vector<ByteBlock> out_, in_;  // of each rank
  ByteBlock lines_;
};

}  // namespace nerf
