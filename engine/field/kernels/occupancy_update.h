#pragma once

#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// The cells of a block of 64 that an update of the occupancy grid evaluates, as a mask: one of
// every `period` cells, a different one in each of `period` successive updates. The offset grows by
// one from row to row, so that the cells are not in one plane, and differs between neighboring
// blocks. period divides 64; 1 selects all cells.
NERF_HD inline uint64_t ProbedCells(int period, uint32_t update, uint64_t block) {
  uint64_t mask = 0;
  for (int row = 0; row < 64 / period; ++row)
    mask |= uint64_t{1} << (row * period + (update + 5 * block + row) % period);
  return mask;
}

// An update probes one of `occupied` cells in blocks that contain an occupied cell, and one of
// `empty` cells in the others.
struct ProbePeriods {
  int occupied = 1, empty = 1;
  NERF_HD int Of(uint64_t block_bits) const { return block_bits != 0 ? occupied : empty; }
};

// Whether a block of a level lies in the cube that the next finer level covers, whose cells are
// used there instead. block is the row-major index within the level, of `side` blocks along each
// axis.
NERF_HD inline bool IsCoveredBlock(int level, uint64_t block, uint32_t side) {
  if (level == 0) return false;
  const uint64_t coordinates[3] = {block % side, block / side % side, block / side / side};
  for (uint64_t c : coordinates)
    if (c < side / 4 || c >= side - side / 4) return false;
  return true;
}

inline constexpr int kBlockCells = 64;

// The largest empty distance (MarchGrid), of a grid without occupied cells: more blocks than a side
// has.
inline constexpr int kMaxEmptyDistance = 200;

namespace cpu {

// The sum of values [n_blocks][64], bit for bit the same on every SIMD path.
double SumOfCells(int64_t n_blocks, const float* values);

// Sets bit i of blocks [n_blocks] where values[i] > threshold and `allowed` has it, values
// [n_blocks][64].
struct SetOccupiedBitsParams {
  int64_t n_blocks = 0;
  const float* values = nullptr;
  float threshold = 0;
  const uint64_t* allowed = nullptr;  // [n_blocks]
  uint64_t* blocks = nullptr;
};
void SetOccupiedBits(const SetOccupiedBitsParams& params);

}  // namespace cpu

// All pointers are to device memory.
namespace cuda {

// Multiplies the values of blocks [first_block, end_block) by decay, and draws a random point in
// each allowed cell that ProbedCells selects: *count positions (in the unit cube) and cells, in any
// order. Traffic: 8 bytes per cell, 16 per point.
struct ProbeCellsParams {
  uint32_t first_block = 0, end_block = 0;
  int resolution = 0;
  Vec3 center, half_size;  // of the level-0 box
  Vec3 box_min, box_size;  // what the unit cube covers
  uint64_t seed = 0;
  uint32_t step = 0, update = 0;
  ProbePeriods periods;
  const uint64_t* blocks = nullptr;   // the grid's bits
  const uint64_t* allowed = nullptr;  // likewise, of the cells that may be occupied
  float decay = 1;
  float* values = nullptr;
  uint32_t capacity = 0;  // of positions and cells
  uint32_t* count = nullptr;
  Vec3* positions = nullptr;
  uint32_t* cells = nullptr;
};
void ProbeCells(const ProbeCellsParams& params, Stream stream);

// Sets all cells of each block of 64 to the block's maximum. Traffic: 8 bytes per cell.
struct SpreadBlockMaximumParams {
  uint32_t n_blocks = 0;
  float* values = nullptr;
};
void SpreadBlockMaximum(const SpreadBlockMaximumParams& params, Stream stream);

inline constexpr int kMeanBlocks = 256;

// Sets bit i of the grid if values[i] > min(mean of values, threshold) and `allowed` has it, and
// counts the bits in *n_occupied. Traffic: 8 bytes per cell.
struct SetOccupiedBitsParams {
  uint32_t n_blocks = 0;  // of 64 cells
  const float* values = nullptr;
  float threshold = 0;
  const uint64_t* allowed = nullptr;  // [n_blocks]
  double* sums = nullptr;             // [kMeanBlocks], scratch
  uint64_t* blocks = nullptr;
  uint32_t* n_occupied = nullptr;  // initially 0
};
void SetOccupiedBits(const SetOccupiedBitsParams& params, Stream stream);

// The grid's empty distances (MarchGrid): one axis after another, since the least chessboard
// distance is the least over each axis in turn. Traffic: a few hundred bytes per block, from cache.
struct EmptyDistancesParams {
  int n_levels = 0;
  uint32_t side = 0;  // blocks along an axis of a level
  const uint64_t* blocks = nullptr;
  uint8_t* distances = nullptr;   // [n_levels * side^3]
  uint8_t* along_axis = nullptr;  // likewise, scratch
};
void EmptyDistances(const EmptyDistancesParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
