#include "engine/views/path/spline.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace nerf {
namespace {

Vec3 Mix(Vec3 a, Vec3 b, float t0, float t1, float t) {
  return t1 > t0 ? a * ((t1 - t) / (t1 - t0)) + b * ((t - t0) / (t1 - t0)) : a;
}

// Between b and c, u in [0, 1].
Vec3 CatmullRom(Vec3 a, Vec3 b, Vec3 c, Vec3 d, float u) {
  const auto knot = [](Vec3 from, Vec3 to) { return std::sqrt(Norm(to - from)); };
  const float t0 = 0, t1 = t0 + knot(a, b), t2 = t1 + knot(b, c), t3 = t2 + knot(c, d);
  const float t = t1 + u * (t2 - t1);
  const Vec3 ab = Mix(a, b, t0, t1, t), bc = Mix(b, c, t1, t2, t), cd = Mix(c, d, t2, t3, t);
  // A double keyframe at an end leaves no interval to mix in: the inner curve alone.
  const Vec3 abc = t1 > t0 ? Mix(ab, bc, t0, t2, t) : bc;
  const Vec3 bcd = t3 > t2 ? Mix(bc, cd, t1, t3, t) : bc;
  return Mix(abc, bcd, t1, t2, t);
}

}  // namespace

Quaternion QuaternionOf(const Mat34& pose) {
  const auto& m = pose.m;
  // The largest of the four is divided by: each may be near 0.
  const float w2 = 1 + m[0][0] + m[1][1] + m[2][2], x2 = 1 + m[0][0] - m[1][1] - m[2][2];
  const float y2 = 1 - m[0][0] + m[1][1] - m[2][2], z2 = 1 - m[0][0] - m[1][1] + m[2][2];
  Quaternion q;
  const float largest = std::max({w2, x2, y2, z2});
  const float s = 0.5f / std::sqrt(largest);
  if (largest == w2) {
    q = {w2 * s, (m[2][1] - m[1][2]) * s, (m[0][2] - m[2][0]) * s, (m[1][0] - m[0][1]) * s};
  } else if (largest == x2) {
    q = {(m[2][1] - m[1][2]) * s, x2 * s, (m[0][1] + m[1][0]) * s, (m[0][2] + m[2][0]) * s};
  } else if (largest == y2) {
    q = {(m[0][2] - m[2][0]) * s, (m[0][1] + m[1][0]) * s, y2 * s, (m[1][2] + m[2][1]) * s};
  } else {
    q = {(m[1][0] - m[0][1]) * s, (m[0][2] + m[2][0]) * s, (m[1][2] + m[2][1]) * s, z2 * s};
  }
  return q;
}

void SetRotation(const Quaternion& q, Mat34* pose) {
  const float s = 2 / (q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);
  auto& m = pose->m;
  m[0][0] = 1 - s * (q.y * q.y + q.z * q.z);
  m[0][1] = s * (q.x * q.y - q.w * q.z);
  m[0][2] = s * (q.x * q.z + q.w * q.y);
  m[1][0] = s * (q.x * q.y + q.w * q.z);
  m[1][1] = 1 - s * (q.x * q.x + q.z * q.z);
  m[1][2] = s * (q.y * q.z - q.w * q.x);
  m[2][0] = s * (q.x * q.z - q.w * q.y);
  m[2][1] = s * (q.y * q.z + q.w * q.x);
  m[2][2] = 1 - s * (q.x * q.x + q.y * q.y);
}

Quaternion Slerp(const Quaternion& a, const Quaternion& b, float t) {
  const float dot = a.w * b.w + a.x * b.x + a.y * b.y + a.z * b.z;
  const float sign = dot < 0 ? -1.0f : 1.0f;
  const float angle = std::acos(std::min(1.0f, std::abs(dot)));
  float wa = 1 - t, wb = t;
  if (angle > 1e-4f) {
    wa = std::sin((1 - t) * angle) / std::sin(angle);
    wb = std::sin(t * angle) / std::sin(angle);
  }
  wb *= sign;
  return {wa * a.w + wb * b.w, wa * a.x + wb * b.x, wa * a.y + wb * b.y, wa * a.z + wb * b.z};
}

std::vector<Mat34> SplineThrough(std::span<const Mat34> keyframes, int n, bool is_closed) {
  NERF_CHECK(!keyframes.empty() && n >= 0);
  const auto n_keys = static_cast<int>(keyframes.size());
  const auto key = [&](int i) -> const Mat34& {
    if (is_closed) return keyframes[static_cast<size_t>(((i % n_keys) + n_keys) % n_keys)];
    return keyframes[static_cast<size_t>(std::clamp(i, 0, n_keys - 1))];
  };
  std::vector<Mat34> poses;
  for (int i = 0; i < n; ++i) {
    const int n_steps = is_closed ? n : n - 1;
    const int n_spans = is_closed ? n_keys : n_keys - 1;
    const float at = n_steps > 0 ? static_cast<float>(i) * static_cast<float>(n_spans) /
                                       static_cast<float>(n_steps)
                                 : 0.0f;
    const int span = std::clamp(static_cast<int>(at), 0, std::max(0, n_spans - 1));
    const float u = std::clamp(at - static_cast<float>(span), 0.0f, 1.0f);
    Mat34 pose;
    SetRotation(Slerp(QuaternionOf(key(span)), QuaternionOf(key(span + 1)), u), &pose);
    const Vec3 position = CatmullRom(key(span - 1).Column(3), key(span).Column(3),
                                     key(span + 1).Column(3), key(span + 2).Column(3), u);
    for (int row = 0; row < 3; ++row) pose.m[row][3] = position[row];
    poses.push_back(pose);
  }
  return poses;
}

}  // namespace nerf
