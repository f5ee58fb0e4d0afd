#include "engine/field/occupancy_grid.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "engine/base/check.h"
#include "engine/field/kernels/occupancy_update.h"

namespace nerf {

using kernels::kMaxEmptyDistance;

bool OccupancyGrid::Occupied(int level, int x, int y, int z) const {
  const size_t side = resolution / 4;
  const size_t block = ((level * side + z / 4) * side + y / 4) * side + x / 4;
  return (occupied_blocks[block] >> (x % 4 + 4 * (y % 4) + 16 * (z % 4))) & 1;
}

double OccupancyGrid::OccupiedFraction() const {
  if (occupied_blocks.empty()) return 0;
  int64_t n_occupied = 0;
  for (uint64_t block : occupied_blocks) n_occupied += std::popcount(block);
  return static_cast<double>(n_occupied) / (64.0 * occupied_blocks.size());
}

Aabb OccupancyGrid::OccupiedBox() const {
  int low[3] = {resolution, resolution, resolution}, high[3] = {-1, -1, -1};
  for (int z = 0; z < resolution; ++z) {
    for (int y = 0; y < resolution; ++y) {
      for (int x = 0; x < resolution; ++x) {
        if (!Occupied(0, x, y, z)) continue;
        const int cell[3] = {x, y, z};
        for (int axis = 0; axis < 3; ++axis) {
          low[axis] = std::min(low[axis], cell[axis]);
          high[axis] = std::max(high[axis], cell[axis]);
        }
      }
    }
  }
  if (high[0] < 0) return box;
  Aabb occupied;
  for (int axis = 0; axis < 3; ++axis) {
    const float cell_size = box.Size()[axis] / resolution;
    occupied.min[axis] = box.min[axis] + low[axis] * cell_size;
    occupied.max[axis] = box.min[axis] + (high[axis] + 1) * cell_size;
  }
  return occupied;
}

// Two sweeps, each over the 13 neighbors that lie before a block in its direction; the 12 of other
// rows come a row at a time, which compilers vectorize.
std::vector<uint8_t> EmptyDistances(const OccupancyGrid& grid) {
  const int side = grid.resolution / 4;
  const size_t level_blocks = static_cast<size_t>(side) * side * side;
  std::vector<uint8_t> reaches(grid.n_levels * level_blocks);
  // Includes a border of one block, so that every block has 26 neighbors.
  const ptrdiff_t row = side + 2, plane = row * row;
  std::vector<uint8_t> padded(static_cast<size_t>(plane * row));
  std::vector<uint8_t> nearest(row);
  // Lowers the row of blocks that begins at `place` by its neighbors of four other rows, which lie
  // before it, or after it where sign is -1.
  const auto lower_by_rows = [&](uint8_t* place, ptrdiff_t sign) {
    const uint8_t* const same_plane = place - sign * row - 1;
    const uint8_t* const other_plane = place - sign * plane - 1;
    for (ptrdiff_t x = 0; x < row; ++x) {
      nearest[x] =
          std::min({same_plane[x], other_plane[x - row], other_plane[x], other_plane[x + row]});
    }
    for (ptrdiff_t x = 0; x < side; ++x) {
      const uint8_t least = std::min({nearest[x], nearest[x + 1], nearest[x + 2]});
      place[x] = std::min<uint8_t>(place[x], least + 1);
    }
  };
  for (int level = 0; level < grid.n_levels; ++level) {
    const uint64_t* blocks = grid.occupied_blocks.data() + level * level_blocks;
    const bool is_outermost = level == grid.n_levels - 1;
    std::fill(padded.begin(), padded.end(), is_outermost ? kMaxEmptyDistance : 0);
    const auto row_at = [&](int z, int y) {
      return padded.data() + (z + 1) * plane + (y + 1) * row + 1;
    };
    for (int z = 0; z < side; ++z) {
      for (int y = 0; y < side; ++y) {
        uint8_t* const place = row_at(z, y);
        const size_t first = (static_cast<size_t>(z) * side + y) * side;
        for (int x = 0; x < side; ++x) {
          const bool ends = blocks[first + x] != 0 ||
                            kernels::IsCoveredBlock(level, first + x, static_cast<uint32_t>(side));
          place[x] = ends ? 0 : kMaxEmptyDistance;
        }
        lower_by_rows(place, 1);
        for (int x = 0; x < side; ++x) place[x] = std::min<uint8_t>(place[x], place[x - 1] + 1);
      }
    }
    for (int z = side; z-- > 0;) {
      for (int y = side; y-- > 0;) {
        uint8_t* const place = row_at(z, y);
        lower_by_rows(place, -1);
        for (int x = side; x-- > 0;) place[x] = std::min<uint8_t>(place[x], place[x + 1] + 1);
        std::copy_n(
            place, side,
            reaches.begin() + static_cast<ptrdiff_t>(level * level_blocks +
                                                     (static_cast<size_t>(z) * side + y) * side));
      }
    }
  }
  return reaches;
}

kernels::MarchGrid MarchGridOf(const OccupancyGrid& grid,
                               std::span<const uint8_t> empty_distances) {
  return {.blocks = grid.occupied_blocks.data(),
          .center = grid.box.Center(),
          .half_side = 0.5f * grid.box.Size().x,
          .n_levels = grid.n_levels,
          .resolution = grid.resolution,
          .empty_distances = empty_distances.empty() ? nullptr : empty_distances.data()};
}

OccupancyGrid FullOccupancyGrid(const Aabb& box, int n_levels, int resolution) {
  NERF_CHECK(resolution % 4 == 0 && n_levels >= 1);
  OccupancyGrid grid{box, n_levels, resolution, {}};
  const size_t side = resolution / 4;
  grid.occupied_blocks.assign(n_levels * side * side * side, ~uint64_t{0});
  return grid;
}

}  // namespace nerf
