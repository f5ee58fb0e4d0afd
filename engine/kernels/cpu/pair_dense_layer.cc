#include "engine/kernels/cpu/pair_dense_layer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/pair_dense_layer.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMaxWidth = cpu::kMaxPairRows;
static_assert(kMaxWidth == 2 * cpu::kMaxPairs);
constexpr int kForwardRows = 64;                 // that go through a product together
constexpr int kSummedRows = 2 * cpu::kMaxPairs;  // of a weight gradient's product
constexpr int kMultiple = 16;                    // of rows and columns

int RoundUp(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// The nearest bf16 in the upper half of each word, ties to even; the lower half is left over.
template <class DU, class DF>
HWY_INLINE hn::Vec<DU> RoundToUpperHalf(DU du, DF, hn::Vec<DF> value) {
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
}

uint16_t Round(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + ((bits >> 16) & 1) + 0x7fffu) >> 16);
}

// Neighbours in a row: pairs[r][p] holds values 2 p and 2 p + 1 of row r. Rows are n_pairs words
// long, n_rows of them, of which the last ones and the ends are zeros where values lack.
HWY_INLINE void PairAlongRows(const float* values, int stride, int n_values_rows, int n_values,
                              int n_rows, int n_pairs, uint32_t* pairs) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> du16;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int r = 0; r < n_rows; ++r) {
    uint32_t* const out = pairs + static_cast<ptrdiff_t>(r) * n_pairs;
    int i = 0;  // even at the vectors' end
    if (r < n_values_rows) {
      const float* const row = values + static_cast<ptrdiff_t>(r) * stride;
      for (; i + lanes <= n_values; i += lanes) {
        const auto rounded = hn::ShiftRight<16>(RoundToUpperHalf(du, d, hn::LoadU(d, row + i)));
        hn::StoreU(hn::TruncateTo(du16, rounded), du16, reinterpret_cast<uint16_t*>(out) + i);
      }
      for (; i < n_values; i += 2) {
        const uint32_t high = i + 1 < n_values ? Round(row[i + 1]) : 0;
        out[i / 2] = Round(row[i]) | high << 16;
      }
    }
    std::fill(out + i / 2, out + n_pairs, 0);
  }
}

// Neighbours in a column: pairs[p][c] holds value c of rows 2 p and 2 p + 1, zeros where rows or
// columns lack. n_columns is a multiple of 16.
HWY_INLINE void PairAlongColumns(const float* values, int stride, int n_values_rows, int n_values,
                                 int n_pairs, int n_columns, uint32_t* pairs) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto upper_half = hn::Set(du, 0xffff0000u);
  for (int p = 0; p < n_pairs; ++p) {
    uint32_t* const out = pairs + static_cast<ptrdiff_t>(p) * n_columns;
    const float* const even = values + static_cast<ptrdiff_t>(2 * p) * stride;
    const float* const odd = even + stride;
    const bool has_even = 2 * p < n_values_rows, has_odd = 2 * p + 1 < n_values_rows;
    int c = 0;
    if (has_odd) {
      for (; c + lanes <= n_values; c += lanes) {
        const auto low = hn::ShiftRight<16>(RoundToUpperHalf(du, d, hn::LoadU(d, even + c)));
        const auto high = hn::And(RoundToUpperHalf(du, d, hn::LoadU(d, odd + c)), upper_half);
        hn::StoreU(hn::Or(low, high), du, out + c);
      }
    }
    for (; c < n_columns; ++c) {
      const uint32_t low = has_even && c < n_values ? Round(even[c]) : 0;
      const uint32_t high = has_odd && c < n_values ? Round(odd[c]) : 0;
      out[c] = low | high << 16;
    }
  }
}

// What happens to products before they are stored.
struct StoreOptions {
  bool relu = false;
  bool accumulate = false;
  const float* gate = nullptr;
  int gate_stride = 0;
};

