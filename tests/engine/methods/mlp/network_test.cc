#include "engine/methods/mlp/network.h"

#include <cmath>
#include <vector>

#include "engine/methods/mlp/describe/mlp_settings.h"
#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/mlp_field.h"

namespace nerf {
namespace {

constexpr int kRows = 37, kRays = 5;

// A small network on a few samples, with a loss that is linear in densities and colors.
class MlpNetworkTest : public ::testing::TestWithParam<bool> {
 protected:
  MlpNetworkTest()
      : layout_(Config(GetParam()), "field."),
        parameters_(RandomFloats(layout_.size, -0.25f, 0.3f, 7)),
        derived_(layout_, /*with_backward=*/true) {
    derived_.Derive(layout_, parameters_.data());
    for (int i = 0; i < kRows; ++i) ray_of_.push_back(i * kRays / kRows);
  }
  static TrainConfig Config(bool feature_relu) {
    TrainConfig config;
    config.method = "mlp";
    Mlp(config).width = 32;
    Mlp(config).depth = 4;
    Mlp(config).skip = 2;
    Mlp(config).feature_relu = feature_relu ? 1 : 0;
    return config;
  }
  double ReferenceLoss(const std::vector<double>& parameters) const {
    const reference::MlpField reference({&layout_, &parameters}, network_.placement);
    double loss = 0;
    for (int i = 0; i < kRows; ++i) {
      const reference::MlpField::Sample output =
          reference.At(positions_[i], directions_[ray_of_[i]]);
      loss += grad_sigmas_[i] * output.sigma;
      for (int c = 0; c < 3; ++c) loss += grad_colors_[i][c] * output.color[c];
    }
    return loss;
  }

  const MlpLayout layout_;
  const std::vector<float> parameters_;
  MlpDerived derived_;
  const MlpNetwork network_{&layout_, parameters_.data(), &derived_, {{0.1f, 0, 0}, 0.75f}};
  const std::vector<Vec3> positions_ = RandomPoints(kRows, -1, 1, 1);
  const std::vector<Vec3> directions_ = RandomDirections(kRays, 2);
  std::vector<int> ray_of_;
  const std::vector<float> grad_sigmas_ = RandomFloats(kRows, -1, 1, 3);
  const std::vector<Vec3> grad_colors_ = RandomPoints(kRows, -1, 1, 4);
};

TEST_P(MlpNetworkTest, ForwardPassIsThatOfTheReference) {
  const std::vector<double> parameters(parameters_.begin(), parameters_.end());
  const reference::MlpField reference({&layout_, &parameters}, network_.placement);
  for (const bool with_backward : {false, true}) {
    MlpEvaluator evaluator(network_, with_backward);
    evaluator.Reserve(kRows, 0);
    evaluator.Begin(kRays, directions_.data());
    std::vector<float> sigmas(kRows);
    std::vector<Vec3> colors(kRows);
    // In two parts, as a march takes them.
    evaluator.Density(0, 20, positions_.data(), sigmas.data());
    evaluator.Density(20, kRows - 20, positions_.data() + 20, sigmas.data() + 20);
    evaluator.Color(kRows, ray_of_.data(), colors.data());
    int n_dense = 0;
    for (int i = 0; i < kRows; ++i) {
      const reference::MlpField::Sample output =
          reference.At(positions_[i], directions_[ray_of_[i]]);
      EXPECT_NEAR(sigmas[i], output.sigma, 1e-4 * (1 + output.sigma)) << i;
      for (int c = 0; c < 3; ++c) EXPECT_NEAR(colors[i][c], output.color[c], 1e-4) << i;
      n_dense += sigmas[i] > 0;
    }
    EXPECT_GT(n_dense, 5);
  }
}

TEST_P(MlpNetworkTest, GradientsAreThoseOfTheReference) {
  MlpEvaluator evaluator(network_, /*with_backward=*/true);
  evaluator.Reserve(kRows + 1, 0);
  evaluator.Begin(kRays, directions_.data());
  std::vector<float> sigmas(kRows + 1), gradients(layout_.size);
  std::vector<Vec3> colors(kRows);
  // One row too many before the last, which is then moved over it.
  std::vector<Vec3> positions = positions_;
  positions.insert(positions.begin() + kRows - 1, Vec3{0.3f, 0.2f, 0.9f});
  evaluator.Density(0, kRows + 1, positions.data(), sigmas.data());
  evaluator.MoveRow(kRows, kRows - 1);
  evaluator.Color(kRows, ray_of_.data(), colors.data());
  evaluator.Backward(kRows, ray_of_.data(), grad_sigmas_.data(), grad_colors_.data(),
                     gradients.data());
  std::vector<double> parameters(parameters_.begin(), parameters_.end());
  const auto loss = [&] { return ReferenceLoss(parameters); };
  for (const MlpLayer& layer : layout_.layers) {
    // A few weights of each layer and a bias.
    const auto last = static_cast<size_t>(layer.n_in - 6);
    for (const size_t i :
         {layer.weights, layer.weights + 7u * layer.n_out + 1,
          layer.weights + last * layer.n_out + 2, layer.biases, layer.biases + 1}) {
      // Small, so that few ReLUs change sides.
      const double expected = CentralDifference(&parameters[i], 1e-6, loss);
      EXPECT_NEAR(gradients[i], expected, 2e-3 * (1 + std::abs(expected)))
          << layer.name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FeatureRelu, MlpNetworkTest, ::testing::Bool());

TEST(MlpEncodeTest, HoldsCoordinatesThenOctaves) {
  float encoding[kMlpDirectionWidth];
  MlpEncode({0.5f, -1, 0.25f}, 4, kMlpDirectionWidth, encoding);
  EXPECT_EQ(encoding[1], -1);
  EXPECT_NEAR(encoding[3], std::sin(0.5), 1e-6);
  EXPECT_NEAR(encoding[6], std::cos(0.5), 1e-6);
  EXPECT_NEAR(encoding[3 + 3 * 6], std::sin(4.0), 1e-6) << "the fourth octave";
  EXPECT_EQ(encoding[27], 0) << "padding";
}

}  // namespace
}  // namespace nerf
