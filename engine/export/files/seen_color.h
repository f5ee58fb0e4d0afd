#pragma once

#include <span>

#include "engine/base/vec3.h"

namespace nerf {

// A color that changes linearly with the direction it is seen along: harmonics of degree 1.
struct SeenColor {
  Vec3 base;      // sRGB
  Vec3 slope[3];  // added for a unit of the direction's x, y and z

  Vec3 Along(Vec3 direction) const {
    return base + slope[0] * direction.x + slope[1] * direction.y + slope[2] * direction.z;
  }
};

// The one that is closest to colors seen along directions of unit length, with slopes no steeper
// than they need be (ridge regression). Shapes: both [n], n > 0.
SeenColor FitSeenColor(std::span<const Vec3> directions, std::span<const Vec3> colors);

}  // namespace nerf
