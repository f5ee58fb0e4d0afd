#pragma once

#include "engine/base/vec3.h"

namespace nerf {

// The half line origin + t * direction for t in [t_near, t_far]. direction has unit length; t in
// scene units.
struct Ray {
  Vec3 origin;
  Vec3 direction;
  float t_near = 0;
  float t_far = 1e10f;
};

}  // namespace nerf
