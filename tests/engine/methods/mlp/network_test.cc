#include "engine/methods/mlp/network.h"

#include <cmath>
#include <vector>

#include "engine/methods/mlp/describe/mlp_settings.h"
#include "gtest/gtest.h"
#include "tests/testing/central_difference.h"
#include "tests/testing/random_floats.h"

namespace nerf {
namespace {

// The network in double precision, written down plainly.
class Reference {
 public:
  Reference(const MlpLayout& layout, const MlpPlacement& placement,
            const std::vector<double>& parameters)
      : layout_(layout), placement_(placement), parameters_(parameters) {}

  struct Output {
    double sigma = 0;
    double color[3] = {};
  };
  Output At(Vec3 position, Vec3 direction) const {
    const std::vector<double> encoded =
        Encoded((position - placement_.center) * placement_.scale, 10, kMlpPositionWidth);
    std::vector<double> hidden;
    for (int l = 0; l < layout_.depth; ++l) {
      std::vector<double> inputs = l == 0 || l == layout_.skip ? encoded : std::vector<double>();
      inputs.insert(inputs.end(), hidden.begin(), hidden.end());
      hidden = Layer(layout_.trunk(l), inputs, true);
    }
    Output output;
    output.sigma = std::max(Layer(layout_.density(), hidden, false)[0], 0.0) * placement_.scale;
    std::vector<double> inputs = Layer(layout_.feature(), hidden, layout_.feature_relu);
    const std::vector<double> seen = Encoded(direction, 4, kMlpDirectionWidth);
    inputs.insert(inputs.end(), seen.begin(), seen.end());
    const std::vector<double> color =
        Layer(layout_.color(), Layer(layout_.color_hidden(), inputs, true), false);
    for (int c = 0; c < 3; ++c) output.color[c] = 1 / (1 + std::exp(-color[c]));
    return output;
  }

 private:
  static std::vector<double> Encoded(Vec3 point, int n_octaves, int width) {
    std::vector<double> values;
    for (int axis = 0; axis < 3; ++axis) values.push_back(point[axis]);
    for (int octave = 0; octave < n_octaves; ++octave) {
      for (int axis = 0; axis < 3; ++axis)
        values.push_back(std::sin(std::ldexp(static_cast<double>(point[axis]), octave)));
      for (int axis = 0; axis < 3; ++axis)
        values.push_back(std::cos(std::ldexp(static_cast<double>(point[axis]), octave)));
    }
    values.resize(width);
    return values;
  }
  std::vector<double> Layer(const MlpLayer& layer, const std::vector<double>& inputs,
                            bool relu) const {
    std::vector<double> outputs(layer.n_out);
    for (int out = 0; out < layer.n_out; ++out) {
      double sum = parameters_[layer.biases + out];
      for (int in = 0; in < layer.n_in; ++in)
        sum += inputs[in] * parameters_[layer.weights + in * layer.n_out + out];
      outputs[out] = relu ? std::max(sum, 0.0) : sum;
    }
    return outputs;
  }

  const MlpLayout& layout_;
  const MlpPlacement placement_;
  const std::vector<double>& parameters_;
};

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
    const Reference reference(layout_, network_.placement, parameters);
    double loss = 0;
    for (int i = 0; i < kRows; ++i) {
      const Reference::Output output = reference.At(positions_[i], directions_[ray_of_[i]]);
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
  const Reference reference(layout_, network_.placement, parameters);
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
      const Reference::Output output = reference.At(positions_[i], directions_[ray_of_[i]]);
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
