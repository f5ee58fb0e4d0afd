#include "engine/methods/ngp/network.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "engine/base/buffer.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/dense_layer.h"

namespace nerf {
namespace {

// A layer that takes n_in of its inputs, from first_input on.
struct PartialLayer {
  NgpLayerIndex layer;
  int first_input, n_in;
};

struct LayerOptions {
  bool relu = false;
  bool accumulate = false;  // adds to what `outputs` holds
};

void Forward(const NgpNetwork& network, const PartialLayer& part, int n, const float* inputs,
             float* outputs, const LayerOptions& options) {
  const NgpLayer& layer = kNgpLayers[part.layer];
  const int offset = layer.offset + part.first_input * layer.n_out;
  kernels::cpu::DenseForward({.n_rows = n,
                              .n_in = part.n_in,
                              .n_out = layer.n_out,
                              .inputs = inputs,
                              .input_stride = part.n_in,
                              .weights = network.weights + offset,
                              .weight_pairs = network.weight_pairs != nullptr
                                                  ? network.weight_pairs + offset / 2
                                                  : nullptr,
                              .outputs = outputs,
                              .output_stride = layer.n_out,
                              .relu = options.relu,
                              .accumulate = options.accumulate});
}

void Forward(const NgpNetwork& network, NgpLayerIndex layer, int n, const float* inputs,
             float* outputs, const LayerOptions& options) {
  Forward(network, PartialLayer{layer, 0, kNgpLayers[layer].n_in}, n, inputs, outputs, options);
}

}  // namespace

kernels::HashGridShape NgpHashGridShape(const NgpEncoding& encoding) {
  return kernels::MakeHashGridShape(kEncodingWidth / encoding.n_features_per_level,
                                    encoding.n_features_per_level, encoding.log2_hashmap_size,
                                    kBaseResolution,
                                    encoding.finest_resolution << encoding.n_doublings);
}

EncodedSpace SpaceOf(const NgpNetwork& network) {
  EncodedSpace space{.kind = network.contraction, .frustum = network.frustum};
  if (network.contraction == Contraction::kNone) {
    const Vec3 size = network.box.Size();
    space.origin = network.box.min;
    space.scale = {1 / size.x, 1 / size.y, 1 / size.z};
  } else {
    const float inverse_half_side = 2 / network.inner_box.Size().x;
    space.origin = network.inner_box.Center();
    space.scale = {inverse_half_side, inverse_half_side, inverse_half_side};
  }
  return space;
}

void ToUnitCube(const Aabb& box, int n, const Vec3* positions, Vec3* unit) {
  const Vec3 size = box.Size();
  const Vec3 scale{1 / size.x, 1 / size.y, 1 / size.z};
  for (int i = 0; i < n; ++i) unit[i] = (positions[i] - box.min) * scale;
}

void ToEncodedCube(const NgpNetwork& network, int n, const Vec3* positions, Vec3* unit) {
  if (network.contraction == Contraction::kNone) {
    ToUnitCube(network.box, n, positions, unit);
    return;
  }
  const EncodedSpace space = SpaceOf(network);
  for (int i = 0; i < n; ++i) unit[i] = space.ToUnit(positions[i]);
}

Vec3 PositionGradient(const NgpNetwork& network, Vec3 unit, Vec3 grad_unit) {
  if (network.contraction == Contraction::kNone) {
    const Vec3 size = network.box.Size();
    return {grad_unit.x / size.x, grad_unit.y / size.y, grad_unit.z / size.z};
  }
  return SpaceOf(network).Backward(unit, grad_unit);
}

Vec3 EncodedHorizon(const NgpNetwork& network, Vec3 direction) {
  return SpaceOf(network).HorizonUnit(direction);
}

void NgpDensityForward(const NgpNetwork& network, int n, const Vec3* unit, float* encodings,
                       float* hidden, float* geometry) {
  const auto encode = [&](const auto* table) {
    kernels::cpu::HashEncodeForward(
        kernels::HashEncodeForwardParams<std::remove_cvref_t<decltype(*table)>>{
            .shape = &network.shape,
            .table = table,
            .n = n,
            .positions = unit,
            .features = encodings,
            .stride = kEncodingWidth,
            .n_active = network.n_active_levels});
  };
  if (network.half_table != nullptr) {
    encode(network.half_table);
  } else {
    encode(network.table);
  }
  Forward(network, kDensityHidden, n, encodings, hidden, {.relu = true});
  Forward(network, kDensityOutput, n, hidden, geometry, {});
}

void NgpDensities(const NgpNetwork& network, int n, const Vec3* unit, float* sigmas) {
  constexpr int kBatch = 512;
  struct Activations {
    Buffer<float> encodings{size_t{kEncodingWidth} * kBatch};
    Buffer<float> hidden{size_t{kHiddenWidth} * kBatch};
    Buffer<float> geometry{size_t{kGeometryWidth} * kBatch};
  };
  thread_local Activations a;
  for (int begin = 0; begin < n; begin += kBatch) {
    const int batch = std::min(kBatch, n - begin);
    NgpDensityForward(network, batch, unit + begin, a.encodings.data(), a.hidden.data(),
                      a.geometry.data());
    kernels::cpu::DensityActivation({.n = batch,
                                     .outputs = a.geometry.data(),
                                     .stride = kGeometryWidth,
                                     .shift = network.density_shift,
                                     .sigmas = sigmas + begin});
  }
}

const uint32_t* PackNgpWeightPairs(const float* weights, bool transposed, uint32_t* pairs) {
  if (!kernels::cpu::UsesBf16Layers()) return nullptr;
  for (const NgpLayer& layer : kNgpLayers) {
    const auto [n_rows, n_columns] =
        transposed ? std::pair(layer.n_out, layer.n_in) : std::pair(layer.n_in, layer.n_out);
    kernels::cpu::PackBf16Pairs(n_rows, n_columns, weights + layer.offset,
                                pairs + layer.offset / 2);
  }
  return pairs;
}

void NgpDirectionTerms(const NgpNetwork& network, int n, const float* harmonics,
                       float* direction_terms) {
  Forward(network, PartialLayer{kColorHidden0, 0, kDirectionWidth}, n, harmonics, direction_terms,
          {});
  if (network.appearance == nullptr) return;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < kHiddenWidth; ++j)
      direction_terms[size_t{kHiddenWidth} * i + j] += network.appearance[j];
  }
}

void NgpColorForward(const NgpNetwork& network, int n, const float* geometry, float* hidden0,
                     float* hidden1, float* colors) {
  Forward(network, PartialLayer{kColorHidden0, kDirectionWidth, kGeometryWidth}, n, geometry,
          hidden0, {.relu = true, .accumulate = true});
  Forward(network, kColorHidden1, n, hidden0, hidden1, {.relu = true});
  Forward(network, kColorOutput, n, hidden1, colors, {});
  kernels::cpu::Sigmoid({.n = n * kColorWidth, .values = colors});
}

}  // namespace nerf
