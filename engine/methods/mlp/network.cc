#include "engine/methods/mlp/network.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/dense_layer.h"

namespace nerf {
namespace {

constexpr float kEncodedHalfSide = 1.5f;
constexpr size_t kPairPadding = 16 * 336;  // pairs that layers may read behind the last one

void Grow(Buffer<float>* buffer, size_t n_kept, size_t size) {
  Buffer<float> grown(size);
  if (n_kept > 0) std::memcpy(grown.data(), buffer->data(), n_kept * sizeof(float));
  *buffer = std::move(grown);
}

void CopyRow(Buffer<float>* buffer, int width, int from, int to) {
  std::memcpy(buffer->data() + static_cast<size_t>(width) * to,
              buffer->data() + static_cast<size_t>(width) * from, width * sizeof(float));
}

// rows [n][width] all become `row`.
void FillRows(const float* row, int n, int width, float* rows) {
  for (int i = 0; i < n; ++i) std::copy_n(row, width, rows + static_cast<size_t>(width) * i);
}

// width is a multiple of kColumns here and below: inner loops have a constant length, so that -O2
// vectorizes them.
constexpr int kColumns = 16;

void AddColumnSums(const float* __restrict rows, int n, int width, float* __restrict sums) {
  for (int i = 0; i < n; ++i, rows += width) {
    for (int c = 0; c < width; c += kColumns) {
      for (int k = c; k < c + kColumns; ++k) sums[k] += rows[k];
    }
  }
}

// sums = sums + more where gate is above 0, else 0.
void AddGated(const float* __restrict more, const float* __restrict gate, size_t n,
              float* __restrict sums) {
  for (size_t i = 0; i < n; i += kColumns) {
    for (size_t k = i; k < i + kColumns; ++k) sums[k] = gate[k] > 0 ? sums[k] + more[k] : 0.0f;
  }
}

}  // namespace

MlpPlacement MlpPlacementOf(const Aabb& outer_box) {
  return {outer_box.Center(), 2 * kEncodedHalfSide / outer_box.Size().x};
}

void MlpEncode(Vec3 point, int n_octaves, int width, float* encoding) {
  float* out = encoding;
  double sine[3], cosine[3];
  for (int axis = 0; axis < 3; ++axis) {
    *out++ = point[axis];
    sine[axis] = std::sin(static_cast<double>(point[axis]));
    cosine[axis] = std::cos(static_cast<double>(point[axis]));
  }
  for (int octave = 0; octave < n_octaves; ++octave) {
    for (int axis = 0; axis < 3; ++axis) *out++ = static_cast<float>(sine[axis]);
    for (int axis = 0; axis < 3; ++axis) *out++ = static_cast<float>(cosine[axis]);
    for (int axis = 0; axis < 3; ++axis) {  // the double angle
      const double s = sine[axis], c = cosine[axis];
      sine[axis] = 2 * s * c;
      cosine[axis] = c * c - s * s;
    }
  }
  std::fill(out, encoding + width, 0.0f);
}

void MlpEncodeTime(float time, float* encoding) {
  float* out = encoding;
  *out++ = time;
  for (int octave = 0; octave < kMlpTimeOctaves; ++octave) {
    const double angle = std::ldexp(static_cast<double>(time), octave);
    *out++ = static_cast<float>(std::sin(angle));
    *out++ = static_cast<float>(std::cos(angle));
  }
  std::fill(out, encoding + kMlpTimeWidth, 0.0f);
}

MlpDerived::MlpDerived(const MlpLayout& layout, bool with_backward)
    : transposed_(with_backward ? layout.size : 0) {
  if (!kernels::cpu::UsesBf16Layers()) return;
  pairs_ = Buffer<uint32_t>(layout.size / 2 + kPairPadding);
  if (with_backward) transposed_pairs_ = Buffer<uint32_t>(layout.size / 2 + kPairPadding);
}

void MlpDerived::Derive(const MlpLayout& layout, const float* parameters) {
  for (const MlpLayer& layer : layout.layers) {
    const float* const weights = parameters + layer.weights;
    if (!pairs_.empty()) {
      kernels::cpu::PackBf16Pairs(layer.n_in, layer.n_out, weights,
                                  pairs_.data() + layer.weights / 2);
    }
    if (transposed_.empty()) continue;
    float* const transposed = transposed_.data() + layer.weights;
    for (int in = 0; in < layer.n_in; ++in) {
      for (int out = 0; out < layer.n_out; ++out)
        transposed[out * layer.n_in + in] = weights[in * layer.n_out + out];
    }
    if (!transposed_pairs_.empty()) {
      kernels::cpu::PackBf16Pairs(layer.n_out, layer.n_in, transposed,
                                  transposed_pairs_.data() + layer.weights / 2);
    }
  }
}

MlpEvaluator::MlpEvaluator(const MlpNetwork& network, bool with_backward)
    : network_(network),
      with_backward_(with_backward),
      hidden_(with_backward ? network.layout->depth : 3) {}

void MlpEvaluator::Begin(int n_rays, const Vec3* directions) {
  const int width = network_.layout->width / 2;
  if (n_rays > n_rays_) {
    n_rays_ = n_rays;
    directions_ = Buffer<float>(size_t{kMlpDirectionWidth} * n_rays);
    direction_terms_ = Buffer<float>(static_cast<size_t>(width) * n_rays);
  }
  for (int r = 0; r < n_rays; ++r) {
    MlpEncode(directions[r], kMlpDirectionOctaves, kMlpDirectionWidth,
              directions_.data() + size_t{kMlpDirectionWidth} * r);
  }
  const MlpLayer& layer = network_.layout->color_hidden();
  FillRows(network_.parameters + layer.biases, n_rays, width, direction_terms_.data());
  Multiply(layer, network_.layout->width, kMlpDirectionWidth, n_rays, directions_.data(),
           direction_terms_.data(), /*relu=*/false);
}

void MlpEvaluator::Reserve(int n_rows, int n_kept) {
  if (n_rows <= capacity_) return;
  const size_t rows = capacity_ = std::max(n_rows, 2 * capacity_);
  const size_t kept = n_kept, width = network_.layout->width;
  const size_t input_width = network_.layout->input_width();
  Grow(&encodings_, kept * input_width, rows * input_width);
  for (Buffer<float>& hidden : hidden_) Grow(&hidden, kept * width, rows * width);
  Grow(&densities_, kept * kMlpOutputWidth, rows * kMlpOutputWidth);
  features_ = Buffer<float>(rows * width);
  color_hidden_ = Buffer<float>(rows * width / 2);
  outputs_ = Buffer<float>(rows * kMlpOutputWidth);
  if (with_backward_) {
    grad_a_ = Buffer<float>(rows * width);
    grad_b_ = Buffer<float>(rows * width);
    grad_directions_ = Buffer<float>(rows * kMlpDirectionWidth);
  } else {
    gathered_ = Buffer<float>(rows * width);
  }
}

// outputs += inputs * (rows [first_input, first_input + n_in) of the layer's weights), then ReLU.
void MlpEvaluator::Multiply(const MlpLayer& layer, int first_input, int n_in, int n,
                            const float* inputs, float* outputs, bool relu) const {
  const size_t offset = layer.weights + static_cast<size_t>(first_input) * layer.n_out;
  const uint32_t* const pairs = network_.derived->pairs();
  kernels::cpu::DenseForward({.n_rows = n,
                              .n_in = n_in,
                              .n_out = layer.n_out,
                              .inputs = inputs,
                              .input_stride = n_in,
                              .weights = network_.parameters + offset,
                              .weight_pairs = pairs != nullptr ? pairs + offset / 2 : nullptr,
                              .outputs = outputs,
                              .output_stride = layer.n_out,
                              .relu = relu,
                              .accumulate = true});
}

void MlpEvaluator::AddWeightGradient(const MlpLayer& layer, int first_input, int n_in, int n,
                                     const float* inputs, const float* grad_outputs,
                                     float* gradients) const {
  kernels::cpu::DenseBackwardWeights(
      {.n_rows = n,
       .n_in = n_in,
       .n_out = layer.n_out,
       .inputs = inputs,
       .input_stride = n_in,
       .grad_outputs = grad_outputs,
       .grad_output_stride = layer.n_out,
       .grad_weights = gradients + layer.weights + static_cast<size_t>(first_input) * layer.n_out});
}

void MlpEvaluator::InputGradient(const MlpLayer& layer, int first_input, int n_in, int n,
                                 const float* grad_outputs, const float* gate,
                                 float* grad_inputs) const {
  const uint32_t* const pairs = network_.derived->transposed_pairs();
  kernels::cpu::DenseBackwardInput(
      {.n_rows = n,
       .n_in = n_in,
       .n_out = layer.n_out,
       .grad_outputs = grad_outputs,
       .grad_output_stride = layer.n_out,
       .weights = network_.derived->transposed() + layer.weights + first_input,
       .weight_pairs = pairs != nullptr ? pairs + layer.weights / 2 + first_input : nullptr,
       .weight_stride = layer.n_in,
       .gate = gate,
       .gate_stride = n_in,
       .grad_inputs = grad_inputs,
       .grad_input_stride = n_in});
}

float* MlpEvaluator::Outputs(int begin, int n, const Vec3* positions, const float* times) {
  const MlpLayout& layout = *network_.layout;
  const float* const parameters = network_.parameters;
  const int input_width = layout.input_width();
  float* const encodings = encodings_.data() + static_cast<size_t>(input_width) * begin;
  for (int i = 0; i < n; ++i) {
    float* const encoding = encodings + static_cast<size_t>(input_width) * i;
    MlpEncode((positions[i] - network_.placement.center) * network_.placement.scale,
              kMlpPositionOctaves, kMlpPositionWidth, encoding);
    if (layout.reads_time) MlpEncodeTime(times[i], encoding + kMlpPositionWidth);
  }
  for (int l = 0; l < layout.depth; ++l) {
    const MlpLayer& layer = layout.trunk(l);
    float* const outputs = Hidden(l, begin);
    FillRows(parameters + layer.biases, n, layout.width, outputs);
    if (l == 0) {
      Multiply(layer, 0, input_width, n, encodings, outputs, /*relu=*/true);
      continue;
    }
    const bool skips = l == layout.skip;
    if (skips) Multiply(layer, 0, input_width, n, encodings, outputs, /*relu=*/false);
    Multiply(layer, skips ? input_width : 0, layout.width, n, Hidden(l - 1, begin), outputs,
             /*relu=*/true);
  }
  float* const outputs = densities_.data() + size_t{kMlpOutputWidth} * begin;
  FillRows(parameters + layout.output().biases, n, kMlpOutputWidth, outputs);
  Multiply(layout.output(), 0, layout.width, n, Hidden(layout.depth - 1, begin), outputs,
           /*relu=*/false);
  return outputs;
}

void MlpEvaluator::Density(int begin, int n, const Vec3* positions, float* sigmas,
                           const float* times) {
  const float* const densities = Outputs(begin, n, positions, times);
  for (int i = 0; i < n; ++i)
    sigmas[i] = std::max(densities[size_t{kMlpOutputWidth} * i], 0.0f) * network_.placement.scale;
}

void MlpEvaluator::Move(int n, const Vec3* positions, const float* times, Vec3* moved) {
  const float* const outputs = Outputs(0, n, positions, times);
  for (int i = 0; i < n; ++i) {
    const float* const shift = outputs + size_t{kMlpOutputWidth} * i;
    moved[i] = positions[i];
    if (times[i] != 0)
      moved[i] = moved[i] + Vec3{shift[0], shift[1], shift[2]} * (1 / network_.placement.scale);
  }
}

void MlpEvaluator::MoveRow(int from, int to) {
  CopyRow(&encodings_, network_.layout->input_width(), from, to);
  for (Buffer<float>& hidden : hidden_) CopyRow(&hidden, network_.layout->width, from, to);
  CopyRow(&densities_, kMlpOutputWidth, from, to);
}

void MlpEvaluator::Color(int n, const int* ray_of, Vec3* colors) {
  if (n > 0) ForwardColor(n, Hidden(network_.layout->depth - 1, 0), ray_of, colors);
}

void MlpEvaluator::ColorOf(int n, const int* rows, const int* ray_of, Vec3* colors) {
  if (n == 0) return;
  const int width = network_.layout->width;
  for (int i = 0; i < n; ++i) {
    std::copy_n(Hidden(network_.layout->depth - 1, rows[i]), width,
                gathered_.data() + static_cast<size_t>(width) * i);
  }
  ForwardColor(n, gathered_.data(), ray_of, colors);
}

void MlpEvaluator::ForwardColor(int n, const float* trunk_rows, const int* ray_of, Vec3* colors) {
  const MlpLayout& layout = *network_.layout;
  const int width = layout.width, half = layout.width / 2;
  FillRows(network_.parameters + layout.feature().biases, n, width, features_.data());
  Multiply(layout.feature(), 0, width, n, trunk_rows, features_.data(), layout.feature_relu);
  for (int i = 0; i < n; ++i) {
    std::copy_n(direction_terms_.data() + static_cast<size_t>(half) * ray_of[i], half,
                color_hidden_.data() + static_cast<size_t>(half) * i);
  }
  Multiply(layout.color_hidden(), 0, width, n, features_.data(), color_hidden_.data(),
           /*relu=*/true);
  FillRows(network_.parameters + layout.color().biases, n, kMlpOutputWidth, outputs_.data());
  Multiply(layout.color(), 0, half, n, color_hidden_.data(), outputs_.data(), /*relu=*/false);
  kernels::cpu::Sigmoid({.n = n * kMlpOutputWidth, .values = outputs_.data()});
  for (int i = 0; i < n; ++i) {
    const float* const output = outputs_.data() + size_t{kMlpOutputWidth} * i;
    colors[i] = {output[0], output[1], output[2]};
  }
}

void MlpEvaluator::Backward(int n, const int* ray_of, const float* grad_sigmas,
                            const Vec3* grad_colors, float* gradients) {
  BackwardColor(n, ray_of, grad_colors, gradients);
  // densities_ becomes its own gradient.
  for (int i = 0; i < n; ++i) {
    float* const density = densities_.data() + size_t{kMlpOutputWidth} * i;
    const float gradient = density[0] > 0 ? grad_sigmas[i] * network_.placement.scale : 0.0f;
    std::fill_n(density, kMlpOutputWidth, 0.0f);
    density[0] = gradient;
  }
  BackwardTrunk(n, gradients);
}

// Leaves the gradient of the last trunk layer's outputs, as far as it comes from the color, in
// grad_a_.
void MlpEvaluator::BackwardColor(int n, const int* ray_of, const Vec3* grad_colors,
                                 float* gradients) {
  const MlpLayout& layout = *network_.layout;
  const int width = layout.width, half = layout.width / 2;
  for (int i = 0; i < n; ++i) {  // outputs_ becomes the gradient before the sigmoid
    float* const output = outputs_.data() + size_t{kMlpOutputWidth} * i;
    for (int c = 0; c < 3; ++c) output[c] = grad_colors[i][c] * output[c] * (1 - output[c]);
    std::fill(output + 3, output + kMlpOutputWidth, 0.0f);
    std::copy_n(directions_.data() + size_t{kMlpDirectionWidth} * ray_of[i], kMlpDirectionWidth,
                grad_directions_.data() + size_t{kMlpDirectionWidth} * i);
  }
  AddWeightGradient(layout.color(), 0, half, n, color_hidden_.data(), outputs_.data(), gradients);
  AddColumnSums(outputs_.data(), n, kMlpOutputWidth, gradients + layout.color().biases);
  float* const grad_hidden = color_hidden_.data();
  InputGradient(layout.color(), 0, half, n, outputs_.data(), color_hidden_.data(), grad_hidden);
  AddWeightGradient(layout.color_hidden(), 0, width, n, features_.data(), grad_hidden, gradients);
  AddWeightGradient(layout.color_hidden(), width, kMlpDirectionWidth, n, grad_directions_.data(),
                    grad_hidden, gradients);
  AddColumnSums(grad_hidden, n, half, gradients + layout.color_hidden().biases);
  InputGradient(layout.color_hidden(), 0, width, n, grad_hidden,
                layout.feature_relu ? features_.data() : nullptr, grad_b_.data());
  AddWeightGradient(layout.feature(), 0, width, n, Hidden(layout.depth - 1, 0), grad_b_.data(),
                    gradients);
  AddColumnSums(grad_b_.data(), n, width, gradients + layout.feature().biases);
  InputGradient(layout.feature(), 0, width, n, grad_b_.data(), nullptr, grad_a_.data());
}

void MlpEvaluator::BackwardTrunk(int n, float* gradients) {
  const MlpLayout& layout = *network_.layout;
  const int width = layout.width, last = layout.depth - 1, input_width = layout.input_width();
  AddWeightGradient(layout.output(), 0, width, n, Hidden(last, 0), densities_.data(), gradients);
  AddColumnSums(densities_.data(), n, kMlpOutputWidth, gradients + layout.output().biases);
  InputGradient(layout.output(), 0, width, n, densities_.data(), nullptr, grad_b_.data());
  AddGated(grad_b_.data(), Hidden(last, 0), static_cast<size_t>(n) * width, grad_a_.data());
  for (int l = last; l >= 0; --l) {
    const MlpLayer& layer = layout.trunk(l);
    const bool skips = l > 0 && l == layout.skip;
    AddColumnSums(grad_a_.data(), n, width, gradients + layer.biases);
    if (l == 0 || skips) {
      AddWeightGradient(layer, 0, input_width, n, encodings_.data(), grad_a_.data(), gradients);
    }
    if (l == 0) break;
    const int first_input = skips ? input_width : 0;
    AddWeightGradient(layer, first_input, width, n, Hidden(l - 1, 0), grad_a_.data(), gradients);
    InputGradient(layer, first_input, width, n, grad_a_.data(), Hidden(l - 1, 0), grad_b_.data());
    std::swap(grad_a_, grad_b_);
  }
}

}  // namespace nerf
