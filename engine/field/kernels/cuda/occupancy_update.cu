#include "engine/field/kernels/occupancy_update.h"

#include "engine/base/philox.h"
#include "engine/field/kernels/cuda/block_reduce.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

// A random point of a cell, in the unit cube. cell = 64 * block + bit, block counting over all
// levels.
__device__ Vec3 PointOfCell(const ProbeCellsParams& p, uint32_t cell) {
  const uint32_t side = p.resolution / 4, level_blocks = side * side * side;
  const uint32_t bit = cell % kBlockCells, level = cell / kBlockCells / level_blocks;
  const uint32_t block = cell / kBlockCells % level_blocks;
  const auto words = RandomWords(p.seed, RandomUse::kGridCell, p.step, cell);
  const Vec3 corner{static_cast<float>(block % side * 4 + (bit & 3)),
                    static_cast<float>(block / side % side * 4 + ((bit >> 2) & 3)),
                    static_cast<float>(block / (side * side) * 4 + (bit >> 4))};
  const Vec3 jitter{UniformFloat(words[0]), UniformFloat(words[1]), UniformFloat(words[2])};
  const Vec3 half = p.half_size * static_cast<float>(1u << level);
  const float cell_size = 2 * half.x / p.resolution;
  const Vec3 offset = p.center - half + (corner + jitter) * cell_size - p.box_min;
  return {offset.x / p.box_size.x, offset.y / p.box_size.y, offset.z / p.box_size.z};
}

// One warp per block of 64 cells, two cells per lane.
__global__ void __launch_bounds__(kBlock)
    ProbeCellsKernel(const __grid_constant__ ProbeCellsParams p) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t side = p.resolution / 4, level_blocks = side * side * side;
  const uint32_t stride = gridDim.x * blockDim.x / kWarp;
  for (uint32_t block = p.first_block + (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
       block < p.end_block; block += stride) {
    const bool covered =
        IsCoveredBlock(static_cast<int>(block / level_blocks), block % level_blocks, side);
    const uint64_t due =
        covered ? 0
                : ProbedCells(p.periods.Of(p.blocks[block]), p.update, block) & p.allowed[block];
    for (uint32_t bit = lane; bit < kBlockCells; bit += kWarp) {
      const uint32_t cell = block * kBlockCells + bit;
      p.values[cell] *= p.decay;
      const bool is_due = (due >> bit) & 1;
      const unsigned votes = __ballot_sync(kAllLanes, is_due);
      uint32_t first = 0;
      if (lane == 0 && votes != 0) first = atomicAdd(p.count, static_cast<uint32_t>(__popc(votes)));
      first = __shfl_sync(kAllLanes, first, 0);
      const uint32_t at = first + __popc(votes & ((1u << lane) - 1));
      if (is_due && at < p.capacity) {
        p.positions[at] = PointOfCell(p, cell);
        p.cells[at] = cell;
      }
    }
  }
}

// One warp per block of 64 cells, two cells per lane.
__global__ void __launch_bounds__(kBlock)
    SpreadBlockMaximumKernel(const __grid_constant__ SpreadBlockMaximumParams p) {
  const uint32_t lane = threadIdx.x % kWarp, stride = gridDim.x * blockDim.x / kWarp;
  for (uint32_t block = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp; block < p.n_blocks;
       block += stride) {
    float* const low = p.values + size_t{block} * kBlockCells + lane;
    float* const high = low + kWarp;
    float largest = fmaxf(*low, *high);
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    *low = *high = largest;
  }
}

__global__ void __launch_bounds__(kBlock)
    SumValuesKernel(const __grid_constant__ SetOccupiedBitsParams p) {
  double sum = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n_blocks * kBlockCells;
       i += gridDim.x * blockDim.x)
    sum += p.values[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) p.sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlock)
    SetBitsKernel(const __grid_constant__ SetOccupiedBitsParams p) {
  __shared__ float limit;
  static_assert(kMeanBlocks == kBlock);
  const double sum = BlockSum(p.sums[threadIdx.x]);
  if (threadIdx.x == 0) {
    const float mean = static_cast<float>(sum / (static_cast<double>(p.n_blocks) * kBlockCells));
    limit = fminf(mean, p.threshold);
  }
  __syncthreads();
  const uint32_t lane = threadIdx.x % kWarp, stride = gridDim.x * blockDim.x / kWarp;
  uint32_t n_occupied = 0;
  for (uint32_t block = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp; block < p.n_blocks;
       block += stride) {
    const float* const values = p.values + size_t{block} * kBlockCells;
    const uint64_t low = __ballot_sync(kAllLanes, values[lane] > limit);
    const uint64_t high = __ballot_sync(kAllLanes, values[lane + kWarp] > limit);
    const uint64_t bits = (low | high << kWarp) & p.allowed[block];
    if (lane == 0) p.blocks[block] = bits;
    n_occupied += __popcll(bits);
  }
  if (lane == 0 && n_occupied > 0) atomicAdd(p.n_occupied, n_occupied);
}

