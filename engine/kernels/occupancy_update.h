#pragma once

#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/vec3.h"
#include "engine/kernels/stream.h"

namespace nerf::kernels {

// Which cells of a block of 64 an update of the occupancy grid probes: one of each `period` in a
// row, by turns. From row to row it shifts by one, so that they lie in no one plane of the block;
// an odd multiplier walks the phases of neighboring blocks apart. period divides 64; 1 takes all.
NERF_HD inline uint64_t ProbedCells(int period, uint32_t update, uint64_t block) {
  uint64_t mask = 0;
  for (int row = 0; row < 64 / period; ++row)
    mask |= uint64_t{1} << (row * period + (update + 5 * block + row) % period);
  return mask;
}

// How often an update probes: one cell in `occupied` of a block that holds an occupied cell, one in
// `empty` of the others.
struct ProbePeriods {
  int occupied = 1, empty = 1;
  NERF_HD int Of(uint64_t block_bits) const { return block_bits != 0 ? occupied : empty; }
};

// Whether a block of a level lies in the middle half of its side, where the level below, being
// finer, is kept instead. block counts within the level, row-major, side blocks along each axis.
NERF_HD inline bool IsCoveredBlock(int level, uint64_t block, uint32_t side) {
  if (level == 0) return false;
  const uint64_t coordinates[3] = {block % side, block / side % side, block / side / side};
  for (uint64_t c : coordinates)
    if (c < side / 4 || c >= side - side / 4) return false;
  return true;
}

inline constexpr int kBlockCells = 64;

namespace cpu {

// The sum of the values of n_blocks blocks [n_blocks][64], with the same bytes on every path.
double SumOfCells(int64_t n_blocks, const float* values);

// Sets bit i of blocks [n_blocks] where values[i] > threshold, values [n_blocks][64].
struct SetOccupiedBitsParams {
  int64_t n_blocks = 0;
  const float* values = nullptr;
  float threshold = 0;
  uint64_t* blocks = nullptr;
};
void SetOccupiedBits(const SetOccupiedBitsParams& params);

}  // namespace cpu

// On a device. All pointers are to device memory but for those inside of no struct.
namespace cuda {

// Decays the values of blocks [first_block, end_block) of 64 cells, and draws a random point of
// each cell that is due: positions (unit cube) and cells in no particular order, *count of them.
// Traffic: 8 bytes a cell, 16 a point.
struct ProbeCellsParams {
  uint32_t first_block = 0, end_block = 0;
  int resolution = 0;
  Vec3 center, half_size;  // of the level-0 box
  Vec3 box_min, box_size;  // what the unit cube covers
  uint64_t seed = 0;
  uint32_t step = 0, update = 0;
  ProbePeriods periods;
  const uint64_t* blocks = nullptr;  // the grid's bits
  float decay = 1;
  float* values = nullptr;
  uint32_t capacity = 0;  // of points
  uint32_t* count = nullptr;
  Vec3* positions = nullptr;
  uint32_t* cells = nullptr;
};
void ProbeCells(const ProbeCellsParams& params, Stream stream);

// Gives all cells of each block of 64 the largest value among them. Traffic: 8 bytes a cell.
struct SpreadBlockMaximumParams {
  uint32_t n_blocks = 0;
  float* values = nullptr;
};
void SpreadBlockMaximum(const SpreadBlockMaximumParams& params, Stream stream);

inline constexpr int kMeanBlocks = 256;

// Sets bit i of the grid where values[i] > min(mean of values, threshold), and *n_occupied.
// Traffic: 8 bytes a cell.
struct SetOccupiedBitsParams {
  uint32_t n_blocks = 0;  // of 64 cells
  const float* values = nullptr;
  float threshold = 0;
  double* sums = nullptr;  // [kMeanBlocks], scratch
  uint64_t* blocks = nullptr;
  uint32_t* n_occupied = nullptr;  // 0 at the start
};
void SetOccupiedBits(const SetOccupiedBitsParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
