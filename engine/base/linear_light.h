#pragma once

#include <algorithm>
#include <cmath>

namespace nerf {

// sRGB, 0 to 1, as linear light, 0 to 1. Source: IEC 61966-2-1.
inline float LinearLight(float srgb) {
  const float c = std::clamp(srgb, 0.0f, 1.0f);
  return c <= 0.04045f ? c / 12.92f : std::pow((c + 0.055f) / 1.055f, 2.4f);
}

}  // namespace nerf
