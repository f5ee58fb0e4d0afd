#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/field/kernels/cpu/bf16_unit.h"

namespace nerf::kernels::cpu {

// Layers by AMX tiles of 16 rows of 64 bytes: an A tile holds 16 rows of 16 pairs, a B tile 16
// pairs of 16 columns, a C tile 16 rows of 16 sums. Source: Intel Architecture Instruction Set
// Extensions, TDPBF16PS.
//
// Machine is AMX or an emulation of it (tests/testing/plain_tiles.h). It has eight numbered tiles,
//   static void Configure();                                 called before the others
//   template <int tile> static void Zero();
//   template <int tile> static void Load(const void* rows, ptrdiff_t bytes);  rows `bytes` apart
//   template <int tile> static void Save(void* rows, ptrdiff_t bytes);
//   template <int c, int a, int b> static void Multiply();   c += a * b
// and the functions PackRow, PackColumns and StoreRows of avx512_pairs-inl.h.
// Files with compiler flags of their own include this header. Internal linkage, so that the linker
// cannot use their code in files for other instruction sets.
namespace {

inline constexpr int kTileSide = 16;

// to[c * to_step + r] = from[r * from_step + c] for 16 x 16 words, in four rounds that each
// interleave the words of row r with those of row r + 8.
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

template <typename T>
T* At(const Rows<T>& rows, int row, int column) {
  return rows.first + row * rows.step + column;
}
template <typename T>
ptrdiff_t Bytes(const Rows<T>& rows) {
  return rows.step * static_cast<ptrdiff_t>(sizeof(T));
}

// c = a * b or, with `add`, c += a * b. n_pairs is a multiple of 16; c has tile_rows by
// tile_columns tiles, one or two each: up to four C tiles share two A and two B tiles.
template <typename Machine, bool add, int tile_rows, int tile_columns>
void MultiplyTiles(const PairMatrix& a, const PairMatrix& b, int n_pairs, const Rows<float>& c) {
  const auto each_sum = [&]<typename Do>(Do do_with) {
    do_with.template operator()<0>(At(c, 0, 0));
    if constexpr (tile_columns == 2) do_with.template operator()<1>(At(c, 0, kTileSide));
    if constexpr (tile_rows == 2) do_with.template operator()<2>(At(c, kTileSide, 0));
    if constexpr (tile_rows == 2 && tile_columns == 2)
      do_with.template operator()<3>(At(c, kTileSide, kTileSide));
  };
  each_sum([&]<int tile>(const float* sums) {
    if constexpr (add) {
      Machine::template Load<tile>(sums, Bytes(c));
    } else {
      Machine::template Zero<tile>();
    }
  });
  for (int p = 0; p < n_pairs; p += kTileSide) {
    Machine::template Load<4>(At(a, 0, p), Bytes(a));
    Machine::template Load<6>(At(b, p, 0), Bytes(b));
    Machine::template Multiply<0, 4, 6>();
    if constexpr (tile_columns == 2) {
      Machine::template Load<7>(At(b, p, kTileSide), Bytes(b));
      Machine::template Multiply<1, 4, 7>();
    }
    if constexpr (tile_rows == 2) {
      Machine::template Load<5>(At(a, kTileSide, p), Bytes(a));
      Machine::template Multiply<2, 5, 6>();
      if constexpr (tile_columns == 2) Machine::template Multiply<3, 5, 7>();
    }
  }
  each_sum([&]<int tile>(float* sums) { Machine::template Save<tile>(sums, Bytes(c)); });
}

// The same for any number of rows and columns that are multiples of 16.
template <typename Machine, bool add>
void MultiplyAll(int n_rows, int n_columns, const PairMatrix& a, const PairMatrix& b, int n_pairs,
                 const Rows<float>& c) {
  for (int row = 0; row < n_rows; row += 2 * kTileSide) {
    const bool two_rows = row + kTileSide < n_rows;
    for (int column = 0; column < n_columns; column += 2 * kTileSide) {
      const bool two_columns = column + kTileSide < n_columns;
      const PairMatrix left{At(a, row, 0), a.step}, right{At(b, 0, column), b.step};
      const Rows<float> sums{At(c, row, column), c.step};
      if (two_rows && two_columns) {
        MultiplyTiles<Machine, add, 2, 2>(left, right, n_pairs, sums);
      } else if (two_rows) {
        MultiplyTiles<Machine, add, 2, 1>(left, right, n_pairs, sums);
      } else if (two_columns) {
        MultiplyTiles<Machine, add, 1, 2>(left, right, n_pairs, sums);
      } else {
        MultiplyTiles<Machine, add, 1, 1>(left, right, n_pairs, sums);
      }
    }
  }
}

// The multiply_rows of Bf16Forward and Bf16BackwardInput: 32 rows at a time, to stay in the L1
// cache.
template <typename Machine>
void MultiplyRows(int n_rows, int n_k, int n_columns, const float* a, ptrdiff_t a_stride,
                  const PairMatrix& b, const GemmOutput& to) {
  constexpr int kRows = 2 * kTileSide;
  alignas(64) uint32_t a_words[kRows * kMaxRowPairs];
  alignas(64) float sums[kRows * kMaxBf16Width];
  const int n_pairs = RoundUpTo16((n_k + 1) / 2);
  const bool stores_plain_sums = !to.relu && !to.accumulate && to.gate == nullptr;
  Machine::Configure();
  for (int row = 0; row < n_rows; row += kRows) {
    const int n = Min(kRows, n_rows - row), n_padded = RoundUpTo16(n);
    for (int r = 0; r < n; ++r)
      Machine::PackRow(a + (row + r) * a_stride, n_k, a_words + r * n_pairs);
    for (int i = n * n_pairs; i < n_padded * n_pairs; ++i) a_words[i] = 0;
    if (stores_plain_sums && n == n_padded) {
      MultiplyAll<Machine, false>(n, n_columns, {a_words, n_pairs}, b, n_pairs,
                                  {to.values + row * to.stride, to.stride});
    } else {
      MultiplyAll<Machine, false>(n_padded, n_columns, {a_words, n_pairs}, b, n_pairs,
                                  {sums, n_columns});
      Machine::StoreRows(sums, n_columns, n, n_columns, to, row);
    }
  }
}

template <typename Machine>
void TileForward(const DenseForwardParams& p) {
  Bf16Forward<Machine, MultiplyRows<Machine>>(p);
}

template <typename Machine>
void TileBackwardInput(const DenseBackwardInputParams& p) {
  Bf16BackwardInput<Machine, MultiplyRows<Machine>>(p);
}

// Packs 16 columns of n_rows rows and transposes: words[c][p]. n_pairs, a row's length, is a
// multiple of 16.
template <typename Machine>
void PackTransposed(const float* values, ptrdiff_t stride, int n_rows, int n_values, int n_pairs,
                    uint32_t* words) {
  alignas(64) uint32_t pairs[kTileSide * kTileSide];
  for (int p = 0; p < n_pairs; p += kTileSide) {
    const int n = Min(2 * kTileSide, n_rows - 2 * p);
    if (n < 2 * kTileSide) FillWithZeros(n, kTileSide, pairs);
    Machine::PackColumns(values + 2 * p * stride, stride, n, n_values, kTileSide, pairs);
    TransposeWords(pairs, kTileSide, words + p, n_pairs);
  }
}

// The sum runs over rows, so neighboring rows are paired. The inputs' pairs are transposed, because
// an A tile has the summed dimension along its rows. 64 rows at a time, to stay in the L1 cache.
template <typename Machine>
void TileBackwardWeights(const DenseBackwardWeightsParams& p) {
  constexpr int kRows = 64;
  alignas(64) uint32_t inputs[2 * kTileSide * kRows / 2], grads[kRows / 2 * kMaxBf16Width];
  alignas(64) float last_sums[kTileSide * kMaxBf16Width];
  const PairMatrix b{grads, p.n_out};
  Machine::Configure();
  for (int row = 0; row < p.n_rows; row += kRows) {
    const int n = Min(kRows, p.n_rows - row), n_pairs = RoundUpTo16((n + 1) / 2);
    const float* const input_rows = p.inputs + static_cast<ptrdiff_t>(row) * p.input_stride;
    FillWithZeros(n, p.n_out, grads);
    Machine::PackColumns(p.grad_outputs + static_cast<ptrdiff_t>(row) * p.grad_output_stride,
                         p.grad_output_stride, n, p.n_out, p.n_out, grads);
    for (int i = 0; i < p.n_in; i += 2 * kTileSide) {
      const int n_inputs = Min(2 * kTileSide, p.n_in - i);
      for (int j = 0; j < n_inputs; j += kTileSide) {
        PackTransposed<Machine>(input_rows + i + j, p.input_stride, n, Min(kTileSide, n_inputs - j),
                                n_pairs, inputs + j * n_pairs);
      }
      const int n_whole = n_inputs / kTileSide * kTileSide;
      float* const sums = p.grad_weights + static_cast<ptrdiff_t>(i) * p.n_out;
      MultiplyAll<Machine, true>(n_whole, p.n_out, {inputs, n_pairs}, b, n_pairs, {sums, p.n_out});
      if (n_whole == n_inputs) continue;
      MultiplyAll<Machine, false>(kTileSide, p.n_out, {inputs + n_whole * n_pairs, n_pairs}, b,
                                  n_pairs, {last_sums, p.n_out});
      for (int k = 0; k < (n_inputs - n_whole) * p.n_out; ++k)
        sums[n_whole * p.n_out + k] += last_sums[k];
    }
  }
}

}  // namespace
}  // namespace nerf::kernels::cpu
