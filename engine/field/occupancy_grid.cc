#include "engine/field/occupancy_grid.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "engine/base/check.h"
#include "engine/kernels/occupancy_update.h"

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

std::vector<uint8_t> EmptyDistances(const OccupancyGrid& grid) {
  const int side = grid.resolution / 4;
  const size_t level_blocks = static_cast<size_t>(side) * side * side;
  std::vector<uint8_t> reaches(grid.n_levels * level_blocks);
  // Includes a border of one block, so that every block has 26 neighbors.
  const ptrdiff_t row = side + 2, plane = row * row;
  std::vector<uint8_t> padded(static_cast<size_t>(plane * row));
  // Neighbors before a block in memory; those after it are the mirror image.
  std::vector<ptrdiff_t> before;
  for (ptrdiff_t z = -1; z <= 1; ++z) {
    for (ptrdiff_t y = -1; y <= 1; ++y) {
      for (ptrdiff_t x = -1; x <= 1; ++x) {
        if (z * plane + y * row + x < 0) before.push_back(z * plane + y * row + x);
      }
    }
  }
  const auto place_of = [&](size_t block) {
    const auto i = static_cast<ptrdiff_t>(block);
    return (i / (side * side) + 1) * plane + (i / side % side + 1) * row + i % side + 1;
  };
  for (int level = 0; level < grid.n_levels; ++level) {
    const uint64_t* blocks = grid.occupied_blocks.data() + level * level_blocks;
    const bool is_outermost = level == grid.n_levels - 1;
    std::fill(padded.begin(), padded.end(), is_outermost ? kMaxEmptyDistance : 0);
    for (size_t i = 0; i < level_blocks; ++i) {
      const bool ends =
          blocks[i] != 0 || kernels::IsCoveredBlock(level, i, static_cast<uint32_t>(side));
      uint8_t* place = padded.data() + place_of(i);
      int reach = ends ? 0 : kMaxEmptyDistance;
      for (const ptrdiff_t offset : before) reach = std::min(reach, place[offset] + 1);
      *place = static_cast<uint8_t>(reach);
    }
    for (size_t i = level_blocks; i-- > 0;) {
      uint8_t* place = padded.data() + place_of(i);
      int reach = *place;
      for (const ptrdiff_t offset : before) reach = std::min(reach, place[-offset] + 1);
      *place = reaches[level * level_blocks + i] = static_cast<uint8_t>(reach);
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
