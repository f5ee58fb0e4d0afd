#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/field/kernels/dense_layer.h"

namespace nerf::kernels::cpu {

// An implementation of the dense layers (kernels/dense_layer.h) that multiplies in bf16 with fp32
// sums. Inputs and outputs are fp32; operands are rounded to bf16 (to nearest, ties to even). For
// layers of at most kMaxBf16Width inputs and outputs. Operands are packed in words of two neighbors
// along the summed dimension, the even one in the low half, as the instructions of AVX512_BF16 and
// AMX require:
//   c[r][n] = sum_p a[r][p].low * b[p][n].low + a[r][p].high * b[p][n].high
// Each unit is deterministic; units differ in how sums are rounded.
// Files with compiler flags of their own include this header. So it includes no library, and its
// functions have internal linkage: the linker must not use their copies on other machines.
struct Bf16Unit {
  const char* name = nullptr;
  void (*forward)(const DenseForwardParams&) = nullptr;
  void (*backward_input)(const DenseBackwardInputParams&) = nullptr;
  void (*backward_weights)(const DenseBackwardWeightsParams&) = nullptr;
  // As PackColumns of avx512_pairs-inl.h.
  void (*pack_columns)(const float* values, ptrdiff_t stride, int n_rows, int n_values,
                       int n_columns, uint32_t* words) = nullptr;
};
inline constexpr int kMaxBf16Width = 256;
inline constexpr int kMaxRowPairs = kMaxBf16Width / 2;  // pairs per row

// The output of a product: sums are stored at values[row * stride + column], after adding the old
// value (accumulate), max(x, 0) (relu), and zeroing where gate <= 0, each if asked for.
struct GemmOutput {
  float* values = nullptr;
  ptrdiff_t stride = 0;
  bool relu = false;
  bool accumulate = false;
  const float* gate = nullptr;
  ptrdiff_t gate_stride = 0;
};

// A matrix of words or sums whose rows are `step` elements apart.
template <typename T>
struct Rows {
  T* first = nullptr;
  ptrdiff_t step = 0;
};
using PairMatrix = Rows<const uint32_t>;

namespace {

inline int Min(int a, int b) { return a < b ? a : b; }
inline int RoundUpTo16(int n) { return (n + 15) / 16 * 16; }

// Fills up the pairs of n_rows rows of values with zeros to a multiple of 16 rows of pairs.
inline void FillWithZeros(int n_rows, int n_columns, uint32_t* words) {
  const int n_pairs = (n_rows + 1) / 2;
  for (int i = n_pairs * n_columns; i < RoundUpTo16(n_pairs) * n_columns; ++i) words[i] = 0;
}

// A layer's weights packed along columns: `pairs` if the caller has them, else packed into
// `buffer`.
template <typename Machine>
PairMatrix PackedWeights(const float* weights, const uint32_t* pairs, ptrdiff_t stride, int n_rows,
                         int n_columns, uint32_t* buffer) {
  if (pairs != nullptr) return {pairs, stride};
  FillWithZeros(n_rows, n_columns, buffer);
  Machine::PackColumns(weights, stride, n_rows, n_columns, n_columns, buffer);
  return {buffer, n_columns};
}

// The forward pass and the gradient by the inputs, given a unit's product
//   multiply_rows(n_rows, n_k, n_columns, a, a_stride, b, to): to[m][n] = sum_k a[m][k] * b[k][n].
// b has a multiple of 16 rows of pairs; n_columns is a multiple of 16.
template <typename Machine, auto multiply_rows>
void Bf16Forward(const DenseForwardParams& p) {
  alignas(64) uint32_t buffer[kMaxRowPairs * kMaxBf16Width];
  multiply_rows(
      p.n_rows, p.n_in, p.n_out, p.inputs, p.input_stride,
      PackedWeights<Machine>(p.weights, p.weight_pairs, p.n_out, p.n_in, p.n_out, buffer),
      {.values = p.outputs, .stride = p.output_stride, .relu = p.relu, .accumulate = p.accumulate});
}

template <typename Machine, auto multiply_rows>
void Bf16BackwardInput(const DenseBackwardInputParams& p) {
  alignas(64) uint32_t buffer[kMaxRowPairs * kMaxBf16Width];
  const int stride = p.weight_stride > 0 ? p.weight_stride : p.n_in;
  multiply_rows(p.n_rows, p.n_out, p.n_in, p.grad_outputs, p.grad_output_stride,
                PackedWeights<Machine>(p.weights, p.weight_pairs, stride, p.n_out, p.n_in, buffer),
                {.values = p.grad_inputs,
                 .stride = p.grad_input_stride,
                 .gate = p.gate,
                 .gate_stride = p.gate_stride});
}

}  // namespace

// nullptr if the compiler or the machine lacks the instructions.
const Bf16Unit* Avx512Bf16Unit();
const Bf16Unit* AmxUnit();

}  // namespace nerf::kernels::cpu
