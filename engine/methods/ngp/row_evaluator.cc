#include "engine/methods/ngp/row_evaluator.h"

#include <algorithm>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/hash_position_gradient.h"
#include "engine/methods/ngp/buffer_rows.h"
#include "engine/methods/ngp/layer_backward.h"

namespace nerf {
namespace {

template <typename T>
void EncodingGradient(const NgpNetwork& network, const T* table, int n, const Vec3* unit,
                      const float* grad_encodings, Vec3* grad_unit) {
  kernels::cpu::HashPositionGradient(
      kernels::HashPositionGradientParams<T>{.shape = &network.shape,
                                             .table = table,
                                             .n = n,
                                             .positions = unit,
                                             .grad_features = grad_encodings,
                                             .stride = kEncodingWidth,
                                             .n_active = network.n_active_levels,
                                             .grad_positions = grad_unit});
}

}  // namespace

void NgpRowEvaluator::Reserve(int n_rows, int n_kept) {
  if (n_rows <= capacity_) return;
  const size_t rows = capacity_ = std::max(n_rows, 2 * capacity_);
  const size_t kept = n_kept;
  // NgpChunk::Reserve has buffers of the same widths, and keeps other rows of them.
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

void NgpRowEvaluator::Density(const NgpNetwork& network, int begin, int n, const Vec3* unit,
                              float* sigmas) {
  if (n == 0) return;
  std::copy_n(unit, n, unit_.data() + begin);
  NgpDensityForward(network, n, unit, Row<kEncodingWidth>(encodings_, begin),
                    Row<kHiddenWidth>(hidden_, begin), Row<kGeometryWidth>(geometry_, begin));
  kernels::cpu::DensityActivation({.n = n,
                                   .outputs = Row<kGeometryWidth>(geometry_, begin),
                                   .stride = kGeometryWidth,
                                   .shift = network.density_shift,
                                   .sigmas = sigmas});
  std::copy_n(sigmas, n, sigmas_.data() + begin);
}

void NgpRowEvaluator::MoveRow(int from, int to) {
  unit_[to] = unit_[from];
  sigmas_[to] = sigmas_[from];
  CopyRow<kEncodingWidth>(&encodings_, from, to);
  CopyRow<kHiddenWidth>(&hidden_, from, to);
  CopyRow<kGeometryWidth>(&geometry_, from, to);
}

void NgpRowEvaluator::Color(const NgpNetwork& network, int n, const int* rows, const int* ray_of,
                            int n_rays, const float* harmonics, Vec3* colors) {
  if (n == 0) return;
  terms_.resize(size_t{kHiddenWidth} * n_rays);
  NgpDirectionTerms(network, n_rays, harmonics, terms_.data());
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
  NgpColorForward(network, n, geometry, color_hidden0_.data(), color_hidden1_.data(),
                  colors_.data());
  for (int i = 0; i < n; ++i) {
    const float* const color = Row<kColorWidth>(colors_, i);
    colors[i] = {color[0], color[1], color[2]};
  }
}

void NgpRowEvaluator::BackwardLayer(const NgpTrainedNetwork& trained, NgpLayerIndex index, int n,
                                    const float* grad_outputs, bool inputs_are_relu, float* inputs,
                                    float* gradients) {
  const NgpLayer& layer = kNgpLayers[index];
  const uint32_t* const pairs = trained.transposed_pairs;
  LayerBackward({.n_rows = n,
                 .n_in = layer.n_in,
                 .n_out = layer.n_out,
                 .grad_outputs = grad_outputs,
                 .transposed_weights = trained.transposed_weights + layer.offset,
                 .transposed_pairs = pairs != nullptr ? pairs + layer.offset / 2 : nullptr,
                 .inputs_are_relu = inputs_are_relu,
                 .inputs = inputs,
                 .grad_weights = gradients + layer.offset});
}

// Backward pass of the color MLP's first layer: color_hidden0_ holds the gradient of its outputs.
// The geometry features become their gradient.
void NgpRowEvaluator::BackwardColorInput(const NgpTrainedNetwork& trained, int n, const int* ray_of,
                                         const float* harmonics, float* gradients) {
  for (int i = 0; i < n; ++i) {
    float* const inputs = Row<kColorInputWidth>(inputs_, i);
    std::copy_n(harmonics + size_t{kDirectionWidth} * ray_of[i], kDirectionWidth, inputs);
    std::copy_n(Row<kGeometryWidth>(geometry_, i), kGeometryWidth, inputs + kDirectionWidth);
  }
  BackwardLayer(trained, kColorHidden0, n, color_hidden0_.data(), false, inputs_.data(), gradients);
  for (int i = 0; i < n; ++i) {
    std::copy_n(Row<kColorInputWidth>(inputs_, i) + kDirectionWidth, kGeometryWidth,
                Row<kGeometryWidth>(geometry_, i));
  }
}

// From the gradients of the geometry, without that of the densities, to those of the encodings.
void NgpRowEvaluator::BackwardGeometry(const NgpTrainedNetwork& trained, int n,
                                       const float* grad_sigmas, LaneOutput* output) {
  float* const gradients = output->weight_gradients;
  // d sigma / d exponent is sigma itself.
  for (int i = 0; i < n; ++i) Row<kGeometryWidth>(geometry_, i)[0] += grad_sigmas[i] * sigmas_[i];
  BackwardLayer(trained, kDensityOutput, n, geometry_.data(), true, hidden_.data(), gradients);
  BackwardLayer(trained, kDensityHidden, n, hidden_.data(), false, encodings_.data(), gradients);
  output->Append(n, unit_.data(), trained.network.shape.n_features, encodings_.data());
}

// Each buffer of activations becomes that of their gradients.
void NgpRowEvaluator::Backward(const NgpTrainedNetwork& trained, int n, const int* ray_of,
                               const float* harmonics, const float* grad_sigmas,
                               const Vec3* grad_colors, LaneOutput* output, Vec3* grad_unit) {
  if (n == 0) return;
  float* const gradients = output->weight_gradients;
  for (int i = 0; i < n; ++i) {
    float* const color = Row<kColorWidth>(colors_, i);
    for (int c = 0; c < kColorChannels; ++c)
      color[c] = grad_colors[i][c] * color[c] * (1 - color[c]);
    std::fill(color + kColorChannels, color + kColorWidth, 0.0f);
  }
  BackwardLayer(trained, kColorOutput, n, colors_.data(), true, color_hidden1_.data(), gradients);
  BackwardLayer(trained, kColorHidden1, n, color_hidden1_.data(), true, color_hidden0_.data(),
                gradients);
  BackwardColorInput(trained, n, ray_of, harmonics, gradients);
  BackwardGeometry(trained, n, grad_sigmas, output);
  if (grad_unit == nullptr) return;
  const NgpNetwork& network = trained.network;
  if (network.half_table != nullptr) {
    EncodingGradient(network, network.half_table, n, unit_.data(), encodings_.data(), grad_unit);
  } else {
    EncodingGradient(network, network.table, n, unit_.data(), encodings_.data(), grad_unit);
  }
}

void NgpRowEvaluator::BackwardDensity(const NgpTrainedNetwork& trained, int n,
                                      const float* grad_sigmas, LaneOutput* output) {
  if (n == 0) return;
  std::fill_n(geometry_.data(), size_t{kGeometryWidth} * n, 0.0f);
  BackwardGeometry(trained, n, grad_sigmas, output);
}

}  // namespace nerf
