#pragma once

#include <cuda_fp16.h>

#include "engine/base/half_float.h"
#include "engine/field/kernels/cuda/float_fragments.cuh"
#include "engine/field/kernels/cuda/pair.cuh"

// Conversions, dynamic shared memory, and all inline PTX of the kernels. Kernels contain no asm
// themselves, so that the tests can replace this file by a host version
// (tests/testing/cuda_emulation).
namespace nerf::kernels::cuda {

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(Half value) { return __half2float(__ushort_as_half(value.bits)); }

template <typename T>
__device__ inline T FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline Half FromFloat<Half>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}

// The block's dynamic shared memory. Requires: the launch requested it.
template <typename T>
__device__ inline T* SharedMemory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

// Atomically at[f] += values[f]. `at` is aligned to the whole entry. One transaction if the device
// supports that.
__device__ inline void AtomicAddEntry(float* at, const float (&values)[2]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(values[0]), "f"(values[1])
               : "memory");
#else
  for (int f = 0; f < 2; ++f) atomicAdd(at + f, values[f]);
#endif
}
__device__ inline void AtomicAddEntry(float* at, const float (&values)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(values[0]),
               "f"(values[1]), "f"(values[2]), "f"(values[3])
               : "memory");
#else
  for (int f = 0; f < 4; ++f) atomicAdd(at + f, values[f]);
#endif
}

// Fragments of the tensor cores' 16x8x16 product, spread over a warp. Lane i holds, with g = i / 4
// and q = i % 4, pairs of neighbors along k (A and B) or along n (C):
//   A [16 m][16 k]: r[0] (g, 2q)  r[1] (g + 8, 2q)  r[2] (g, 2q + 8)  r[3] (g + 8, 2q + 8)
//   B [16 k][8 n]:  r[0] (2q, g)  r[1] (2q + 8, g)
//   C [16 m][8 n]:  r[0], r[1] (g, 2q)  r[2], r[3] (g + 8, 2q)
// Two neighboring C fragments have the layout of the next product's A, so activations stay in
// registers between layers. T = Half uses tensor cores; T = float has the same layout without them.
// Source: PTX ISA, "Matrix fragments for mma.m16n8k16".
template <typename T>
struct FragmentA {
  Pair<T> r[4];
};
template <typename T>
struct FragmentB {
  Pair<T> r[2];
};

__device__ inline uint32_t Bits(const Pair<Half>& pair) {
  return pair.x.bits | static_cast<uint32_t>(pair.y.bits) << 16;
}
__device__ inline Pair<Half> PairOfBits(uint32_t bits) {
  return {{static_cast<uint16_t>(bits)}, {static_cast<uint16_t>(bits >> 16)}};
}

// c += a b. Called by whole warps.
__device__ inline void MultiplyAdd(const FragmentA<Half>& a, const FragmentB<Half>& b,
                                   FragmentC* c) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c->r[0]), "+f"(c->r[1]), "+f"(c->r[2]), "+f"(c->r[3])
      : "r"(Bits(a.r[0])), "r"(Bits(a.r[1])), "r"(Bits(a.r[2])), "r"(Bits(a.r[3])),
        "r"(Bits(b.r[0])), "r"(Bits(b.r[1])));
}
__device__ inline void MultiplyAdd(const FragmentA<float>& a, const FragmentB<float>& b,
                                   FragmentC* c) {
  MultiplyAddByShuffles(a.r, b.r, c);
}

// Fragments of row-major tiles in shared memory. Rows are `stride` elements apart, a multiple of 8;
// tiles are aligned to 16 bytes. Called by whole warps.

// A[m][k] = tile[k][m].
__device__ inline FragmentA<Half> LoadTransposedA(const Half* tile, int stride) {
  const int lane = threadIdx.x % 32;
  const Half* row = tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
  uint32_t r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
  return {{PairOfBits(r[0]), PairOfBits(r[1]), PairOfBits(r[2]), PairOfBits(r[3])}};
}
__device__ inline FragmentA<float> LoadTransposedA(const float* tile, int stride) {
  const int lane = threadIdx.x % 32, g = lane / 4, k = 2 * (lane % 4);
  const auto at = [&](int dk, int dm) -> Pair<float> {
    return {tile[(k + dk) * stride + g + dm], tile[(k + dk + 1) * stride + g + dm]};
  };
  return {{at(0, 0), at(0, 8), at(8, 0), at(8, 8)}};
}

// B[k][n] = tile[k][n].
__device__ inline FragmentB<Half> LoadB(const Half* tile, int stride) {
  const int lane = threadIdx.x % 32;
  const Half* row = tile + lane % 16 * stride;
  uint32_t r[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
  return {{PairOfBits(r[0]), PairOfBits(r[1])}};
}
__device__ inline FragmentB<float> LoadB(const float* tile, int stride) {
  const int lane = threadIdx.x % 32, g = lane / 4, k = 2 * (lane % 4);
  return {{{tile[k * stride + g], tile[(k + 1) * stride + g]},
           {tile[(k + 8) * stride + g], tile[(k + 9) * stride + g]}}};
}

// B[k][n] = tile[n][k].
__device__ inline FragmentB<Half> LoadTransposedB(const Half* tile, int stride) {
  const int lane = threadIdx.x % 32;
  const Half* row = tile + lane % 8 * stride + lane / 8 % 2 * 8;
  uint32_t r[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
  return {{PairOfBits(r[0]), PairOfBits(r[1])}};
}
__device__ inline FragmentB<float> LoadTransposedB(const float* tile, int stride) {
  const int lane = threadIdx.x % 32, g = lane / 4, k = 2 * (lane % 4);
  const float* row = tile + g * stride + k;
  return {{{row[0], row[1]}, {row[8], row[9]}}};
}

}  // namespace nerf::kernels::cuda
