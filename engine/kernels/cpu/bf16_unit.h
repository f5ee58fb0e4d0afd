#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/dense_layer.h"

namespace nerf::kernels::cpu {

// What multiplies layers in bf16 with fp32 sums: the dense layers of kernels/dense_layer.h of at
// most kMaxBf16Width values on either side, with operands rounded to bf16 (to nearest, ties to
// even); what goes in and comes out stays fp32. Operands are words of two neighbors along the
// summed dimension, the even one in the low half, which is what the instructions of AVX512_BF16 and
// AMX take:
//   c[r][n] = sum_p a[r][p].low * b[p][n].low + a[r][p].high * b[p][n].high
// This header has no library in it, since files with compiler flags of their own include it: their
// copies of inline functions must not reach other machines, so what is here has internal linkage.
// Each unit is deterministic; two differ in how they round sums.
struct Bf16Unit {
  const char* name = nullptr;
  void (*forward)(const DenseForwardParams&) = nullptr;
  void (*backward_input)(const DenseBackwardInputParams&) = nullptr;
  void (*backward_weights)(const DenseBackwardWeightsParams&) = nullptr;
  // As PackColumns of avx512_pairs-inl.h.
  void (*pack_columns)(const float* values, ptrdiff_t stride, int n_rows, int n_values,
                       int n_columns, uint32_t* words) = nullptr;
};
inline constexpr int kMaxBf16Width = 128;
inline constexpr int kMaxRowPairs = kMaxBf16Width / 2;  // of a row

// What happens to sums before they are stored; pointers to the block's first.
struct GemmOutput {
  float* values = nullptr;
  ptrdiff_t stride = 0;
  bool relu = false;
  bool accumulate = false;
  const float* gate = nullptr;
  ptrdiff_t gate_stride = 0;
};

// Rows of pairs, or of sums, that are `step` apart.
template <typename T>
struct Rows {
  T* first = nullptr;
  ptrdiff_t step = 0;
};
using PairMatrix = Rows<const uint32_t>;

namespace {

inline int Smaller(int a, int b) { return a < b ? a : b; }
inline int RoundUpTo16(int n) { return (n + 15) / 16 * 16; }

// Zeros after the pairs of n_rows rows of values, to a multiple of 16 rows of pairs.
inline void FillWithZeros(int n_rows, int n_columns, uint32_t* words) {
  const int n_pairs = (n_rows + 1) / 2;
  for (int i = n_pairs * n_columns; i < RoundUpTo16(n_pairs) * n_columns; ++i) words[i] = 0;
}

// A layer's weights as pairs along columns: those that the caller made, or `made`, filled here.
template <typename Machine>
PairMatrix PackedWeights(const float* weights, const uint32_t* pairs, ptrdiff_t stride, int n_rows,
                         int n_columns, uint32_t* made) {
  if (pairs != nullptr) return {pairs, stride};
  FillWithZeros(n_rows, n_columns, made);
  Machine::PackColumns(weights, stride, n_rows, n_columns, n_columns, made);
  return {made, n_columns};
}

// The layers by multiply_rows(n_rows, n_k, n_columns, a, a_stride, b, to), a unit's own product:
// to[m][n] = sum_k a[m][k] * b[k][n], with rows of pairs in b up to a multiple of 16, and n_columns
// a multiple of 16.
template <typename Machine, auto multiply_rows>
void Bf16Forward(const DenseForwardParams& p) {
  alignas(64) uint32_t made[kMaxRowPairs * kMaxBf16Width];
  multiply_rows(
      p.n_rows, p.n_in, p.n_out, p.inputs, p.input_stride,
      PackedWeights<Machine>(p.weights, p.weight_pairs, p.n_out, p.n_in, p.n_out, made),
      {.values = p.outputs, .stride = p.output_stride, .relu = p.relu, .accumulate = p.accumulate});
}

template <typename Machine, auto multiply_rows>
void Bf16BackwardInput(const DenseBackwardInputParams& p) {
  alignas(64) uint32_t made[kMaxRowPairs * kMaxBf16Width];
  const int stride = p.weight_stride > 0 ? p.weight_stride : p.n_in;
  multiply_rows(p.n_rows, p.n_out, p.n_in, p.grad_outputs, p.grad_output_stride,
                PackedWeights<Machine>(p.weights, p.weight_pairs, stride, p.n_out, p.n_in, made),
                {.values = p.grad_inputs,
                 .stride = p.grad_input_stride,
                 .gate = p.gate,
                 .gate_stride = p.gate_stride});
}

}  // namespace

// nullptr where the build or the machine lacks what they need.
const Bf16Unit* Avx512Bf16Unit();
const Bf16Unit* AmxUnit();
// Loops in place of AMX's instructions, which every machine has: slow, for tests.
const Bf16Unit* PlainBf16Unit();

}  // namespace nerf::kernels::cpu
