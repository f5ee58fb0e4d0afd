#include "engine/methods/dynamic/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "engine/base/bfloat16.h"
#include "engine/field/kernels/dense_layer.h"
#include "engine/methods/ngp/layer_backward.h"

namespace nerf {
namespace {

constexpr int kWidth = kWarpHiddenWidth;

template <int width>
float* Row(Buffer<float>& buffer, int row) {
  return buffer.data() + size_t{width} * row;
}

template <typename T>
void Grow(Buffer<T>* buffer, size_t n_kept, size_t size) {
  Buffer<T> grown(size);
  if (n_kept > 0) std::memcpy(grown.data(), buffer->data(), n_kept * sizeof(T));
  *buffer = std::move(grown);
}

// sine[k], cosine[k] = those of 2^k angle.
template <int n>
void Octaves(float angle, float* sine, float* cosine) {
  sine[0] = std::sin(angle);
  cosine[0] = std::cos(angle);
  for (int k = 1; k < n; ++k) {
    sine[k] = 2 * sine[k - 1] * cosine[k - 1];
    cosine[k] = 1 - 2 * sine[k - 1] * sine[k - 1];
  }
}

void PlaceFeatures(Vec3 unit, float* features) {
  constexpr auto kPi = static_cast<float>(std::numbers::pi);
  for (int axis = 0; axis < 3; ++axis) {
    const float p = 2 * unit[axis] - 1;
    features[axis] = p;
    // Layers in bf16 see p in steps of up to 1/256.
    features[3 + axis] = p - Bf16Low(Bf16Pair(p, 0));
    float* const octaves = features + 6 + 2 * kWarpOctaves * axis;
    Octaves<kWarpOctaves>(kPi * p, octaves, octaves + kWarpOctaves);
  }
  std::fill(features + 6 + 6 * kWarpOctaves, features + kPlaceWidth, 0.0f);
}

// What the time of a ray adds to the first layer. In fp32: there is one per ray.
void TimeTerm(const float* __restrict weights, const float* __restrict features,
              float* __restrict term) {
  std::fill_n(term, kWidth, 0.0f);
  for (int f = 0; f < kTimeWidth; ++f) {
    for (int h = 0; h < kWidth; ++h) term[h] += features[f] * weights[f * kWidth + h];
  }
}

// A constant length, so that -O2 vectorizes it.
void AddRow(const float* __restrict row, float factor, float* __restrict sums) {
  for (int h = 0; h < kWidth; ++h) sums[h] += factor * row[h];
}

// Gradients of a layer's weights and of its inputs, which come from a ReLU and are overwritten.
void BackwardLayer(const WarpNetwork& network, const WarpLayer& layer, int n,
                   const float* grad_outputs, float* inputs, float* gradients) {
  LayerBackward({.n_rows = n,
                 .n_in = layer.n_in,
                 .n_out = layer.n_out,
                 .grad_outputs = grad_outputs,
                 .transposed_weights = network.transposed + layer.offset,
                 .inputs_are_relu = true,
                 .inputs = inputs,
                 .grad_weights = gradients + layer.offset});
}

void ForwardLayer(const WarpNetwork& network, const WarpLayer& layer, int n_in, int n,
                  const float* inputs, bool is_first, bool relu, float* outputs) {
  kernels::cpu::DenseForward({.n_rows = n,
                              .n_in = n_in,
                              .n_out = layer.n_out,
                              .inputs = inputs,
                              .input_stride = n_in,
                              .weights = network.weights + layer.offset,
                              .outputs = outputs,
                              .output_stride = layer.n_out,
                              .relu = relu,
                              .accumulate = is_first});
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

void TransposeWarp(const float* weights, float* transposed) {
  for (const WarpLayer& layer : kWarpLayers) {
    for (int i = 0; i < layer.n_in; ++i) {
      for (int o = 0; o < layer.n_out; ++o)
        transposed[layer.offset + o * layer.n_in + i] = weights[layer.offset + i * layer.n_out + o];
    }
  }
}

void WarpEvaluator::Reserve(int n_rows, int n_kept) {
  const size_t kept = n_kept, rows = n_rows;
  Grow(&inputs_, kept * kPlaceWidth, rows * kPlaceWidth);
  Grow(&hidden0_, kept * kWidth, rows * kWidth);
  Grow(&hidden1_, kept * kWidth, rows * kWidth);
  Grow(&inside_, kept, rows);
  outputs_ = Buffer<float>(rows * kWarpOutputWidth);
}

void WarpEvaluator::Forward(const WarpNetwork& network, int begin, int n, const Vec3* unit,
                            const int* ray_of, const float* features, Vec3* warped) {
  if (n == 0) return;
  float* const inputs = Row<kPlaceWidth>(inputs_, begin);
  float* const hidden0 = Row<kWidth>(hidden0_, begin);
  float* const hidden1 = Row<kWidth>(hidden1_, begin);
  float term[kWidth];
  for (int i = 0; i < n; ++i) {
    PlaceFeatures(unit[i], inputs + size_t{kPlaceWidth} * i);
    // Samples of a ray are adjacent.
    if (i == 0 || ray_of[i] != ray_of[i - 1]) {
      TimeTerm(network.weights + kPlaceWidth * kWidth, features + size_t{kTimeWidth} * ray_of[i],
               term);
    }
    std::copy_n(term, kWidth, hidden0 + size_t{kWidth} * i);
  }
  ForwardLayer(network, kWarpLayers[0], kPlaceWidth, n, inputs, true, true, hidden0);
  ForwardLayer(network, kWarpLayers[1], kWidth, n, hidden0, false, true, hidden1);
  ForwardLayer(network, kWarpLayers[2], kWidth, n, hidden1, false, false, outputs_.data());
  for (int i = 0; i < n; ++i) {
    const float* const shift = Row<kWarpOutputWidth>(outputs_, i);
    for (int axis = 0; axis < 3; ++axis) {
      const float moved = unit[i][axis] + shift[axis];
      warped[i][axis] = std::clamp(moved, 0.0f, 1.0f);
      inside_[begin + i][axis] = warped[i][axis] == moved ? 1.0f : 0.0f;
    }
  }
}

void WarpEvaluator::MoveRow(int from, int to) {
  inside_[to] = inside_[from];
  std::copy_n(Row<kPlaceWidth>(inputs_, from), kPlaceWidth, Row<kPlaceWidth>(inputs_, to));
  std::copy_n(Row<kWidth>(hidden0_, from), kWidth, Row<kWidth>(hidden0_, to));
  std::copy_n(Row<kWidth>(hidden1_, from), kWidth, Row<kWidth>(hidden1_, to));
}

void WarpEvaluator::Backward(const WarpNetwork& network, int n, const int* ray_of,
                             const float* features, const Vec3* grad_warped, float* gradients) {
  for (int i = 0; i < n; ++i) {
    float* const grad = Row<kWarpOutputWidth>(outputs_, i);
    std::fill_n(grad, kWarpOutputWidth, 0.0f);
    for (int axis = 0; axis < 3; ++axis) grad[axis] = grad_warped[i][axis] * inside_[i][axis];
  }
  BackwardLayer(network, kWarpLayers[2], n, outputs_.data(), hidden1_.data(), gradients);
  BackwardLayer(network, kWarpLayers[1], n, hidden1_.data(), hidden0_.data(), gradients);
  kernels::cpu::DenseBackwardWeights({.n_rows = n,
                                      .n_in = kPlaceWidth,
                                      .n_out = kWidth,
                                      .inputs = inputs_.data(),
                                      .input_stride = kPlaceWidth,
                                      .grad_outputs = hidden0_.data(),
                                      .grad_output_stride = kWidth,
                                      .grad_weights = gradients});
  float* const time_gradients = gradients + kPlaceWidth * kWidth;
  float sums[kWidth];
  for (int i = 0; i < n; ++i) {
    if (i == 0 || ray_of[i] != ray_of[i - 1]) std::fill_n(sums, kWidth, 0.0f);
    AddRow(Row<kWidth>(hidden0_, i), 1, sums);
    if (i + 1 < n && ray_of[i + 1] == ray_of[i]) continue;
    const float* const time = features + size_t{kTimeWidth} * ray_of[i];
    for (int f = 0; f < kTimeWidth; ++f) AddRow(sums, time[f], time_gradients + f * kWidth);
  }
}

}  // namespace nerf
