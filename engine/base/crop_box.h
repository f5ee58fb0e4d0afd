#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/base/check.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"

namespace nerf {

// A turned box that views are cut to, in the frame of the rays.
struct CropBox {
  Vec3 center;
  Vec3 axes[3];  // the box's axes, each divided by half of its side

  // Cuts the ray to what lies in the box. Of a ray that misses it, t_near is beyond t_far.
  // Source: Kay and Kajiya 1986, slabs.
  NERF_HD void Cut(Ray* ray) const {
    const Vec3 from_center = ray->origin - center;
    for (int i = 0; i < 3; ++i) {
      const float at = Dot(axes[i], from_center), slope = Dot(axes[i], ray->direction);
      if (std::abs(slope) < 1e-12f) {
        if (std::abs(at) <= 1) continue;
        ray->t_near = 1;
        ray->t_far = 0;
        return;
      }
      const float a = (-1 - at) / slope, b = (1 - at) / slope;
      ray->t_near = std::max(ray->t_near, std::min(a, b));
      ray->t_far = std::min(ray->t_far, std::max(a, b));
    }
  }
  bool operator==(const CropBox&) const = default;
};
static_assert(std::is_trivially_copyable_v<CropBox>);

}  // namespace nerf
