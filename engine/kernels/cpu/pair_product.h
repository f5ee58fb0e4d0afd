#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/dense_layer.h"

namespace nerf::kernels::cpu {

// A product of bf16 matrices in the form that AVX-512-BF16 and AMX have instructions for: operands
// are pairs of neighbours along the summed dimension, the even one in the low half of a word, and
// sums are fp32.
//   c[r][n] = sum_p a[r][p].low * b[p][n].low + a[r][p].high * b[p][n].high
// Pair p of row r of a stands at a[r * row_step + p * pair_step]; one of the steps is 1.
// b [n_pairs][n_columns] and c [n_rows][n_columns] are packed. n_rows and n_columns are multiples
// of 16, n_pairs of the unit's pair_block.
struct PairProductParams {
  int n_rows = 0, n_pairs = 0, n_columns = 0;
  const uint32_t* a = nullptr;
  ptrdiff_t row_step = 0, pair_step = 0;
  const uint32_t* b = nullptr;
  float* c = nullptr;
};
inline constexpr int kMaxPairRows = 128;  // n_rows where row_step is 1
inline constexpr int kMaxPairs = 64;      // n_pairs there

// The dense layers of kernels/dense_layer.h, of at most kMaxPairRows values on either side.
struct PairLayers {
  void (*forward)(const DenseForwardParams&);
  void (*backward_input)(const DenseBackwardInputParams&);
  void (*backward_weights)(const DenseBackwardWeightsParams&);
};

// What a machine multiplies pairs with: a product, around which pair_dense_layer.h rounds and
// arranges operands and stores sums, or layers that do all of it where that is quicker. This header
// has no library in it, since files with compiler flags of their own include it: their copies of
// inline functions must not reach other machines. Each unit is deterministic; two differ in how
// they round.
struct PairUnit {
  const char* name = nullptr;
  int pair_block = 1;
  void (*product)(const PairProductParams&) = nullptr;
  const PairLayers* layers = nullptr;  // null: made of the product
};

// nullptr where the build or the machine lacks what they need.
const PairUnit* Avx512Bf16Unit();
const PairUnit* AmxUnit();

}  // namespace nerf::kernels::cpu
