#include "engine/field/occupancy_grid.h"

#include <bit>

#include "engine/base/check.h"

namespace nerf {

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

std::vector<uint64_t> OccupiedSuperblocks(const OccupancyGrid& grid) {
  if (grid.resolution % (grid.n_levels > 1 ? 64 : 16) != 0) return {};
  const size_t side = grid.resolution / 4, superside = side / 4;
  std::vector<uint64_t> superblocks((grid.n_levels * superside * superside * superside + 63) / 64);
  // Blocks lie in rows of z, y and level; four of a row share a superblock.
  for (size_t row = 0; row < grid.n_levels * side * side; ++row) {
    const size_t y = row % side, z_and_level = row / side;
    const uint64_t* blocks = grid.occupied_blocks.data() + row * side;
    for (size_t x = 0; x < superside; ++x) {
      const uint64_t any =
          blocks[4 * x] | blocks[4 * x + 1] | blocks[4 * x + 2] | blocks[4 * x + 3];
      const size_t i = (z_and_level / 4 * superside + y / 4) * superside + x;
      superblocks[i / 64] |= uint64_t{any != 0} << (i % 64);
    }
  }
  return superblocks;
}

OccupancyGrid FullOccupancyGrid(const Aabb& box, int n_levels, int resolution) {
  NERF_CHECK(resolution % 4 == 0 && n_levels >= 1);
  OccupancyGrid grid{box, n_levels, resolution, {}};
  const size_t side = resolution / 4;
  grid.occupied_blocks.assign(n_levels * side * side * side, ~uint64_t{0});
  return grid;
}

}  // namespace nerf
