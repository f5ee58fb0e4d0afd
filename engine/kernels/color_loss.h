#pragma once

#include <cmath>

#include "engine/base/check.h"

namespace nerf::kernels {

// Quadratic up to a residual of huber_delta, linear beyond; infinity makes it quadratic everywhere.
// Source: Huber 1964, "Robust estimation of a location parameter".
struct LossShape {
  float huber_delta = INFINITY;
};

// Loss of one color channel and its derivative by the residual.
struct ChannelLoss {
  float value, derivative;
};
NERF_HD inline ChannelLoss LossOfResidual(const LossShape& shape, float residual) {
  const float size = std::abs(residual);
  if (size <= shape.huber_delta) return {0.5f * residual * residual, residual};
  return {shape.huber_delta * (size - 0.5f * shape.huber_delta),
          std::copysign(shape.huber_delta, residual)};
}

}  // namespace nerf::kernels
