#include "tests/bench/cuda_ceilings.h"

#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::ceilings {
namespace {

namespace cuda = kernels::cuda;

constexpr int kChains = 8;  // independent products
constexpr double kProductFlops = 2.0 * 16 * 8 * 16;

__global__ void __launch_bounds__(cuda::kBlock)
    MatrixLoopKernel(const __grid_constant__ MatrixLoopParams p) {
  cuda::FragmentA<Half> a;
  cuda::FragmentB<Half> b;
  cuda::FragmentC c[kChains] = {};
  for (auto& pair : a.r) {
    pair.x = cuda::FromFloat<Half>(1e-3f * threadIdx.x);
    pair.y = pair.x;
  }
  for (int i = 0; i < 2; ++i) b.r[i] = a.r[i];
  for (uint32_t round = 0; round < p.n_rounds; ++round) {
#pragma unroll
    for (auto& sums : c) cuda::MultiplyAdd(a, b, &sums);
  }
  float sum = 0;
  for (const auto& sums : c) sum += sums.r[0] + sums.r[1] + sums.r[2] + sums.r[3];
  if (sum == -1) *p.sink = sum;  // never, because no factor is negative
}

__device__ inline uint32_t Hashed(uint32_t i) {
  uint32_t place = i * 0x9E3779B9u;
  place = (place ^ (place >> 15)) * 0x85EBCA6Bu;
  return place ^ (place >> 13);
}

__global__ void __launch_bounds__(cuda::kBlock)
    GatherLoopKernel(const __grid_constant__ GatherLoopParams p) {
  const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * p.n_reads;
  uint64_t sum = 0;
#pragma unroll 8
  for (uint32_t i = first; i < first + p.n_reads; ++i) sum += p.table[Hashed(i) & p.mask];
  if (sum == ~uint64_t{0}) *p.sink = sum;  // almost never
}

}  // namespace

double MatrixLoop(const MatrixLoopParams& params, kernels::Stream stream) {
  const int n_blocks = cuda::ResidentBlocks(MatrixLoopKernel, cuda::kBlock, 0);
  cuda::Launch("matrix_loop", MatrixLoopKernel, n_blocks, cuda::kBlock, 0, stream, params);
  return kProductFlops * kChains * params.n_rounds * n_blocks * (cuda::kBlock / cuda::kWarp);
}

double GatherLoop(const GatherLoopParams& params, kernels::Stream stream) {
  const int n_blocks = cuda::ResidentBlocks(GatherLoopKernel, cuda::kBlock, 0);
  cuda::Launch("gather_loop", GatherLoopKernel, n_blocks, cuda::kBlock, 0, stream, params);
  return static_cast<double>(params.n_reads) * n_blocks * cuda::kBlock;
}

}  // namespace nerf::ceilings
