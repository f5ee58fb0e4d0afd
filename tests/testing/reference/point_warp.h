#pragma once

#include <cmath>
#include <numbers>

#include "engine/base/bfloat16.h"
#include "engine/base/layouts/warp_layers.h"
#include "engine/base/vec3.h"
#include "tests/testing/reference/dense_layer.h"

namespace nerf::reference {

// The inputs of the warp of a point of the unit cube at a time, one row, in double precision.
inline Matrix WarpInputs(Vec3 unit, double time) {
  Matrix inputs(1, kPlaceWidth + kTimeWidth);
  for (int axis = 0; axis < 3; ++axis) {
    const double p = 2.0 * unit[axis] - 1;
    const auto in_single = static_cast<float>(p);
    inputs.at(0, axis) = p;
    inputs.at(0, 3 + axis) = p - Bf16Low(Bf16Pair(in_single, 0));
    for (int k = 0; k < kWarpOctaves; ++k) {
      const double angle = std::pow(2, k) * std::numbers::pi * p;
      inputs.at(0, 6 + 2 * kWarpOctaves * axis + k) = std::sin(angle);
      inputs.at(0, 6 + 2 * kWarpOctaves * axis + kWarpOctaves + k) = std::cos(angle);
    }
  }
  inputs.at(0, kPlaceWidth) = 1;
  inputs.at(0, kPlaceWidth + 1) = time;
  for (int k = 0; k < kTimeOctaves; ++k) {
    const double angle = std::pow(2, k) * std::numbers::pi * time;
    inputs.at(0, kPlaceWidth + 2 + 2 * k) = std::sin(angle);
    inputs.at(0, kPlaceWidth + 3 + 2 * k) = std::cos(angle);
  }
  return inputs;
}

// Layer i of the warp's weights [kWarpWeights].
template <typename T>
Matrix WarpLayerWeights(const T* weights, int i) {
  const WarpLayer& layer = kWarpLayers[i];
  Matrix matrix(layer.n_in, layer.n_out);
  for (size_t w = 0; w < matrix.values.size(); ++w)
    matrix.values[w] = weights[static_cast<size_t>(layer.offset) + w];
  return matrix;
}

}  // namespace nerf::reference