struct AxisArguments {
  EmptyDistancesParams grid;
  uint32_t stride;  // of neighbors along the axis
  const uint8_t* before;
  uint8_t* after;
};

// The least of max(k, distance before this axis) over the blocks k away along the axis. Before the
// first axis the distance is 0 at the ends of empty space. Beyond its sides, a level ends too, but
// for the outermost one.
template <bool is_first>
__global__ void __launch_bounds__(kBlock)
    EmptyDistancesAlongAxisKernel(const __grid_constant__ AxisArguments arguments) {
  const EmptyDistancesParams& p = arguments.grid;
  const uint32_t level_blocks = p.side * p.side * p.side, n_blocks = p.n_levels * level_blocks;
  const uint32_t stride = arguments.stride;
  const auto before = [&](uint32_t block) -> uint32_t {
    if constexpr (!is_first) return arguments.before[block];
    const bool ends = p.blocks[block] != 0 || IsCoveredBlock(static_cast<int>(block / level_blocks),
                                                             block % level_blocks, p.side);
    return ends ? 0 : kMaxEmptyDistance;
  };
  for (uint32_t block = blockIdx.x * blockDim.x + threadIdx.x; block < n_blocks;
       block += gridDim.x * blockDim.x) {
    const bool is_outermost = static_cast<int>(block / level_blocks) == p.n_levels - 1;
    const uint32_t outside = is_outermost ? kMaxEmptyDistance : 0;
    const uint32_t place = block / stride % p.side;
    uint32_t distance = before(block);
    for (uint32_t k = 1; k < min(distance, p.side); ++k) {
      const uint32_t low = k <= place ? before(block - k * stride) : outside;
      const uint32_t high = place + k < p.side ? before(block + k * stride) : outside;
      distance = min(distance, max(k, min(low, high)));
    }
    arguments.after[block] = static_cast<uint8_t>(distance);
  }
}

}  // namespace

void ProbeCells(const ProbeCellsParams& params, Stream stream) {
  LaunchOver("probe_cells", ProbeCellsKernel,
             uint64_t{params.end_block - params.first_block} * kWarp, kBlock, stream, params);
}

void SpreadBlockMaximum(const SpreadBlockMaximumParams& params, Stream stream) {
  LaunchOver("spread_block_maximum", SpreadBlockMaximumKernel, uint64_t{params.n_blocks} * kWarp,
             kBlock, stream, params);
}

void SetOccupiedBits(const SetOccupiedBitsParams& params, Stream stream) {
  Launch("sum_values", SumValuesKernel, kMeanBlocks, kBlock, 0, stream, params);
  LaunchOver("set_bits", SetBitsKernel, uint64_t{params.n_blocks} * kWarp, kBlock, stream, params);
}

void EmptyDistances(const EmptyDistancesParams& params, Stream stream) {
  const uint32_t side = params.side;
  const uint64_t n_blocks = uint64_t{side} * side * side * params.n_levels;
  LaunchOver("empty_distances", EmptyDistancesAlongAxisKernel<true>, n_blocks, kBlock, stream,
             AxisArguments{params, 1, nullptr, params.distances});
  LaunchOver("empty_distances", EmptyDistancesAlongAxisKernel<false>, n_blocks, kBlock, stream,
             AxisArguments{params, side, params.distances, params.along_axis});
  LaunchOver("empty_distances", EmptyDistancesAlongAxisKernel<false>, n_blocks, kBlock, stream,
             AxisArguments{params, side * side, params.along_axis, params.distances});
}

}  // namespace nerf::kernels::cuda
