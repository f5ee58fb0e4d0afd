#include "engine/methods/dynamic/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "engine/kernels/activation.h"
#include "engine/kernels/dense_layer.h"
#include "engine/kernels/hash_encoding.h"

namespace nerf {
namespace {

template <typename T>
void Grow(Buffer<T>* buffer, size_t n_kept, size_t size) {
  Buffer<T> grown(size);
  if (n_kept > 0) std::memcpy(grown.data(), buffer->data(), n_kept * sizeof(T));
  *buffer = std::move(grown);
}

template <int width>
float* Row(Buffer<float>& buffer, int row) {
  return buffer.data() + size_t{width} * row;
}

template <int width>
void CopyRow(Buffer<float>* buffer, int from, int to) {
  std::copy_n(Row<width>(*buffer, from), width, Row<width>(*buffer, to));
}

template <typename T>
void Encode(const NgpNetwork& network, const T* table, int n, const Vec3* unit, float* encodings) {
  kernels::cpu::HashEncodeForward(kernels::HashEncodeForwardParams<T>{.shape = &network.shape,
                                                                      .table = table,
                                                                      .n = n,
                                                                      .positions = unit,
                                                                      .features = encodings,
                                                                      .stride = kEncodingWidth});
}

// outputs = inputs * weights of the layer, on top of `outputs` if accumulate.
void Forward(const NgpNetwork& network, NgpLayerIndex index, int n, const float* inputs, bool relu,
             bool accumulate, float* outputs) {
  const NgpLayer& layer = kNgpLayers[index];
  const uint32_t* const pairs = network.weight_pairs;
  kernels::cpu::DenseForward({.n_rows = n,
                              .n_in = layer.n_in,
                              .n_out = layer.n_out,
                              .inputs = inputs,
                              .input_stride = layer.n_in,
                              .weights = network.weights + layer.offset,
                              .weight_pairs = pairs != nullptr ? pairs + layer.offset / 2 : nullptr,
                              .outputs = outputs,
                              .output_stride = layer.n_out,
                              .relu = relu,
                              .accumulate = accumulate});
}

// What the time of a ray adds to the first density layer. In fp32: it is small.
void TimeTerm(const float* __restrict weights, const float* __restrict features,
              float* __restrict term) {
  std::fill_n(term, kHiddenWidth, 0.0f);
  for (int f = 0; f < kTimeWidth; ++f) {
    for (int h = 0; h < kHiddenWidth; ++h) term[h] += features[f] * weights[f * kHiddenWidth + h];
  }
}

// Constant lengths, so that -O2 vectorizes them.
void AddRow(const float* __restrict row, float factor, float* __restrict sums) {
  for (int h = 0; h < kHiddenWidth; ++h) sums[h] += factor * row[h];
}

}  // namespace

void TimeFeatures(float time, float* features) {
  std::fill_n(features, kTimeWidth, 0.0f);
  features[0] = 1;
  features[1] = time;
  for (int k = 0; k < kTimeOctaves; ++k) {
    const double angle = std::ldexp(std::numbers::pi * time, k);
    features[2 + 2 * k] = static_cast<float>(std::sin(angle));
    features[3 + 2 * k] = static_cast<float>(std::cos(angle));
  }
}

void DynamicEvaluator::Reserve(int n_rows, int n_kept) {
  if (n_rows <= capacity_) return;
  const size_t rows = capacity_ = std::max(n_rows, 2 * capacity_);
  const size_t kept = n_kept;
  Grow(&unit_, kept, rows);
  Grow(&sigmas_, kept, rows);
  Grow(&encodings_, kept * kEncodingWidth, rows * kEncodingWidth);
  Grow(&hidden_, kept * kHiddenWidth, rows * kHiddenWidth);
  Grow(&geometry_, kept * kGeometryWidth, rows * kGeometryWidth);
  color_hidden0_ = Buffer<float>(rows * kHiddenWidth);
  color_hidden1_ = Buffer<float>(rows * kHiddenWidth);
  colors_ = Buffer<float>(rows * kColorWidth);
  grad_geometry_ = Buffer<float>(rows * kGeometryWidth);
  inputs_ = Buffer<float>(rows * kColorInputWidth);
}

void DynamicEvaluator::Density(const DynamicNetwork& network, int begin, int n, const Vec3* unit,
                               const int* ray_of, const float* features, float* sigmas) {
  std::copy_n(unit, n, unit_.data() + begin);
  float* const encodings = Row<kEncodingWidth>(encodings_, begin);
  if (network.ngp.half_table != nullptr) {
    Encode(network.ngp, network.ngp.half_table, n, unit, encodings);
  } else {
    Encode(network.ngp, network.ngp.table, n, unit, encodings);
  }
  float term[kHiddenWidth];
  for (int i = 0; i < n; ++i) {
    // Samples of a ray are adjacent.
    if (i == 0 || ray_of[i] != ray_of[i - 1])
      TimeTerm(network.time_weights, features + size_t{kTimeWidth} * ray_of[i], term);
    std::copy_n(term, kHiddenWidth, Row<kHiddenWidth>(hidden_, begin + i));
  }
  Forward(network.ngp, kDensityHidden, n, encodings, /*relu=*/true, /*accumulate=*/true,
          Row<kHiddenWidth>(hidden_, begin));
  Forward(network.ngp, kDensityOutput, n, Row<kHiddenWidth>(hidden_, begin), false, false,
          Row<kGeometryWidth>(geometry_, begin));
  kernels::cpu::DensityActivation({.n = n,
                                   .outputs = Row<kGeometryWidth>(geometry_, begin),
                                   .stride = kGeometryWidth,
                                   .shift = network.ngp.density_shift,
                                   .sigmas = sigmas});
  std::copy_n(sigmas, n, sigmas_.data() + begin);
}

void DynamicEvaluator::MoveRow(int from, int to) {
  unit_[to] = unit_[from];
  sigmas_[to] = sigmas_[from];
  CopyRow<kEncodingWidth>(&encodings_, from, to);
  CopyRow<kHiddenWidth>(&hidden_, from, to);
  CopyRow<kGeometryWidth>(&geometry_, from, to);
}

void DynamicEvaluator::Color(const DynamicNetwork& network, int n, const int* rows,
                             const int* ray_of, int n_rays, const float* harmonics, Vec3* colors) {
  if (n == 0) return;
  terms_.resize(size_t{kHiddenWidth} * n_rays);
  NgpDirectionTerms(network.ngp, n_rays, harmonics, terms_.data());
  for (int i = 0; i < n; ++i) {
    std::copy_n(terms_.data() + size_t{kHiddenWidth} * ray_of[i], kHiddenWidth,
                Row<kHiddenWidth>(color_hidden0_, i));
  }
  const float* geometry = geometry_.data();
  if (rows != nullptr) {
    for (int i = 0; i < n; ++i) {
      std::copy_n(Row<kGeometryWidth>(geometry_, rows[i]), kGeometryWidth,
                  Row<kGeometryWidth>(grad_geometry_, i));
    }
    geometry = grad_geometry_.data();
  }
  NgpColorForward(network.ngp, n, geometry, color_hidden0_.data(), color_hidden1_.data(),
                  colors_.data());
  for (int i = 0; i < n; ++i) {
    const float* const color = Row<kColorWidth>(colors_, i);
    colors[i] = {color[0], color[1], color[2]};
  }
}

void DynamicEvaluator::BackwardLayer(const DynamicNetwork& network, NgpLayerIndex index, int n,
                                     const float* grad_outputs, bool inputs_are_relu, float* inputs,
                                     float* gradients) {
  const NgpLayer& layer = kNgpLayers[index];
  const uint32_t* const pairs = network.transposed_pairs;
  kernels::cpu::DenseBackwardWeights({.n_rows = n,
                                      .n_in = layer.n_in,
                                      .n_out = layer.n_out,
                                      .inputs = inputs,
                                      .input_stride = layer.n_in,
                                      .grad_outputs = grad_outputs,
                                      .grad_output_stride = layer.n_out,
                                      .grad_weights = gradients + layer.offset});
  kernels::cpu::DenseBackwardInput(
      {.n_rows = n,
       .n_in = layer.n_in,
       .n_out = layer.n_out,
       .grad_outputs = grad_outputs,
       .grad_output_stride = layer.n_out,
       .weights = network.transposed_weights + layer.offset,
       .weight_pairs = pairs != nullptr ? pairs + layer.offset / 2 : nullptr,
       .gate = inputs_are_relu ? inputs : nullptr,
       .gate_stride = layer.n_in,
       .grad_inputs = inputs,
       .grad_input_stride = layer.n_in});
}

// Backward pass of the color MLP's first layer: color_hidden0_ holds the gradient of its outputs.
// The geometry features become their gradient.
void DynamicEvaluator::BackwardColorInput(const DynamicNetwork& network, int n, const int* ray_of,
                                          const float* harmonics, float* gradients) {
  for (int i = 0; i < n; ++i) {
    float* const inputs = Row<kColorInputWidth>(inputs_, i);
    std::copy_n(harmonics + size_t{kDirectionWidth} * ray_of[i], kDirectionWidth, inputs);
    std::copy_n(Row<kGeometryWidth>(geometry_, i), kGeometryWidth, inputs + kDirectionWidth);
  }
  BackwardLayer(network, kColorHidden0, n, color_hidden0_.data(), false, inputs_.data(), gradients);
  for (int i = 0; i < n; ++i) {
    std::copy_n(Row<kColorInputWidth>(inputs_, i) + kDirectionWidth, kGeometryWidth,
                Row<kGeometryWidth>(geometry_, i));
  }
}

// Each buffer of activations becomes that of their gradients.
void DynamicEvaluator::Backward(const DynamicNetwork& network, int n, const int* ray_of,
                                const float* features, const float* harmonics,
                                const float* grad_sigmas, const Vec3* grad_colors,
                                LaneOutput* output, float* time_gradients) {
  float* const gradients = output->weight_gradients;
  for (int i = 0; i < n; ++i) {
    float* const color = Row<kColorWidth>(colors_, i);
    for (int c = 0; c < kColorChannels; ++c)
      color[c] = grad_colors[i][c] * color[c] * (1 - color[c]);
    std::fill(color + kColorChannels, color + kColorWidth, 0.0f);
  }
  BackwardLayer(network, kColorOutput, n, colors_.data(), true, color_hidden1_.data(), gradients);
  BackwardLayer(network, kColorHidden1, n, color_hidden1_.data(), true, color_hidden0_.data(),
                gradients);
  BackwardColorInput(network, n, ray_of, harmonics, gradients);
  // d sigma / d exponent is sigma itself.
  for (int i = 0; i < n; ++i) Row<kGeometryWidth>(geometry_, i)[0] += grad_sigmas[i] * sigmas_[i];
  BackwardLayer(network, kDensityOutput, n, geometry_.data(), true, hidden_.data(), gradients);
  float sums[kHiddenWidth];
  for (int i = 0; i < n; ++i) {
    if (i == 0 || ray_of[i] != ray_of[i - 1]) std::fill_n(sums, kHiddenWidth, 0.0f);
    const float* const row = Row<kHiddenWidth>(hidden_, i);
    AddRow(row, 1, sums);
    if (i + 1 < n && ray_of[i + 1] == ray_of[i]) continue;
    const float* const time = features + size_t{kTimeWidth} * ray_of[i];
    for (int f = 0; f < kTimeWidth; ++f) AddRow(sums, time[f], time_gradients + f * kHiddenWidth);
  }
  BackwardLayer(network, kDensityHidden, n, hidden_.data(), false, encodings_.data(), gradients);
  output->Append(n, unit_.data(), network.ngp.shape.n_features, encodings_.data());
}

}  // namespace nerf
