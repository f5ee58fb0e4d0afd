#pragma once

// Included before every .cu file when it is compiled as C++: the part of CUDA that our kernels use,
// on top of block_runner.h. overlay/ has the host versions of device_intrinsics.cuh and launch.cuh.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/check.h"
#include "tests/testing/cuda_emulation/block_runner.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __grid_constant__
// One block runs at a time, so a shared variable may be a static variable. Those of functions that
// are not templates are in one section, which is filled before each block; GCC ignores the section
// of the others.
#define __shared__ static __attribute__((section("cuda_shared_variables")))

namespace nerf::cuda_emulation {

struct Dim3 {
  unsigned x, y, z;
};
inline Dim3 ThreadIdx() { return {ThreadIndex(), 0, 0}; }
inline Dim3 BlockIdx() { return {BlockIndex(), 0, 0}; }
inline Dim3 BlockDim() { return {Shape().n_threads, 1, 1}; }
inline Dim3 GridDim() { return {Shape().n_blocks, 1, 1}; }

// A value on its way to other lanes of the warp.
template <typename T>
struct ShuffleOperand {
  T value;
  int source;  // lane, or -1: keeps its own
  T result;
};

template <typename T>
T Shuffle(unsigned mask, T value, int source, const CallSite& site) {
  ShuffleOperand<T> operand{value, source, value};
  WarpOperation(
      mask, &operand,
      [](void* const(&operands)[32]) {
        for (void* bytes : operands) {
          auto* own = static_cast<ShuffleOperand<T>*>(bytes);
          if (own == nullptr || own->source < 0) continue;
          auto* other = static_cast<ShuffleOperand<T>*>(operands[own->source % 32]);
          NERF_CHECK(other != nullptr);  // reading a lane that takes no part is undefined
          own->result = other->value;
        }
      },
      site);
  return operand.result;
}

struct BallotOperand {
  bool predicate;
  uint32_t result;
};

}  // namespace nerf::cuda_emulation

#define threadIdx (::nerf::cuda_emulation::ThreadIdx())
#define blockIdx (::nerf::cuda_emulation::BlockIdx())
#define blockDim (::nerf::cuda_emulation::BlockDim())
#define gridDim (::nerf::cuda_emulation::GridDim())

inline void __syncthreads(
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  ::nerf::cuda_emulation::BlockBarrier(site);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, const nerf::cuda_emulation::CallSite& site =
                                                        nerf::cuda_emulation::CallSite::current()) {
  char nothing = 0;
  ::nerf::cuda_emulation::WarpOperation(
      mask, &nothing, [](void* const(&)[32]) {}, site);
}

template <typename T>
T __shfl_sync(
    unsigned mask, T value, int source,
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  return ::nerf::cuda_emulation::Shuffle(mask, value, source & 31, site);
}
template <typename T>
T __shfl_up_sync(
    unsigned mask, T value, unsigned delta,
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  const int lane = static_cast<int>(::nerf::cuda_emulation::ThreadIndex() % 32);
  return ::nerf::cuda_emulation::Shuffle(mask, value, lane - static_cast<int>(delta), site);
}
template <typename T>
T __shfl_down_sync(
    unsigned mask, T value, unsigned delta,
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  const int source = static_cast<int>(::nerf::cuda_emulation::ThreadIndex() % 32 + delta);
  return ::nerf::cuda_emulation::Shuffle(mask, value, source < 32 ? source : -1, site);
}
template <typename T>
T __shfl_xor_sync(
    unsigned mask, T value, int lanes,
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  const int lane = static_cast<int>(::nerf::cuda_emulation::ThreadIndex() % 32);
  return ::nerf::cuda_emulation::Shuffle(mask, value, lane ^ lanes, site);
}

inline unsigned __ballot_sync(
    unsigned mask, bool predicate,
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  ::nerf::cuda_emulation::BallotOperand operand{predicate, 0};
  ::nerf::cuda_emulation::WarpOperation(
      mask, &operand,
      [](void* const(&operands)[32]) {
        uint32_t votes = 0;
        const auto of = [&](int lane) {
          return static_cast<::nerf::cuda_emulation::BallotOperand*>(operands[lane]);
        };
        for (int lane = 0; lane < 32; ++lane)
          if (of(lane) != nullptr && of(lane)->predicate) votes |= 1u << lane;
        for (int lane = 0; lane < 32; ++lane)
          if (of(lane) != nullptr) of(lane)->result = votes;
      },
      site);
  return operand.result;
}
inline bool __any_sync(
    unsigned mask, bool predicate,
    const nerf::cuda_emulation::CallSite& site = nerf::cuda_emulation::CallSite::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}

// Threads switch only at barriers, so plain arithmetic is atomic.
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = old + value;
  return old;
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = std::max(old, value);
  return old;
}
inline void __threadfence() {}

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __ffsll(long long bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(bits)) + 1;
}
inline long long __float2ll_rn(float value) { return std::llrintf(value); }
using std::max;
using std::min;
