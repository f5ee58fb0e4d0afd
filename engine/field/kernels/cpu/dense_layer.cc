#include "engine/field/kernels/dense_layer.h"

#include <cstddef>

#include "engine/field/kernels/cpu/bf16_units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/dense_layer.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A register tile: 16 accumulators on targets with 32 registers, 12 on those with 16. Two
// multiply-adds start per cycle and take four, so fewer than 8 accumulators would stall.
constexpr int kWide = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // vectors across its columns
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 4 : 6;

// sums[r][v] += sum_k a[r * a_row + k * a_step] * b[k * b_step + v * lanes].
template <int rows, int vectors>
HWY_INLINE void MultiplyTile(int n_k, const float* a, ptrdiff_t a_row, ptrdiff_t a_step,
                             const float* b, ptrdiff_t b_step, V (&sums)[rows][vectors]) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (int k = 0; k < n_k; ++k) {
    V row[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) row[v] = hn::LoadU(d, b + k * b_step + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const V scalar = hn::Set(d, a[r * a_row + k * a_step]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(scalar, row[v], sums[r][v]);
    }
  }
}

// What is applied to a tile of products before it is stored.
struct StoreOptions {
  bool relu = false;
  bool accumulate = false;
  const float* gate = nullptr;
  ptrdiff_t gate_stride = 0;
};

template <int rows, int vectors>
HWY_INLINE void MultiplyAndStore(int n_k, const float* a, ptrdiff_t a_row, ptrdiff_t a_step,
                                 const float* b, ptrdiff_t b_step, float* c, ptrdiff_t c_stride,
                                 const StoreOptions& options) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = hn::Zero(d);
  }
  MultiplyTile<rows, vectors>(n_k, a, a_row, a_step, b, b_step, sums);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      V value = sums[r][v];
      float* out = c + r * c_stride + v * lanes;
      if (options.accumulate) value = hn::Add(value, hn::LoadU(d, out));
      if (options.relu) value = hn::Max(value, hn::Zero(d));
      if (options.gate != nullptr) {
        const V gate = hn::LoadU(d, options.gate + r * options.gate_stride + v * lanes);
        value = hn::IfThenElseZero(hn::Gt(gate, hn::Zero(d)), value);
      }
      hn::StoreU(value, d, out);
    }
  }
}

// c[m][n] = sum_k a[m * a_row + k * a_step] * b[k * b_step + n], tiles of kRows rows and up to
// kWide vectors.
HWY_INLINE void Multiply(int n_rows, int n_k, int n_columns, const float* a, ptrdiff_t a_row,
                         ptrdiff_t a_step, const float* b, ptrdiff_t b_step, float* c,
                         ptrdiff_t c_stride, StoreOptions options) {
  const int lanes = static_cast<int>(hn::Lanes(D()));
  const float* const gate = options.gate;
  const auto columns = [&]<int rows>(int m) HWY_ATTR {
    int column = 0;
    const auto tile = [&]<int vectors>() HWY_ATTR {
      for (; column + vectors * lanes <= n_columns; column += vectors * lanes) {
        if (gate != nullptr) options.gate = gate + m * options.gate_stride + column;
        MultiplyAndStore<rows, vectors>(n_k, a + m * a_row, a_row, a_step, b + column, b_step,
                                        c + m * c_stride + column, c_stride, options);
      }
    };
    tile.template operator()<kWide>();
    if constexpr (kWide > 2) tile.template operator()<2>();
    tile.template operator()<1>();
  };
  int m = 0;
  for (; m + kRows <= n_rows; m += kRows) columns.template operator()<kRows>(m);
  for (; m + 2 <= n_rows; m += 2) columns.template operator()<2>(m);
  if (m < n_rows) columns.template operator()<1>(m);
}

void DenseForward(const DenseForwardParams& p) {
  Multiply(p.n_rows, p.n_in, p.n_out, p.inputs, p.input_stride, 1, p.weights, p.n_out, p.outputs,
           p.output_stride, {.relu = p.relu, .accumulate = p.accumulate});
}

void DenseBackwardInput(const DenseBackwardInputParams& p) {
  Multiply(p.n_rows, p.n_out, p.n_in, p.grad_outputs, p.grad_output_stride, 1, p.weights,
           p.weight_stride > 0 ? p.weight_stride : p.n_in, p.grad_inputs, p.grad_input_stride,
           {.gate = p.gate, .gate_stride = p.gate_stride});
}

void DenseBackwardWeights(const DenseBackwardWeightsParams& p) {
  Multiply(p.n_in, p.n_rows, p.n_out, p.inputs, 1, p.input_stride, p.grad_outputs,
           p.grad_output_stride, p.grad_weights, p.n_out, {.accumulate = true});
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(DenseForward);
HWY_EXPORT(DenseBackwardInput);
HWY_EXPORT(DenseBackwardWeights);
namespace cpu {
namespace {

// The unit that multiplies a layer in bf16; nullptr if the layer is multiplied in fp32.
const Bf16Unit* UnitFor(int n_in, int n_out) {
  return n_in <= kMaxBf16Width && n_out <= kMaxBf16Width ? SelectedBf16Unit() : nullptr;
}

}  // namespace

bool UsesBf16Layers() { return SelectedBf16Unit() != nullptr; }

void PackBf16Pairs(int n_rows, int n_columns, const float* values, uint32_t* pairs) {
  const Bf16Unit* const unit = SelectedBf16Unit();
  if (unit != nullptr) unit->pack_columns(values, n_columns, n_rows, n_columns, n_columns, pairs);
}

void DenseForward(const DenseForwardParams& params) {
  if (const Bf16Unit* unit = UnitFor(params.n_in, params.n_out); unit != nullptr)
    return unit->forward(params);
  HWY_DYNAMIC_DISPATCH(DenseForward)(params);
}
void DenseBackwardInput(const DenseBackwardInputParams& params) {
  if (const Bf16Unit* unit = UnitFor(params.n_in, params.n_out); unit != nullptr)
    return unit->backward_input(params);
  HWY_DYNAMIC_DISPATCH(DenseBackwardInput)(params);
}
void DenseBackwardWeights(const DenseBackwardWeightsParams& params) {
  if (const Bf16Unit* unit = UnitFor(params.n_in, params.n_out); unit != nullptr)
    return unit->backward_weights(params);
  HWY_DYNAMIC_DISPATCH(DenseBackwardWeights)(params);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
