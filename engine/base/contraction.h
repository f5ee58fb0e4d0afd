#pragma once

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "engine/base/vec3.h"

namespace nerf {

// How an encoding covers space beyond the level-0 box. kNone: by the boxes alone. kLinf, kL2: all
// of it is shrunk into twice the level-0 box, by that norm. kPerspective: what cameras that look
// one way see (encoded_space.h). kAuto: of settings alone; replaced when a training begins, kNone
// until then.
enum class Contraction { kNone, kLinf, kL2, kPerspective, kAuto };

// The norm that `kind` measures distances with: the largest coordinate, or with kL2 the length.
NERF_HD inline float ContractionNorm(Contraction kind, Vec3 p) {
  if (kind == Contraction::kL2) return std::sqrt(Dot(p, p));
  return std::max(std::abs(p.x), std::max(std::abs(p.y), std::abs(p.z)));
}

// contract(p) = p where |p| <= 1, (2 - 1 / |p|) p / |p| beyond: all of space in |.| < 2. p is
// relative to the center of the level-0 box, in units of half its side.
// Source: Barron et al. 2022, "Mip-NeRF 360", eq. 10, there with the L2 norm.
NERF_HD inline Vec3 Contract(Contraction kind, Vec3 p) {
  const float norm = ContractionNorm(kind, p);
  if (!(norm > 1)) return p;
  return p * ((2 - 1 / norm) / norm);
}

// Where an encoding of contracted space has p: Contract(p) in the unit cube.
NERF_HD inline Vec3 ContractedUnit(Contraction kind, Vec3 p) {
  return Contract(kind, p) * 0.25f + Vec3{0.5f, 0.5f, 0.5f};
}

// Where an encoding has what lies infinitely far away in a direction: on the border of the unit
// cube, or with kL2 of the ball in it. Requires: direction is not zero.
NERF_HD inline Vec3 HorizonUnit(Contraction kind, Vec3 direction) {
  return direction * (0.5f / ContractionNorm(kind, direction)) + Vec3{0.5f, 0.5f, 0.5f};
}

// Inverse of Contract. Requires: |q| < 2.
NERF_HD inline Vec3 Uncontract(Contraction kind, Vec3 q) {
  const float norm = ContractionNorm(kind, q);
  if (!(norm > 1)) return q;
  return q * (1 / ((2 - norm) * norm));
}

// Gradient by p from that by Contract(kind, p): the transposed Jacobian times it. With s(n) = (2 -
// 1 / n) / n, where n = |p| > 1, that is s grad + s' (p . grad) d n / d p.
NERF_HD inline Vec3 ContractionBackward(Contraction kind, Vec3 p, Vec3 grad) {
  const float n = ContractionNorm(kind, p);
  if (!(n > 1)) return grad;
  const float s = (2 - 1 / n) / n, slope = 2 * (1 / n - 1) / (n * n);
  Vec3 grad_norm = p * (1 / n);  // of kL2
  if (kind == Contraction::kLinf) {
    const int axis = std::abs(p.x) == n ? 0 : std::abs(p.y) == n ? 1 : 2;
    grad_norm = {};
    grad_norm[axis] = p[axis] < 0 ? -1.0f : 1.0f;
  }
  return grad * s + grad_norm * (slope * Dot(p, grad));
}

// Gradient by p from that by ContractedUnit(kind, p) = unit.
NERF_HD inline Vec3 ContractedUnitBackward(Contraction kind, Vec3 unit, Vec3 grad_unit) {
  const Vec3 contracted = (unit - Vec3{0.5f, 0.5f, 0.5f}) * 4;
  return ContractionBackward(kind, Uncontract(kind, contracted), grad_unit * 0.25f);
}

}  // namespace nerf
