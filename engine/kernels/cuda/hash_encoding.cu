#include "engine/kernels/hash_encoding.h"

#include "engine/base/check.h"
#include "engine/kernels/cuda/device_intrinsics.cuh"
#include "engine/kernels/cuda/device_range.cuh"
#include "engine/kernels/cuda/launch.cuh"

// Each thread takes one sample of one level. Blocks walk through the samples of a level before they
// go on to the next one, so that at any time about one level's table is in use: at most 4 MB of
// halves at 2^19 entries and a few neighbours, however large the whole table is.
namespace nerf::kernels::cuda {
namespace {

struct Levels {
  int n_levels;
  uint32_t entries;
  uint32_t dense;  // bit l: level l is indexed directly
  uint16_t resolution[kMaxHashLevels];
};

Levels LevelsOf(const HashGridShape& shape) {
  Levels levels{shape.n_levels, shape.entries(), 0, {}};
  for (int level = 0; level < shape.n_levels; ++level) {
    NERF_CHECK(shape.resolution[level] < (1 << 16));
    levels.resolution[level] = static_cast<uint16_t>(shape.resolution[level]);
    if (shape.IsDense(level)) levels.dense |= 1u << level;
  }
  return levels;
}

// The cell of one level that a point lies in, and where in it.
struct Cell {
  uint32_t low[3];
  float fraction[3];

  __device__ Cell(Vec3 position, int resolution) {
    const float scale = static_cast<float>(resolution);
    for (int axis = 0; axis < 3; ++axis) {
      // fmaxf takes the 0 where the position is not a number.
      const float scaled = fminf(fmaxf(position[axis], 0.0f), 1.0f) * scale;
      const float floor = fminf(floorf(scaled), scale - 1);
      low[axis] = static_cast<uint32_t>(floor);
      fraction[axis] = scaled - floor;
    }
  }
  // Corner c lies on the far side along x, y, z by bits 0, 1, 2.
  __device__ float Weight(int c) const {
    const float x = c & 1 ? fraction[0] : 1 - fraction[0];
    const float y = c & 2 ? fraction[1] : 1 - fraction[1];
    const float z = c & 4 ? fraction[2] : 1 - fraction[2];
    return x * y * z;
  }
  __device__ uint32_t Entry(int c, const Levels& levels, int level) const {
    return HashGridEntry(low[0] + (c & 1), low[1] + (c >> 1 & 1), low[2] + (c >> 2),
                         levels.resolution[level] + 1u, (levels.dense >> level) & 1,
                         levels.entries - 1);
  }
};

// Calls visit(level, i) for each level and element, level by level.
template <typename Visit>
__device__ void ForEachOfEachLevel(const DeviceRange& range, int n_levels, Visit visit) {
  const Elements elements = ElementsOf(range);
  const uint32_t n_tiles = (elements.size() + blockDim.x - 1) / blockDim.x;
  for (uint32_t tile = blockIdx.x; tile < n_tiles * n_levels; tile += gridDim.x) {
    const uint32_t i = elements.begin + tile % n_tiles * blockDim.x + threadIdx.x;
    if (i < elements.end) visit(static_cast<int>(tile / n_tiles), i);
  }
}

template <typename T>
struct ForwardArguments {
  Levels levels;
  const Pair<T>* table;
  DeviceRange range;
  const Vec3* positions;
  Pair<T>* features;
  uint32_t stride;
};

template <typename T>
__global__ void __launch_bounds__(kBlock)
    HashEncodeForwardKernel(const __grid_constant__ ForwardArguments<T> p) {
  ForEachOfEachLevel(p.range, p.levels.n_levels, [&](int level, uint32_t i) {
    const Cell cell(p.positions[i], p.levels.resolution[level]);
    const Pair<T>* const table = p.table + size_t{p.levels.entries} * level;
    Pair<T> corners[8];  // all eight reads are under way before the first is needed
#pragma unroll
    for (int c = 0; c < 8; ++c) corners[c] = table[cell.Entry(c, p.levels, level)];
    float x = 0, y = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float weight = cell.Weight(c);
      x += weight * ToFloat(corners[c].x);
      y += weight * ToFloat(corners[c].y);
    }
    p.features[size_t{p.stride} * level + i] = {FromFloat<T>(x), FromFloat<T>(y)};
  });
}

struct BackwardArguments {
  Levels levels;
  DeviceRange range;
  const Vec3* positions;
  const uint32_t* rows;
  const Pair<float>* grad_features;
  uint32_t stride;
  Pair<float>* grad_table;
  unsigned long long* fixed_grad_table;  // two a entry; two's complement adds up the same
};

template <bool fixed>
__global__ void __launch_bounds__(kBlock)
    HashEncodeBackwardKernel(const __grid_constant__ BackwardArguments p) {
  ForEachOfEachLevel(p.range, p.levels.n_levels, [&](int level, uint32_t i) {
    const Pair<float> grad = p.grad_features[size_t{p.stride} * level + i];
    if (grad.x == 0 && grad.y == 0) return;
    const Vec3 position = p.positions[p.rows == nullptr ? i : p.rows[i]];
    const Cell cell(position, p.levels.resolution[level]);
    const size_t first = size_t{p.levels.entries} * level;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float weight = cell.Weight(c);
      const size_t entry = first + cell.Entry(c, p.levels, level);
      if constexpr (fixed) {
        const auto add = [&](size_t at, float value) {
          atomicAdd(p.fixed_grad_table + at,
                    static_cast<unsigned long long>(__float2ll_rn(value * kFixedPointOne)));
        };
        add(2 * entry, weight * grad.x);
        add(2 * entry + 1, weight * grad.y);
      } else {
        AtomicAddPair(p.grad_table + entry, weight * grad.x, weight * grad.y);
      }
    }
  });
}

template <typename T>
void Forward(const HashEncodeForwardParams<T>& params, Stream stream) {
  LaunchOver(
      "hash_encode_forward", HashEncodeForwardKernel<T>,
      uint64_t{params.range.capacity} * params.shape.n_levels, kBlock, stream,
      ForwardArguments<T>{LevelsOf(params.shape), reinterpret_cast<const Pair<T>*>(params.table),
                          params.range, params.positions,
                          reinterpret_cast<Pair<T>*>(params.features), params.stride});
}

}  // namespace

void HashEncodeForward(const HashEncodeForwardParams<float>& params, Stream stream) {
  Forward(params, stream);
}
void HashEncodeForward(const HashEncodeForwardParams<Half>& params, Stream stream) {
  Forward(params, stream);
}

void HashEncodeBackward(const HashEncodeBackwardParams& params, Stream stream) {
  const bool fixed = params.fixed_grad_table != nullptr;
  NERF_CHECK(fixed != (params.grad_table != nullptr));
  LaunchOver("hash_encode_backward",
             fixed ? HashEncodeBackwardKernel<true> : HashEncodeBackwardKernel<false>,
             uint64_t{params.range.capacity} * params.shape.n_levels, kBlock, stream,
             BackwardArguments{LevelsOf(params.shape), params.range, params.positions, params.rows,
                               reinterpret_cast<const Pair<float>*>(params.grad_features),
                               params.stride, reinterpret_cast<Pair<float>*>(params.grad_table),
                               reinterpret_cast<unsigned long long*>(params.fixed_grad_table)});
}

}  // namespace nerf::kernels::cuda
