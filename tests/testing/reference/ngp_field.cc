#include "tests/testing/reference/ngp_field.h"

#include <algorithm>
#include <cmath>

#include "tests/testing/reference/hash_encoding.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf::reference {

Matrix NgpLayerWeights(const NgpNetwork& network, int i) {
  const NgpLayer& layer = kNgpLayers[i];
  Matrix weights(layer.n_in, layer.n_out_used);
  for (int in = 0; in < layer.n_in; ++in) {
    for (int out = 0; out < layer.n_out_used; ++out)
      weights.at(in, out) = network.weights[layer.offset + in * layer.n_out + out];
  }
  return weights;
}

FieldSample NgpFieldAt(const NgpNetwork& network, Vec3 unit, Vec3 direction) {
  const kernels::HashGridShape& shape = network.shape;
  const int n_features = shape.n_features;
  Matrix encoding(1, shape.width());
  for (int level = 0; level < shape.n_levels; ++level) {
    for (const HashCorner& corner : HashCorners(shape, level, unit)) {
      const float* entry =
          network.table + shape.level_size() * level + size_t{corner.entry} * n_features;
      for (int f = 0; f < n_features; ++f)
        encoding.at(0, n_features * level + f) += corner.weight * entry[f];
    }
  }
  const Matrix hidden = DenseForward(encoding, NgpLayerWeights(network, 0), true);
  const Matrix geometry = DenseForward(hidden, NgpLayerWeights(network, 1), false);
  Matrix inputs(1, kColorInputWidth);
  const auto harmonics = SphericalHarmonics4(direction.x, direction.y, direction.z);
  std::copy(harmonics.begin(), harmonics.end(), inputs.values.begin());
  std::copy(geometry.values.begin(), geometry.values.end(),
            inputs.values.begin() + kDirectionWidth);
  Matrix hidden0 = DenseForward(inputs, NgpLayerWeights(network, 2), false);
  for (int j = 0; j < kHiddenWidth; ++j) {
    if (network.appearance != nullptr) hidden0.at(0, j) += network.appearance[j];
    hidden0.at(0, j) = std::max(hidden0.at(0, j), 0.0);
  }
  const Matrix hidden1 = DenseForward(hidden0, NgpLayerWeights(network, 3), true);
  const Matrix color = DenseForward(hidden1, NgpLayerWeights(network, 4), false);
  FieldSample sample{std::exp(std::min(geometry.at(0, 0) - network.density_shift, 15.0)), {}};
  for (int c = 0; c < 3; ++c) sample.color[c] = 1 / (1 + std::exp(-color.at(0, c)));
  return sample;
}

}  // namespace nerf::reference
