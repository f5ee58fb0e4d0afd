#pragma once

#include <algorithm>
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

// The residual of a channel whose picture has a learned exposure: the picture may have cut off what
// is brighter than it can show.
NERF_HD inline float ResidualOfExposed(float residual, float target) {
  return target >= 1 && residual > 0 ? 0.0f : residual;
}

// How near a sample at t lies to the surface that its ray is known to meet at `depth`: 1 there,
// falling on a line to 0 at a tenth of the distance; 0 where depth <= 0, which means that it is not
// known. The loss of the ray is 1 minus the sum of this by weights: all light should end there.
// Being linear in the weights it leaves rays alone whose light ends elsewhere.
NERF_HD inline float DepthAttraction(float t, float depth) {
  constexpr float kReach = 0.1f;  // of the distance
  if (depth <= 0) return 0;
  return std::max(0.0f, 1 - std::abs(t - depth) / (kReach * depth));
}

// What the gradients of a sample at t are scaled by where those nearer than `near` are. Space near
// a camera is in the view of few others and has many samples per volume, so gradients there make
// fog in front of it. Source: Philip and Deschaintre 2023, "Floaters No More".
NERF_HD inline float NearGradientFactor(float t, float near) {
  if (t >= near) return 1;
  const float share = t / near;
  return share * share;
}

}  // namespace nerf::kernels
