#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/pair_product.h"

namespace nerf::kernels::cpu {

// PairProduct by tiles of 16 rows of 64 bytes, as AMX has them: an A tile holds 16 rows of 16
// pairs, a B tile 16 pairs of 16 columns, a C tile 16 rows of 16 sums. Source: Intel Architecture
// Instruction Set Extensions, TDPBF16PS.
//
// Tiles is the hardware, or what stands in for it in tests. It has eight tiles by number and
//   static void Begin(), End();                              around all other calls
//   template <int tile> static void Zero();
//   template <int tile> static void Load(const void* rows, ptrdiff_t bytes);  rows `bytes` apart
//   template <int tile> static void Store(void* rows, ptrdiff_t bytes);
//   template <int c, int a, int b> static void Multiply();   c += a * b
// All templates are in headers that only files with their own compiler flags and tests include:
// internal linkage keeps code for one instruction set from standing in for another's.
namespace {

inline constexpr int kTileSide = 16;

// to[c * to_step + r] = from[r * from_step + c] for 16 x 16 words: four rounds in which the rows'
// words interleave with those of the row eight further down.
inline void TransposeWords(const uint32_t* from, ptrdiff_t from_step, uint32_t* to,
                           ptrdiff_t to_step) {
  typedef uint32_t Row __attribute__((vector_size(64), aligned(4)));
  Row rows[kTileSide], turned[kTileSide];
  for (int r = 0; r < kTileSide; ++r) rows[r] = *reinterpret_cast<const Row*>(from + r * from_step);
  for (int round = 0; round < 4; ++round) {
    for (int r = 0; r < kTileSide / 2; ++r) {
      const Row upper = rows[r], lower = rows[r + kTileSide / 2];
      turned[2 * r] = __builtin_shufflevector(upper, lower, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                              21, 6, 22, 7, 23);
      turned[2 * r + 1] = __builtin_shufflevector(upper, lower, 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                  28, 13, 29, 14, 30, 15, 31);
    }
    for (int r = 0; r < kTileSide; ++r) rows[r] = turned[r];
  }
  for (int r = 0; r < kTileSide; ++r) *reinterpret_cast<Row*>(to + r * to_step) = rows[r];
}

// Sums of 32 rows and 32 columns, or half of either: four C tiles share two A and two B tiles.
template <typename Tiles, int tile_rows, int tile_columns>
void MultiplyTiles(const PairProductParams& params, const uint32_t* a, ptrdiff_t a_step, int row,
                   int column) {
  const ptrdiff_t a_bytes = a_step * 4, n_bytes = static_cast<ptrdiff_t>(params.n_columns) * 4;
  Tiles::template Zero<0>();
  if constexpr (tile_columns == 2) Tiles::template Zero<1>();
  if constexpr (tile_rows == 2) Tiles::template Zero<2>();
  if constexpr (tile_rows == 2 && tile_columns == 2) Tiles::template Zero<3>();
  for (int p = 0; p < params.n_pairs; p += kTileSide) {
    const uint32_t* const a_tile = a + row * a_step + p;
    const uint32_t* const b_tile = params.b + static_cast<ptrdiff_t>(p) * params.n_columns + column;
    Tiles::template Load<4>(a_tile, a_bytes);
    Tiles::template Load<6>(b_tile, n_bytes);
    Tiles::template Multiply<0, 4, 6>();
    if constexpr (tile_columns == 2) {
      Tiles::template Load<7>(b_tile + kTileSide, n_bytes);
      Tiles::template Multiply<1, 4, 7>();
    }
    if constexpr (tile_rows == 2) {
      Tiles::template Load<5>(a_tile + kTileSide * a_step, a_bytes);
      Tiles::template Multiply<2, 5, 6>();
      if constexpr (tile_columns == 2) Tiles::template Multiply<3, 5, 7>();
    }
  }
  float* const c = params.c + static_cast<ptrdiff_t>(row) * params.n_columns + column;
  float* const c_lower = c + static_cast<ptrdiff_t>(kTileSide) * params.n_columns;
  Tiles::template Store<0>(c, n_bytes);
  if constexpr (tile_columns == 2) Tiles::template Store<1>(c + kTileSide, n_bytes);
  if constexpr (tile_rows == 2) Tiles::template Store<2>(c_lower, n_bytes);
  if constexpr (tile_rows == 2 && tile_columns == 2)
    Tiles::template Store<3>(c_lower + kTileSide, n_bytes);
}

template <typename Tiles>
void TileProduct(const PairProductParams& params) {
  alignas(64) uint32_t turned[kMaxPairRows * kMaxPairs];
  const uint32_t* a = params.a;
  ptrdiff_t a_step = params.row_step;
  if (params.pair_step != 1) {  // tiles are loaded by rows
    for (int p = 0; p < params.n_pairs; p += kTileSide) {
      for (int r = 0; r < params.n_rows; r += kTileSide) {
        TransposeWords(params.a + p * params.pair_step + r, params.pair_step,
                       turned + static_cast<ptrdiff_t>(r) * params.n_pairs + p, params.n_pairs);
      }
    }
    a = turned;
    a_step = params.n_pairs;
  }
  Tiles::Begin();
  for (int row = 0; row < params.n_rows; row += 2 * kTileSide) {
    const bool two_rows = row + kTileSide < params.n_rows;
    for (int column = 0; column < params.n_columns; column += 2 * kTileSide) {
      const bool two_columns = column + kTileSide < params.n_columns;
      if (two_rows && two_columns) {
        MultiplyTiles<Tiles, 2, 2>(params, a, a_step, row, column);
      } else if (two_rows) {
        MultiplyTiles<Tiles, 2, 1>(params, a, a_step, row, column);
      } else if (two_columns) {
        MultiplyTiles<Tiles, 1, 2>(params, a, a_step, row, column);
      } else {
        MultiplyTiles<Tiles, 1, 1>(params, a, a_step, row, column);
      }
    }
  }
  Tiles::End();
}

}  // namespace
}  // namespace nerf::kernels::cpu
