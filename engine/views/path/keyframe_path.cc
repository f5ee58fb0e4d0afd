#include "engine/views/path/keyframe_path.h"

#include <algorithm>

#include "engine/views/path/spline.h"

namespace nerf {
namespace {

// Uniform Catmull-Rom between b and c, u in [0, 1]. Source: Catmull and Rom 1974.
float Cubic(float a, float b, float c, float d, float u) {
  return b + 0.5f * u * (c - a + u * (2 * a - 5 * b + 4 * c - d + u * (3 * (b - c) + d - a)));
}

}  // namespace

std::vector<PathCamera> ExpandKeyframes(std::span<const PathCamera> keyframes, int n,
                                        bool is_closed) {
  std::vector<Mat34> poses;
  for (const PathCamera& keyframe : keyframes) poses.push_back(keyframe.camera_to_world);
  const std::vector<Mat34> curve = SplineThrough(poses, n, is_closed);
  const auto n_keys = static_cast<int>(keyframes.size());
  const auto fov = [&](int i) {
    const int key = is_closed ? ((i % n_keys) + n_keys) % n_keys : std::clamp(i, 0, n_keys - 1);
    return keyframes[static_cast<size_t>(key)].fov_degrees;
  };
  const int n_spans = is_closed ? n_keys : n_keys - 1;
  const int n_steps = is_closed ? n : n - 1;
  std::vector<PathCamera> cameras;
  for (int i = 0; i < n; ++i) {
    const float at = n_steps > 0 ? static_cast<float>(i) * static_cast<float>(n_spans) /
                                       static_cast<float>(n_steps)
                                 : 0.0f;
    const int span = std::clamp(static_cast<int>(at), 0, std::max(0, n_spans - 1));
    const float u = std::clamp(at - static_cast<float>(span), 0.0f, 1.0f);
    const float before = fov(span), after = fov(span + 1);
    const float between = Cubic(fov(span - 1), before, after, fov(span + 2), u);
    cameras.push_back({curve[static_cast<size_t>(i)],
                       std::clamp(between, std::min(before, after), std::max(before, after))});
  }
  return cameras;
}

}  // namespace nerf
