#include "engine/field/kernels/hash_encoding.h"

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/hash_cells.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

// One thread per sample and level, or per run of samples. Blocks process all samples of a level
// before the next level, so that about one level's table is in use at a time: 4 MB in half
// precision at 2^19 entries of four features, whatever the number of levels.
namespace nerf::kernels::cuda {
namespace {

// Calls visit(level, i) for each level and each i < n, level by level.
template <typename Visit>
__device__ void ForEachOfLevels(uint32_t n, int n_levels, Visit visit) {
  const uint32_t n_tiles = (n + blockDim.x - 1) / blockDim.x;
  for (uint32_t tile = blockIdx.x; tile < n_tiles * n_levels; tile += gridDim.x) {
    const uint32_t i = tile % n_tiles * blockDim.x + threadIdx.x;
    if (i < n) visit(static_cast<int>(tile / n_tiles), i);
  }
}
// Likewise for each element of a range.
template <typename Visit>
__device__ void ForEachLevelAndElement(const DeviceRange& range, int n_levels, Visit visit) {
  const Elements elements = ElementsOf(range);
  ForEachOfLevels(elements.size(), n_levels,
                  [&](int level, uint32_t i) { visit(level, elements.begin + i); });
}

// An entry of the table, or a sample's features of one level.
template <typename T, int F>
struct alignas(F * sizeof(T)) Entry {
  T at[F];
};

template <typename Table, typename T, int F>
struct ForwardArguments {
  Levels levels;
  const Entry<Table, F>* table;
  DeviceRange range;
  const Vec3* positions;
  Pair<T>* features;
  uint32_t stride;
};

template <typename Table, typename T, int F>
__global__ void __launch_bounds__(kBlock)
    HashEncodeForwardKernel(const __grid_constant__ ForwardArguments<Table, T, F> p) {
  ForEachLevelAndElement(p.range, p.levels.n_levels, [&](int level, uint32_t i) {
    const Cell cell(p.positions[i], p.levels.resolution[level]);
    const Entry<Table, F>* const table = p.table + size_t{p.levels.entries} * level;
    Entry<Table, F> corners[8];  // all eight loads are issued before the first is used
#pragma unroll
    for (int c = 0; c < 8; ++c) corners[c] = table[cell.IndexOf(c, p.levels, level)];
    float sums[F] = {};
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float weight = cell.Weight(c);
#pragma unroll
      for (int f = 0; f < F; ++f) sums[f] += weight * ToFloat(corners[c].at[f]);
    }
#pragma unroll
    for (int f = 0; f < F; f += 2) {
      const size_t plane = (level * F + f) / 2;
      p.features[plane * p.stride + i] = {FromFloat<T>(sums[f]), FromFloat<T>(sums[f + 1])};
    }
  });
}

struct BackwardArguments {
  Levels levels;
  DeviceRange range;
  const Vec3* positions;
  const uint32_t* rows;
  const Pair<float>* grad_features;
  uint32_t stride;
  float* grad_table;
  unsigned long long* fixed_grad_table;  // two's complement: signed sums are the same
};

// Whether any is not 0.
template <int F>
__device__ bool LoadGradients(const BackwardArguments& p, int level, uint32_t i,
                              float (&grads)[F]) {
  bool any = false;
#pragma unroll
  for (int f = 0; f < F; f += 2) {
    const size_t plane = (level * F + f) / 2;
    const Pair<float> pair = p.grad_features[plane * p.stride + i];
    grads[f] = pair.x;
    grads[f + 1] = pair.y;
    any |= pair.x != 0 || pair.y != 0;
  }
  return any;
}

__device__ inline Vec3 SamplePosition(const BackwardArguments& p, uint32_t i) {
  return p.positions[p.rows == nullptr ? i : p.rows[i]];
}

// Each sample rounds to fixed point by itself, so that sums do not depend on how samples are
// grouped.
template <int F>
__global__ void __launch_bounds__(kBlock)
    HashEncodeBackwardFixedKernel(const __grid_constant__ BackwardArguments p) {
  ForEachLevelAndElement(p.range, p.levels.n_levels, [&](int level, uint32_t i) {
    float grads[F];
    if (!LoadGradients(p, level, i, grads)) return;
    const Cell cell(SamplePosition(p, i), p.levels.resolution[level]);
    const size_t first = size_t{p.levels.entries} * level;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float weight = cell.Weight(c);
      const size_t at = F * (first + cell.IndexOf(c, p.levels, level));
#pragma unroll
      for (int f = 0; f < F; ++f) {
        atomicAdd(
            p.fixed_grad_table + at + f,
            static_cast<unsigned long long>(__float2ll_rn(weight * grads[f] * kFixedPointOne)));
      }
    }
  });
}

