#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/half_float.h"
#include "engine/field/kernels/stream.h"

// Layers of MLPs of any width on a device, one kernel each, for networks whose weights do not fit
// into a block's shared memory as those of ngp do (ngp_mlp.h). Widths are multiples of 16. Rows of
// all arrays are row-major and as wide as the layer says; row k belongs to element k of the range.
// T = Half multiplies on tensor cores with sums in fp32; T = float is plain fp32, the reference.
// Gradients are clamped to the range of T. All pointers are to device memory, aligned to 32 bytes.
namespace nerf::kernels::cuda {

// Where a layer reads. Row k is that of element k; with `rows` row rows[k]; with `of`, behind that,
// row of[...]: a ray's.
template <typename T>
struct WideInput {
  const T* values = nullptr;
  int width = 0;  // 0: no such input
  const uint32_t* rows = nullptr;
  const uint32_t* of = nullptr;
};

// outputs = inputs * weights + biases, or the ReLU of that. weights [n_in][n_out], of which the
// rows of the first input come first. Work: 2 n_in n_out FLOP per row.
template <typename T>
struct WideForwardParams {
  DeviceRange range;
  WideInput<T> inputs[2];
  int n_out = 0;
  const T* weights = nullptr;
  const T* biases = nullptr;
  bool relu = false;
  T* outputs = nullptr;
};

// grad_inputs = grad_outputs * transposed weights [n_in][n_out], plus `more` unless null, which may
// be grad_inputs; 0 where gate, the ReLU's outputs, is not above 0, unless null.
template <typename T>
struct WideBackwardParams {
  DeviceRange range;
  int n_in = 0, n_out = 0;
  const T* grad_outputs = nullptr;
  const T* weights = nullptr;
  const T* more = nullptr;
  const T* gate = nullptr;
  T* grad_inputs = nullptr;
};

// Gradients are sums over rows in kWideParts parts, each in a fixed order: part p has those of
// [p * part_stride, ...). All of the layer's are written, also where there are no rows.
inline constexpr int kWideParts = 16;
template <typename T>
struct WideGradientParams {
  DeviceRange range;
  WideInput<T> input;
  int n_out = 0;
  const T* grad_outputs = nullptr;
  size_t part_stride = 0;
  float* grad_weights = nullptr;  // [input.width][n_out]
  float* grad_biases = nullptr;   // [n_out]; null: not wanted
};

void WideForward(const WideForwardParams<float>& params, Stream stream);
void WideForward(const WideForwardParams<Half>& params, Stream stream);
void WideBackward(const WideBackwardParams<float>& params, Stream stream);
void WideBackward(const WideBackwardParams<Half>& params, Stream stream);
void WideGradient(const WideGradientParams<float>& params, Stream stream);
void WideGradient(const WideGradientParams<Half>& params, Stream stream);

}  // namespace nerf::kernels::cuda