// c[m][n] = sum_k a[m][k] * b[k][n], some rows at a time; strides are in floats.
void MultiplyRows(const cpu::PairUnit& unit, int n_rows, int n_k, int n_columns, const float* a,
                  int a_stride, const float* b, int b_stride, float* c, int c_stride,
                  const StoreOptions& options) {
  const hn::CappedTag<float, kMultiple> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  alignas(64) uint32_t a_pairs[kForwardRows * kMaxWidth / 2], b_pairs[kMaxWidth / 2 * kMaxWidth];
  alignas(64) float sums[kForwardRows * kMaxWidth];
  const int n_pairs = RoundUp((n_k + 1) / 2, unit.pair_block);
  PairAlongColumns(b, b_stride, n_k, n_columns, n_pairs, n_columns, b_pairs);
  for (int row = 0; row < n_rows; row += kForwardRows) {
    const int n = std::min(kForwardRows, n_rows - row), n_padded = RoundUp(n, kMultiple);
    PairAlongRows(a + static_cast<ptrdiff_t>(row) * a_stride, a_stride, n, n_k, n_padded, n_pairs,
                  a_pairs);
    unit.product({n_padded, n_pairs, n_columns, a_pairs, n_pairs, 1, b_pairs, sums});
    for (int r = 0; r < n; ++r) {
      const float* const from = sums + r * n_columns;
      float* const to = c + static_cast<ptrdiff_t>(row + r) * c_stride;
      const ptrdiff_t gate_row = static_cast<ptrdiff_t>(row + r) * options.gate_stride;
      for (int column = 0; column < n_columns; column += lanes) {
        auto value = hn::Load(d, from + column);
        if (options.accumulate) value = hn::Add(value, hn::LoadU(d, to + column));
        if (options.relu) value = hn::Max(value, zero);
        if (options.gate != nullptr) {
          const auto gate = hn::LoadU(d, options.gate + gate_row + column);
          value = hn::IfThenElseZero(hn::Gt(gate, zero), value);
        }
        hn::StoreU(value, d, to + column);
      }
    }
  }
}

void Forward(const cpu::PairUnit& unit, const DenseForwardParams& p) {
  MultiplyRows(unit, p.n_rows, p.n_in, p.n_out, p.inputs, p.input_stride, p.weights, p.n_out,
               p.outputs, p.output_stride, {.relu = p.relu, .accumulate = p.accumulate});
}

void BackwardInput(const cpu::PairUnit& unit, const DenseBackwardInputParams& p) {
  MultiplyRows(unit, p.n_rows, p.n_out, p.n_in, p.grad_outputs, p.grad_output_stride, p.weights,
               p.weight_stride > 0 ? p.weight_stride : p.n_in, p.grad_inputs, p.grad_input_stride,
               {.gate = p.gate, .gate_stride = p.gate_stride});
}

void BackwardWeights(const cpu::PairUnit& unit, const DenseBackwardWeightsParams& p) {
  const hn::CappedTag<float, kMultiple> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) uint32_t inputs[kSummedRows / 2 * kMaxWidth], grads[kSummedRows / 2 * kMaxWidth];
  alignas(64) float sums[kMaxWidth * kMaxWidth];
  const int n_in = RoundUp(p.n_in, kMultiple);
  for (int row = 0; row < p.n_rows; row += kSummedRows) {
    const int n = std::min(kSummedRows, p.n_rows - row);
    const int n_pairs = RoundUp((n + 1) / 2, unit.pair_block);
    PairAlongColumns(p.inputs + static_cast<ptrdiff_t>(row) * p.input_stride, p.input_stride, n,
                     p.n_in, n_pairs, n_in, inputs);
    PairAlongColumns(p.grad_outputs + static_cast<ptrdiff_t>(row) * p.grad_output_stride,
                     p.grad_output_stride, n, p.n_out, n_pairs, p.n_out, grads);
    unit.product({n_in, n_pairs, p.n_out, inputs, 1, n_in, grads, sums});
    for (int i = 0; i < p.n_in * p.n_out; i += lanes) {
      float* const to = p.grad_weights + i;
      hn::StoreU(hn::Add(hn::LoadU(d, to), hn::Load(d, sums + i)), d, to);
    }
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(Forward);
HWY_EXPORT(BackwardInput);
HWY_EXPORT(BackwardWeights);
namespace cpu {

bool FitsPairs(int n_in, int n_out) { return n_in <= kMaxPairRows && n_out <= kMaxPairRows; }

void PairDenseForward(const PairUnit& unit, const DenseForwardParams& params) {
  if (unit.layers != nullptr) return unit.layers->forward(params);
  HWY_DYNAMIC_DISPATCH(Forward)(unit, params);
}
void PairDenseBackwardInput(const PairUnit& unit, const DenseBackwardInputParams& params) {
  if (unit.layers != nullptr) return unit.layers->backward_input(params);
  HWY_DYNAMIC_DISPATCH(BackwardInput)(unit, params);
}
void PairDenseBackwardWeights(const PairUnit& unit, const DenseBackwardWeightsParams& params) {
  if (unit.layers != nullptr) return unit.layers->backward_weights(params);
  HWY_DYNAMIC_DISPATCH(BackwardWeights)(unit, params);
}

}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
