#include "engine/methods/dynamic/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/dense_layer.h"
#include "tests/testing/reference/hash_encoding.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf {
namespace {

using reference::Matrix;

Matrix LayerWeights(const NgpNetwork& network, int i) {
  const NgpLayer& layer = kNgpLayers[i];
  Matrix weights(layer.n_in, layer.n_out_used);
  for (int in = 0; in < layer.n_in; ++in) {
    for (int out = 0; out < layer.n_out_used; ++out)
      weights.at(in, out) = network.weights[layer.offset + in * layer.n_out + out];
  }
  return weights;
}

// Density and color in double precision, written down plainly.
struct Sample {
  double sigma, color[3];
};
Sample Reference(const DynamicNetwork& network, Vec3 unit, Vec3 direction, double time) {
  const kernels::HashGridShape& shape = network.ngp.shape;
  Matrix encoding(1, shape.width());
  for (int level = 0; level < shape.n_levels; ++level) {
    for (const reference::HashCorner& corner : reference::HashCorners(shape, level, unit)) {
      const float* const entry =
          network.ngp.table + shape.level_size() * level + size_t{corner.entry} * shape.n_features;
      for (int f = 0; f < shape.n_features; ++f)
        encoding.at(0, shape.n_features * level + f) += corner.weight * entry[f];
    }
  }
  std::vector<double> features = {1, time};
  for (int k = 0; k < kTimeOctaves; ++k) {
    features.push_back(std::sin(std::pow(2, k) * std::numbers::pi * time));
    features.push_back(std::cos(std::pow(2, k) * std::numbers::pi * time));
  }
  Matrix hidden = DenseForward(encoding, LayerWeights(network.ngp, 0), false);
  for (int h = 0; h < kHiddenWidth; ++h) {
    for (size_t f = 0; f < features.size(); ++f)
      hidden.at(0, h) += features[f] * network.time_weights[f * kHiddenWidth + h];
    hidden.at(0, h) = std::max(hidden.at(0, h), 0.0);
  }
  const Matrix geometry = DenseForward(hidden, LayerWeights(network.ngp, 1), false);
  Matrix inputs(1, kColorInputWidth);
  const auto harmonics = reference::SphericalHarmonics4(direction.x, direction.y, direction.z);
  std::copy(harmonics.begin(), harmonics.end(), inputs.values.begin());
  std::copy(geometry.values.begin(), geometry.values.end(),
            inputs.values.begin() + kDirectionWidth);
  const Matrix color =
      DenseForward(DenseForward(DenseForward(inputs, LayerWeights(network.ngp, 2), true),
                                LayerWeights(network.ngp, 3), true),
                   LayerWeights(network.ngp, 4), false);
  Sample sample{std::exp(geometry.at(0, 0) - network.ngp.density_shift), {}};
  for (int c = 0; c < 3; ++c) sample.color[c] = 1 / (1 + std::exp(-color.at(0, c)));
  return sample;
}

TEST(DynamicEvaluatorTest, FieldIsThatOfTheReferenceAtEveryTime) {
  TrainConfig config;
  config.method = "dynamic";
  Ngp(config).log2_hashmap_size = 12;
  Ngp(config).half_table = 0;
  const kernels::HashGridShape shape = NgpHashGridShape({.log2_hashmap_size = 12});
  NgpParameters parameters(config, shape);
  parameters.InitializeRandomly();
  const NgpParameters::Arrays arrays = parameters.arrays();
  const std::vector<float> table = RandomFloats(arrays.table.size(), -1, 1, 1);
  std::copy(table.begin(), table.end(), arrays.table.begin());
  const std::vector<float> time_weights = RandomFloats(kTimeWidth * kHiddenWidth, -0.5f, 0.5f, 2);
  const DynamicNetwork network{{.shape = shape,
                                .box = {{0, 0, 0}, {1, 1, 1}},
                                .table = parameters.table(),
                                .weights = parameters.weights(),
                                .density_shift = 0.5f},
                               time_weights.data()};
  constexpr int kRays = 3, kRows = 9;
  const float times[kRays] = {0, 0.3f, 1};
  const std::vector<Vec3> unit = RandomPoints(kRows, 0, 1, 3), directions = RandomDirections(kRays);
  std::vector<float> features(kTimeWidth * kRays), harmonics(kDirectionWidth * kRays),
      sigmas(kRows);
  for (int r = 0; r < kRays; ++r) {
    TimeFeatures(times[r], features.data() + kTimeWidth * r);
    const auto expected =
        reference::SphericalHarmonics4(directions[r].x, directions[r].y, directions[r].z);
    std::copy(expected.begin(), expected.end(), harmonics.begin() + kDirectionWidth * r);
  }
  std::vector<int> ray_of;
  for (int i = 0; i < kRows; ++i) ray_of.push_back(i / 3);
  std::vector<Vec3> colors(kRows);
  DynamicEvaluator evaluator;
  evaluator.Reserve(kRows, 0);
  evaluator.Density(network, 0, kRows, unit.data(), ray_of.data(), features.data(), sigmas.data());
  evaluator.Color(network, kRows, nullptr, ray_of.data(), kRays, harmonics.data(), colors.data());
  for (int i = 0; i < kRows; ++i) {
    const Sample expected = Reference(network, unit[i], directions[ray_of[i]], times[ray_of[i]]);
    EXPECT_NEAR(sigmas[i], expected.sigma, 1e-3 * expected.sigma) << i;
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(colors[i][c], expected.color[c], 1e-3) << i;
  }
}

}  // namespace
}  // namespace nerf
