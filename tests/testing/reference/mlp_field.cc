#include "tests/testing/reference/mlp_field.h"

#include <algorithm>
#include <cmath>

namespace nerf::reference {
namespace {

using Network = MlpField::Network;

std::vector<double> Encoded(const std::vector<double>& point, int n_octaves, int width) {
  std::vector<double> values = point;
  for (int octave = 0; octave < n_octaves; ++octave) {
    for (const double x : point) values.push_back(std::sin(std::ldexp(x, octave)));
    for (const double x : point) values.push_back(std::cos(std::ldexp(x, octave)));
  }
  values.resize(width);
  return values;
}

std::vector<double> Joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<double> Layer(const Network& network, const MlpLayer& layer,
                          const std::vector<double>& inputs, bool relu) {
  const std::vector<double>& p = *network.parameters;
  std::vector<double> outputs(layer.n_out);
  for (int out = 0; out < layer.n_out; ++out) {
    double sum = p[layer.biases + out];
    for (int in = 0; in < layer.n_in; ++in)
      sum += inputs[in] * p[layer.weights + static_cast<size_t>(in) * layer.n_out + out];
    outputs[out] = relu ? std::max(sum, 0.0) : sum;
  }
  return outputs;
}

// The last hidden layer.
std::vector<double> Trunk(const Network& network, const std::vector<double>& placed, double time) {
  const MlpLayout& layout = *network.layout;
  std::vector<double> encoded = Encoded(placed, kMlpPositionOctaves, kMlpPositionWidth);
  if (layout.reads_time) encoded = Joined(encoded, Encoded({time}, kMlpTimeOctaves, kMlpTimeWidth));
  std::vector<double> hidden;
  for (int l = 0; l < layout.depth; ++l) {
    const bool reads_encoded = l == 0 || l == layout.skip;
    hidden =
        Layer(network, layout.trunk(l), reads_encoded ? Joined(encoded, hidden) : hidden, true);
  }
  return hidden;
}

}  // namespace

MlpField::Sample MlpField::At(Vec3 position, Vec3 direction, double time) const {
  const Vec3 offset = position - placement_.center;
  std::vector<double> placed = {offset.x, offset.y, offset.z};
  for (double& x : placed) x *= placement_.scale;
  if (warp_.layout != nullptr && time != 0) {
    const std::vector<double> shift =
        Layer(warp_, warp_.layout->output(), Trunk(warp_, placed, time), false);
    for (int axis = 0; axis < 3; ++axis) placed[axis] += shift[axis];
  }
  const MlpLayout& layout = *field_.layout;
  const std::vector<double> hidden = Trunk(field_, placed, time);
  Sample sample;
  sample.sigma = std::max(Layer(field_, layout.output(), hidden, false)[0], 0.0) * placement_.scale;
  const std::vector<double> feature = Layer(field_, layout.feature(), hidden, layout.feature_relu);
  const std::vector<double> seen =
      Encoded({direction.x, direction.y, direction.z}, kMlpDirectionOctaves, kMlpDirectionWidth);
  const std::vector<double> color_hidden =
      Layer(field_, layout.color_hidden(), Joined(feature, seen), true);
  const std::vector<double> color = Layer(field_, layout.color(), color_hidden, false);
  for (int c = 0; c < 3; ++c) sample.color[c] = 1 / (1 + std::exp(-color[c]));
  return sample;
}

}  // namespace nerf::reference
