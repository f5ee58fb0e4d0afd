#include "engine/field/ngp_network.h"

#include <type_traits>

#include "engine/kernels/activation.h"
#include "engine/kernels/dense_layer.h"

namespace nerf {
namespace {

constexpr int kBaseResolution = 16;

void Layer(const NgpNetwork& network, int layer, int n, const float* inputs, float* outputs,
           bool relu) {
  const NgpLayer& l = kNgpLayers[layer];
  kernels::cpu::DenseForward({.n_rows = n,
                              .n_in = l.n_in,
                              .n_out = l.n_out,
                              .inputs = inputs,
                              .input_stride = l.n_in,
                              .weights = network.layer(layer),
                              .outputs = outputs,
                              .output_stride = l.n_out,
                              .relu = relu});
}

}  // namespace

kernels::HashGridShape NgpHashGridShape(const NgpEncoding& encoding) {
  return kernels::MakeHashGridShape(
      kEncodingWidth / encoding.n_features_per_level, encoding.n_features_per_level,
      encoding.log2_hashmap_size, kBaseResolution,
      encoding.finest_resolution << (encoding.n_occupancy_levels - 1));
}

void ToUnitCube(const Aabb& box, int n, const Vec3* positions, Vec3* unit) {
  const Vec3 size = box.Size();
  const Vec3 scale{1 / size.x, 1 / size.y, 1 / size.z};
  for (int i = 0; i < n; ++i) unit[i] = (positions[i] - box.min) * scale;
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
  Layer(network, 0, n, encodings, hidden, true);
  Layer(network, 1, n, hidden, geometry, false);
}

void NgpDirectionShares(const NgpNetwork& network, int n, const float* harmonics, float* shares) {
  kernels::cpu::DenseForward({.n_rows = n,
                              .n_in = kDirectionWidth,
                              .n_out = kHiddenWidth,
                              .inputs = harmonics,
                              .input_stride = kDirectionWidth,
                              .weights = network.layer(kColourInputLayer),
                              .outputs = shares,
                              .output_stride = kHiddenWidth});
}

void NgpColourForward(const NgpNetwork& network, int n, const float* geometry, float* hidden0,
                      float* hidden1, float* colours) {
  kernels::cpu::DenseForward(
      {.n_rows = n,
       .n_in = kGeometryWidth,
       .n_out = kHiddenWidth,
       .inputs = geometry,
       .input_stride = kGeometryWidth,
       .weights = network.layer(kColourInputLayer) + kDirectionWidth * kHiddenWidth,
       .outputs = hidden0,
       .output_stride = kHiddenWidth,
       .relu = true,
       .accumulate = true});
  Layer(network, 3, n, hidden0, hidden1, true);
  Layer(network, 4, n, hidden1, colours, false);
  kernels::cpu::Sigmoid({.n = n * kColourWidth, .values = colours});
}

}  // namespace nerf
