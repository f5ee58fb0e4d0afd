#pragma once

// Replaces engine/field/kernels/cuda/device_intrinsics.cuh in the host emulation: the same
// functions and fragment layouts in plain C++.

#include "engine/base/half_float.h"
#include "engine/field/kernels/cuda/float_fragments.cuh"
#include "engine/field/kernels/cuda/pair.cuh"

namespace nerf::kernels::cuda {

inline float ToFloat(float value) { return value; }
inline float ToFloat(Half value) { return FloatFromHalf(value); }

template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<T, Half>) {
    return HalfFromFloat(value);
  } else {
    return value;
  }
}

template <typename T>
T* SharedMemory() {
  return static_cast<T*>(cuda_emulation::SharedBytes());
}

template <int F>
void AtomicAddEntry(float* at, const float (&values)[F]) {
  NERF_CHECK(reinterpret_cast<uintptr_t>(at) % sizeof(values) == 0);
  for (int f = 0; f < F; ++f) at[f] += values[f];
}

template <typename T>
struct FragmentA {
  Pair<T> r[4];
};
template <typename T>
struct FragmentB {
  Pair<T> r[2];
};

// One lane's part of a product.
template <typename T>
struct ProductOperand {
  const FragmentA<T>* a;
  const FragmentB<T>* b;
  FragmentC* c;
};

// c += a b. Products of halves are exact in fp32, and so are sums of few: as on the tensor cores.
template <typename T>
void MultiplyAdd(const FragmentA<T>& a, const FragmentB<T>& b, FragmentC* c,
                 const cuda_emulation::CallSite& site = cuda_emulation::CallSite::current()) {
  ProductOperand<T> operand{&a, &b, c};
  cuda_emulation::WarpOperation(
      0xffffffffu, &operand,
      [](void* const(&operands)[32]) {
        float left[16][16], right[16][8];
        for (int lane = 0; lane < 32; ++lane) {
          const auto& own = *static_cast<const ProductOperand<T>*>(operands[lane]);
          const int g = lane / 4, k = 2 * (lane % 4);
          for (int part = 0; part < 4; ++part) {
            float* at = &left[g + 8 * (part % 2)][k + 8 * (part / 2)];
            at[0] = ToFloat(own.a->r[part].x);
            at[1] = ToFloat(own.a->r[part].y);
          }
          for (int part = 0; part < 2; ++part) {
            right[k + 8 * part][g] = ToFloat(own.b->r[part].x);
            right[k + 8 * part + 1][g] = ToFloat(own.b->r[part].y);
          }
        }
        for (int lane = 0; lane < 32; ++lane) {
          const auto& own = *static_cast<const ProductOperand<T>*>(operands[lane]);
          for (int i = 0; i < 4; ++i) {
            const int m = lane / 4 + 8 * (i / 2), n = 2 * (lane % 4) + i % 2;
            float sum = own.c->r[i];
            for (int j = 0; j < 16; ++j) sum += left[m][j] * right[j][n];
            own.c->r[i] = sum;
          }
        }
      },
      site);
}

// Checks the alignment of a tile's rows that ldmatrix requires.
template <typename T>
void CheckTile(const T* tile, int stride) {
  NERF_CHECK(reinterpret_cast<uintptr_t>(tile) % 16 == 0 && stride % 8 == 0);
}

template <typename T>
FragmentA<T> LoadTransposedA(const T* tile, int stride) {
  CheckTile(tile, stride);
  const int lane = threadIdx.x % 32, g = lane / 4, k = 2 * (lane % 4);
  const auto at = [&](int dk, int dm) -> Pair<T> {
    return {tile[(k + dk) * stride + g + dm], tile[(k + dk + 1) * stride + g + dm]};
  };
  return {{at(0, 0), at(0, 8), at(8, 0), at(8, 8)}};
}

template <typename T>
FragmentB<T> LoadB(const T* tile, int stride) {
  CheckTile(tile, stride);
  const int lane = threadIdx.x % 32, g = lane / 4, k = 2 * (lane % 4);
  return {{{tile[k * stride + g], tile[(k + 1) * stride + g]},
           {tile[(k + 8) * stride + g], tile[(k + 9) * stride + g]}}};
}

template <typename T>
FragmentB<T> LoadTransposedB(const T* tile, int stride) {
  CheckTile(tile, stride);
  const int lane = threadIdx.x % 32, g = lane / 4, k = 2 * (lane % 4);
  const T* row = tile + g * stride + k;
  return {{{row[0], row[1]}, {row[8], row[9]}}};
}

}  // namespace nerf::kernels::cuda
