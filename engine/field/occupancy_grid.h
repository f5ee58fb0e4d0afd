#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/aabb.h"
#include "engine/field/kernels/ray_marching.h"

namespace nerf {

// Which cells of space may hold something: nested boxes (level l is the level-0 box scaled by 2^l
// about its center), each of resolution^3 cells, one bit a cell. Bits are stored in blocks of 4x4x4
// cells, one 64-bit word a block (bit x + 4 y + 16 z of the cell's place in its block), blocks in
// row-major order (x fastest), levels one after another: a word of 0 lets a ray skip a whole block.
struct OccupancyGrid {
  Aabb box;  // level 0
  int n_levels = 1;
  int resolution = 128;                   // cells along a side, a multiple of 4
  std::vector<uint64_t> occupied_blocks;  // [n_levels][(resolution/4)^3]

  bool Occupied(int level, int x, int y, int z) const;
  // Share of occupied cells over all levels.
  double OccupiedFraction() const;
  // Smallest box around the occupied cells of level 0; the whole box when there are none.
  Aabb OccupiedBox() const;
};

// For kernels::MarchGrid: each block's chessboard distance, in blocks, to the nearest block that
// holds an occupied cell, belongs to another level or is covered by a finer one. Space beyond the
// outermost level counts as empty. Source: Rosenfeld and Pfaltz 1968.
std::vector<uint8_t> EmptyDistances(const OccupancyGrid& grid);

// The grid for kernels that march through it. Borrows its bits and empty_distances
// (EmptyDistances; empty: rays visit every block).
kernels::MarchGrid MarchGridOf(const OccupancyGrid& grid,
                               std::span<const uint8_t> empty_distances = {});

// A grid with every cell occupied.
OccupancyGrid FullOccupancyGrid(const Aabb& box, int n_levels, int resolution);

}  // namespace nerf
