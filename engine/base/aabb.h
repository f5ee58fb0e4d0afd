#pragma once

#include <algorithm>

#include "engine/base/vec3.h"

namespace nerf {

// Axis-aligned box, in scene units.
struct Aabb {
  Vec3 min{-1, -1, -1};
  Vec3 max{1, 1, 1};

  Vec3 Center() const { return (min + max) * 0.5f; }
  Vec3 Size() const { return max - min; }
  float Diagonal() const { return Norm(Size()); }
  // A box with the same center and `factor` times the size.
  Aabb Scaled(float factor) const {
    const Vec3 half = Size() * (0.5f * factor);
    return {Center() - half, Center() + half};
  }
  bool Contains(Vec3 p) const {
    return p.x >= min.x && p.x <= max.x && p.y >= min.y && p.y <= max.y && p.z >= min.z &&
           p.z <= max.z;
  }
  bool operator==(const Aabb&) const = default;
};

}  // namespace nerf
