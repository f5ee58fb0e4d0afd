#include "engine/methods/dynamic/evaluator.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/field/kernels/dense_layer.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/dense_layer.h"
#include "tests/testing/reference/hash_encoding.h"
#include "tests/testing/reference/ngp_field.h"
#include "tests/testing/reference/point_warp.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf {
namespace {

using reference::Matrix;
using reference::NgpLayerWeights;

// Where a point is encoded, in double precision, written down plainly.
Vec3 ReferenceWarp(const float* weights, Vec3 unit, double time) {
  Matrix values = reference::WarpInputs(unit, time);
  for (int i = 0; i < 3; ++i)
    values = DenseForward(values, reference::WarpLayerWeights(weights, i), i < 2);
  Vec3 warped;
  for (int axis = 0; axis < 3; ++axis)
    warped[axis] = static_cast<float>(std::clamp(unit[axis] + values.at(0, axis), 0.0, 1.0));
  return warped;
}

// Density and color, likewise.
struct Sample {
  double sigma, color[3];
};
Sample Reference(const DynamicNetwork& network, Vec3 unit, Vec3 direction, double time) {
  const kernels::HashGridShape& shape = network.ngp.network.shape;
  const Vec3 warped = ReferenceWarp(network.warp.weights, unit, time);
  Matrix encoding(1, shape.width());
  for (int level = 0; level < shape.n_levels; ++level) {
    for (const reference::HashCorner& corner : reference::HashCorners(shape, level, warped)) {
      const float* const entry = network.ngp.network.table + shape.level_size() * level +
                                 size_t{corner.entry} * shape.n_features;
      for (int f = 0; f < shape.n_features; ++f)
        encoding.at(0, shape.n_features * level + f) += corner.weight * entry[f];
    }
  }
  const Matrix hidden = DenseForward(encoding, NgpLayerWeights(network.ngp.network, 0), true);
  const Matrix geometry = DenseForward(hidden, NgpLayerWeights(network.ngp.network, 1), false);
  Matrix inputs(1, kColorInputWidth);
  const auto harmonics = reference::SphericalHarmonics4(direction.x, direction.y, direction.z);
  std::copy(harmonics.begin(), harmonics.end(), inputs.values.begin());
  std::copy(geometry.values.begin(), geometry.values.end(),
            inputs.values.begin() + kDirectionWidth);
  const Matrix color =
      DenseForward(DenseForward(DenseForward(inputs, NgpLayerWeights(network.ngp.network, 2), true),
                                NgpLayerWeights(network.ngp.network, 3), true),
                   NgpLayerWeights(network.ngp.network, 4), false);
  Sample sample{std::exp(geometry.at(0, 0) - network.ngp.network.density_shift), {}};
  for (int c = 0; c < 3; ++c) sample.color[c] = 1 / (1 + std::exp(-color.at(0, c)));
  return sample;
}

TEST(WarpEvaluatorTest, PointsAreMovedAsByTheReference) {
  const std::vector<float> weights = RandomFloats(kWarpWeights, -0.2f, 0.2f, 2);
  constexpr int kRows = 20;
  const float times[] = {0, 0.4f};
  std::vector<float> features(kTimeWidth * 2);
  for (int r = 0; r < 2; ++r) TimeFeatures(times[r], features.data() + kTimeWidth * r);
  const std::vector<Vec3> unit = RandomPoints(kRows, 0, 1, 3);
  std::vector<int> ray_of;
  for (int i = 0; i < kRows; ++i) ray_of.push_back(i / 10);
  std::vector<Vec3> warped(kRows);
  WarpEvaluator evaluator;
  evaluator.Reserve(kRows, 0);
  evaluator.Forward({weights.data()}, 0, kRows, unit.data(), ray_of.data(), features.data(),
                    warped.data());
  // bf16 layers keep 8 bits of what is multiplied.
  const float tolerance = kernels::cpu::UsesBf16Layers() ? 2e-2f : 1e-5f;
  for (int i = 0; i < kRows; ++i) {
    const Vec3 expected = ReferenceWarp(weights.data(), unit[i], times[ray_of[i]]);
    for (int axis = 0; axis < 3; ++axis)
      EXPECT_NEAR(warped[i][axis], expected[axis], tolerance) << i;
  }
}

// Of a sum of the moved points' coordinates, along a random direction of each layer's weights.
TEST(WarpEvaluatorTest, GradientIsThatOfTheReference) {
  const std::vector<float> weights = RandomFloats(kWarpWeights, -0.1f, 0.1f, 2);
  constexpr int kRows = 40;
  const float times[] = {0.2f, 0.9f};
  std::vector<float> features(kTimeWidth * 2);
  for (int r = 0; r < 2; ++r) TimeFeatures(times[r], features.data() + kTimeWidth * r);
  const std::vector<Vec3> unit = RandomPoints(kRows, 0.35f, 0.65f, 3);
  const std::vector<Vec3> pulls = RandomPoints(kRows, -1, 1, 4);
  std::vector<int> ray_of;
  for (int i = 0; i < kRows; ++i) ray_of.push_back(i / 20);
  std::vector<Vec3> warped(kRows);
  std::vector<float> transposed(kWarpWeights), gradient(kWarpWeights);
  TransposeWarp(weights.data(), transposed.data());
  const WarpNetwork network{weights.data(), transposed.data()};
  WarpEvaluator evaluator;
  evaluator.Reserve(kRows, 0);
  evaluator.Forward(network, 0, kRows, unit.data(), ray_of.data(), features.data(), warped.data());
  evaluator.Backward(network, kRows, ray_of.data(), features.data(), pulls.data(), gradient.data());
  for (const WarpLayer& layer : kWarpLayers) {
    const int end = layer.offset + layer.n_in * layer.n_out;
    double squared = 0;
    for (int w = layer.offset; w < end; ++w)
      squared += static_cast<double>(gradient[w]) * gradient[w];
    const double norm = std::sqrt(squared);
    ASSERT_GT(norm, 0.1) << layer.tensor_name;
    constexpr double kStep = 1e-2;  // along the gradient; the reference rounds its result to floats
    const auto sum_at = [&](double sign) {
      std::vector<float> moved = weights;
      for (int w = layer.offset; w < end; ++w)
        moved[w] += static_cast<float>(sign * kStep * gradient[w] / norm);
      double sum = 0;
      for (int i = 0; i < kRows; ++i)
        sum += Dot(ReferenceWarp(moved.data(), unit[i], times[ray_of[i]]), pulls[i]);
      return sum;
    };
    const double slope = (sum_at(1) - sum_at(-1)) / (2 * kStep);
    // Layers in bf16 keep 8 bits of what they multiply.
    EXPECT_NEAR(slope, norm, 0.03 * norm) << layer.tensor_name;
  }
}

TEST(WarpEvaluatorTest, WithoutWeightsNothingMoves) {
  const std::vector<float> weights(kWarpWeights);
  float features[kTimeWidth];
  TimeFeatures(0.7f, features);
  const Vec3 unit{0.1f, 0.5f, 0.9f};
  const int ray_of = 0;
  Vec3 warped;
  WarpEvaluator evaluator;
  evaluator.Reserve(1, 0);
  evaluator.Forward({weights.data()}, 0, 1, &unit, &ray_of, features, &warped);
  EXPECT_EQ(warped, unit);
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
  const std::vector<float> warp_weights = RandomFloats(kWarpWeights, -0.1f, 0.1f, 2);
  const DynamicNetwork network{{{.shape = shape,
                                 .box = {{0, 0, 0}, {1, 1, 1}},
                                 .table = parameters.table(),
                                 .weights = parameters.weights(),
                                 .density_shift = 0.5f}},
                               {warp_weights.data()}};
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
