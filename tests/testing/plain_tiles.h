#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/base/bfloat16.h"
#include "engine/field/kernels/cpu/bf16_unit.h"

namespace nerf::kernels::cpu {

// A Machine for tile_layers.h in plain C++: TDPBF16PS, TILELOADD and TILESTORED as Intel's manual
// defines them, with the rounding and packing of avx512_pairs-inl.h. With it the layers of the AMX
// unit are tested on machines without AMX.
struct PlainTiles {
  static inline thread_local uint32_t tiles[8][16][16];

  // NaN, so that reads of tiles that were not set show in results.
  static void Configure() { std::memset(tiles, 0xff, sizeof(tiles)); }
  template <int tile>
  static void Zero() {
    std::memset(tiles[tile], 0, sizeof(tiles[tile]));
  }
  template <int tile>
  static void Load(const void* rows, ptrdiff_t bytes) {
    for (int r = 0; r < 16; ++r)
      std::memcpy(tiles[tile][r], static_cast<const char*>(rows) + r * bytes, 64);
  }
  template <int tile>
  static void Save(void* rows, ptrdiff_t bytes) {
    for (int r = 0; r < 16; ++r)
      std::memcpy(static_cast<char*>(rows) + r * bytes, tiles[tile][r], 64);
  }
  template <int c, int a, int b>
  static void Multiply() {
    for (int m = 0; m < 16; ++m) {
      float sums[16];
      std::memcpy(sums, tiles[c][m], sizeof(sums));
      for (int k = 0; k < 16; ++k) {
        const float low = Bf16Low(tiles[a][m][k]), high = Bf16High(tiles[a][m][k]);
        for (int n = 0; n < 16; ++n) {
          sums[n] += low * Bf16Low(tiles[b][k][n]);
          sums[n] += high * Bf16High(tiles[b][k][n]);
        }
      }
      std::memcpy(tiles[c][m], sums, sizeof(sums));
    }
  }

  static void PackRow(const float* values, int n_values, uint32_t* words) {
    for (int i = 0; i < (n_values + 31) / 32 * 32; i += 2) {
      const float low = i < n_values ? values[i] : 0, high = i + 1 < n_values ? values[i + 1] : 0;
      words[i / 2] = Bf16Pair(low, high);
    }
  }
  static void PackColumns(const float* values, ptrdiff_t stride, int n_rows, int n_values,
                          int n_columns, uint32_t* words) {
    for (int row = 0; row < n_rows; row += 2, words += n_columns) {
      const float* const even = values + row * stride;
      for (int c = 0; c < n_columns; ++c) {
        const float low = c < n_values ? even[c] : 0;
        words[c] = Bf16Pair(low, c < n_values && row + 1 < n_rows ? even[stride + c] : 0);
      }
    }
  }
  static void StoreRows(const float* sums, ptrdiff_t stride, int n_rows, int n_columns,
                        const GemmOutput& to, int first_row) {
    for (int r = 0; r < n_rows; ++r) {
      for (int c = 0; c < n_columns; ++c) {
        const int row = first_row + r;
        float* const out = to.values + row * to.stride + c;
        float sum = sums[r * stride + c];
        if (to.accumulate) sum += *out;
        if (to.relu) sum = std::max(sum, 0.0f);
        if (to.gate != nullptr && !(to.gate[row * to.gate_stride + c] > 0)) sum = 0;
        *out = sum;
      }
    }
  }
};

}  // namespace nerf::kernels::cpu
