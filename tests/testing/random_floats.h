#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/philox.h"
#include "engine/base/vec3.h"

namespace nerf {

// n reproducible numbers, uniform in [low, high).
inline std::vector<float> RandomFloats(size_t n, float low, float high, uint32_t stream = 0) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    const auto words = RandomWords(42, RandomUse::kTest, stream, static_cast<uint32_t>(i / 4));
    values[i] = low + (high - low) * UniformFloat(words[i % 4]);
  }
  return values;
}

inline std::vector<Vec3> RandomPoints(size_t n, float low, float high, uint32_t stream = 0) {
  const std::vector<float> values = RandomFloats(3 * n, low, high, stream);
  std::vector<Vec3> points(n);
  for (size_t i = 0; i < n; ++i) points[i] = {values[3 * i], values[3 * i + 1], values[3 * i + 2]};
  return points;
}

// Directions of unit length.
inline std::vector<Vec3> RandomDirections(size_t n, uint32_t stream = 0) {
  std::vector<Vec3> directions = RandomPoints(n, -1, 1, stream);
  for (Vec3& d : directions) d = Normalized(d + Vec3{1e-3f, 2e-3f, 3e-3f});
  return directions;
}

}  // namespace nerf