// The samples of a ray lie in one cell of a coarse level, several to a cell up to those of a few
// hundred cells a side. A thread adds up the gradients of neighboring samples while they stay in a
// cell, and only then adds to the table, whose atomic additions are what bounds this kernel.
constexpr uint32_t kRun = 8;  // samples of a thread

template <int F>
__global__ void __launch_bounds__(kBlock)
    HashEncodeBackwardKernel(const __grid_constant__ BackwardArguments p) {
  const Elements elements = ElementsOf(p.range);
  const uint32_t n_runs = (elements.size() + kRun - 1) / kRun;
  ForEachOfLevels(n_runs, p.levels.n_levels, [&](int level, uint32_t run) {
    float* const table = p.grad_table + F * size_t{p.levels.entries} * level;
    float sums[8][F];
    Cell cell;
    bool has_sums = false;
    const auto add_to_table = [&] {
#pragma unroll
      for (int c = 0; c < 8; ++c)
        AtomicAddEntry(table + F * size_t{cell.IndexOf(c, p.levels, level)}, sums[c]);
    };
    const uint32_t first = elements.begin + run * kRun, end = min(first + kRun, elements.end);
    for (uint32_t i = first; i < end; ++i) {
      float grads[F];
      if (!LoadGradients(p, level, i, grads)) continue;
      const Cell next(SamplePosition(p, i), p.levels.resolution[level]);
      const bool goes_on = has_sums && next.SameAs(cell);
      if (has_sums && !goes_on) add_to_table();
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float weight = next.Weight(c);
#pragma unroll
        for (int f = 0; f < F; ++f) sums[c][f] = (goes_on ? sums[c][f] : 0) + weight * grads[f];
      }
      cell = next;
      has_sums = true;
    }
    if (has_sums) add_to_table();
  });
}

template <int F, typename Table, typename T>
void Forward(const HashEncodeForwardParams<T>& params, const Table* table, Stream stream) {
  LaunchOver(
      "hash_encode_forward", HashEncodeForwardKernel<Table, T, F>,
      uint64_t{params.range.capacity} * params.shape.n_levels, kBlock, stream,
      ForwardArguments<Table, T, F>{
          LevelsOf(params.shape), reinterpret_cast<const Entry<Table, F>*>(table), params.range,
          params.positions, reinterpret_cast<Pair<T>*>(params.features), params.stride});
}

template <int F, typename T>
void ForwardOfTable(const HashEncodeForwardParams<T>& params, Stream stream) {
  if (params.fp32_table != nullptr) {
    Forward<F>(params, params.fp32_table, stream);
  } else {
    Forward<F>(params, params.table, stream);
  }
}

template <typename T>
void DispatchForward(const HashEncodeForwardParams<T>& params, Stream stream) {
  NERF_CHECK(params.shape.n_features == 2 || params.shape.n_features == 4);
  params.shape.n_features == 2 ? ForwardOfTable<2>(params, stream)
                               : ForwardOfTable<4>(params, stream);
}

}  // namespace

void HashEncodeForward(const HashEncodeForwardParams<float>& params, Stream stream) {
  DispatchForward(params, stream);
}
void HashEncodeForward(const HashEncodeForwardParams<Half>& params, Stream stream) {
  DispatchForward(params, stream);
}

void HashEncodeBackward(const HashEncodeBackwardParams& params, Stream stream) {
  const bool fixed = params.fixed_grad_table != nullptr, wide = params.shape.n_features == 4;
  NERF_CHECK(fixed != (params.grad_table != nullptr));
  NERF_CHECK(wide || params.shape.n_features == 2);
  const auto kernel =
      fixed  ? wide ? HashEncodeBackwardFixedKernel<4> : HashEncodeBackwardFixedKernel<2>
       : wide ? HashEncodeBackwardKernel<4>
             : HashEncodeBackwardKernel<2>;
  const uint64_t n = fixed ? params.range.capacity : (params.range.capacity + kRun - 1) / kRun;
  LaunchOver("hash_encode_backward", kernel, n * params.shape.n_levels, kBlock, stream,
             BackwardArguments{LevelsOf(params.shape), params.range, params.positions, params.rows,
                               reinterpret_cast<const Pair<float>*>(params.grad_features),
                               params.stride, params.grad_table,
                               reinterpret_cast<unsigned long long*>(params.fixed_grad_table)});
}

}  // namespace nerf::kernels::cuda
