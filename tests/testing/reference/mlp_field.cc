#include "tests/testing/reference/mlp_field.h"

#include <algorithm>
#include <cmath>

namespace nerf::reference {
namespace {

std::vector<double> Encoded(const std::array<double, 3>& point, int n_octaves, int width) {
  std::vector<double> values(point.begin(), point.end());
  for (int octave = 0; octave < n_octaves; ++octave) {
    for (const double x : point) values.push_back(std::sin(std::ldexp(x, octave)));
    for (const double x : point) values.push_back(std::cos(std::ldexp(x, octave)));
  }
  values.resize(width);
  return values;
}

std::array<double, 3> AsDoubles(Vec3 v) { return {v.x, v.y, v.z}; }

}  // namespace

MlpField::Sample MlpField::At(Vec3 position, Vec3 direction) const {
  std::array<double, 3> placed = AsDoubles(position - placement_.center);
  for (double& x : placed) x *= placement_.scale;
  const std::vector<double> encoded = Encoded(placed, kMlpPositionOctaves, kMlpPositionWidth);
  std::vector<double> hidden;
  for (int l = 0; l < layout_.depth; ++l) {
    std::vector<double> inputs = l == 0 || l == layout_.skip ? encoded : std::vector<double>();
    inputs.insert(inputs.end(), hidden.begin(), hidden.end());
    hidden = Layer(layout_.trunk(l), inputs, true);
  }
  Sample sample;
  sample.sigma = std::max(Layer(layout_.density(), hidden, false)[0], 0.0) * placement_.scale;
  std::vector<double> inputs = Layer(layout_.feature(), hidden, layout_.feature_relu);
  const std::vector<double> seen =
      Encoded(AsDoubles(direction), kMlpDirectionOctaves, kMlpDirectionWidth);
  inputs.insert(inputs.end(), seen.begin(), seen.end());
  const std::vector<double> color =
      Layer(layout_.color(), Layer(layout_.color_hidden(), inputs, true), false);
  for (int c = 0; c < 3; ++c) sample.color[c] = 1 / (1 + std::exp(-color[c]));
  return sample;
}

std::vector<double> MlpField::Layer(const MlpLayer& layer, const std::vector<double>& inputs,
                                    bool relu) const {
  std::vector<double> outputs(layer.n_out);
  for (int out = 0; out < layer.n_out; ++out) {
    double sum = parameters_[layer.biases + out];
    for (int in = 0; in < layer.n_in; ++in)
      sum += inputs[in] * parameters_[layer.weights + static_cast<size_t>(in) * layer.n_out + out];
    outputs[out] = relu ? std::max(sum, 0.0) : sum;
  }
  return outputs;
}

}  // namespace nerf::reference
