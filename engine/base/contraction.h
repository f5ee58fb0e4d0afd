#pragma once

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "engine/base/vec3.h"

namespace nerf {

// Maps of unbounded space into twice the level-0 box: the norm that they shrink.
enum class Contraction { kNone, kLinf, kL2 };

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

// Inverse of Contract. Requires: |q| < 2.
NERF_HD inline Vec3 Uncontract(Contraction kind, Vec3 q) {
  const float norm = ContractionNorm(kind, q);
  if (!(norm > 1)) return q;
  return q * (1 / ((2 - norm) * norm));
}

}  // namespace nerf
