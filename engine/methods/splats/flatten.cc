#include "engine/methods/splats/flatten.h"

#include <algorithm>
#include <cmath>

#include "engine/methods/splats/harmonics.h"

namespace nerf {
namespace {

constexpr float kMaxDeterminant = 1e30f;  // pixels^4, so that its inverse is no zero
constexpr float kNear = 0.01f;            // in front of the camera, training units
constexpr float kSurroundings = 0.3f;     // of half of the picture, beyond its border

// A rotation's matrix from a quaternion of any length.
struct Turn {
  float m[3][3];
  float q[4];  // unit length
  float length;

  explicit Turn(const float* quaternion) {
    length = std::sqrt(quaternion[0] * quaternion[0] + quaternion[1] * quaternion[1] +
                       quaternion[2] * quaternion[2] + quaternion[3] * quaternion[3]);
    for (int i = 0; i < 4; ++i) q[i] = length > 0 ? quaternion[i] / length : i == 0;
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    const float rows[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                              {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                              {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    std::copy(&rows[0][0], &rows[0][0] + 9, &m[0][0]);
  }

  // From derivatives by the matrix to those by the quaternion.
  void Backward(const float (&g)[3][3], float* by_quaternion) const {
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    const float by_unit[4] = {
        2 * (x * (g[2][1] - g[1][2]) + y * (g[0][2] - g[2][0]) + z * (g[1][0] - g[0][1])),
        2 * (y * (g[0][1] + g[1][0]) + z * (g[0][2] + g[2][0]) + w * (g[2][1] - g[1][2]) -
             2 * x * (g[1][1] + g[2][2])),
        2 * (x * (g[0][1] + g[1][0]) + z * (g[1][2] + g[2][1]) + w * (g[0][2] - g[2][0]) -
             2 * y * (g[0][0] + g[2][2])),
        2 * (x * (g[0][2] + g[2][0]) + y * (g[1][2] + g[2][1]) + w * (g[1][0] - g[0][1]) -
             2 * z * (g[0][0] + g[1][1]))};
    // A length has no effect: what points along the quaternion is taken out.
    float along = 0;
    for (int i = 0; i < 4; ++i) along += by_unit[i] * q[i];
    for (int i = 0; i < 4; ++i)
      by_quaternion[i] = length > 0 ? (by_unit[i] - along * q[i]) / length : 0;
  }
};

// What both ways need of a splat in a view.
struct Flattening {
  const Turn turn;
  float variance[3];  // along its axes, with its width
  float scale2[3];    // without
  float dimming;      // by its width
  Vec3 offset, view;  // from the camera, in the frame's and in the camera's axes
  float slope_u, slope_v;
  bool is_bounded_u, is_bounded_v;
  // From the frame to the picture at the splat, and that times its axes.
  Vec3 to_x, to_y;
  float axes_x[3], axes_y[3];
  float xx, xy, yy;  // variances in the picture
  float inverse_z;

  Flattening(const float* row, float width, const SplatCamera& camera)
      : turn(row + SplatCloud::kRotation) {
    dimming = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const float scale = std::exp(row[SplatCloud::kLogScale + axis]);
      scale2[axis] = scale * scale;
      variance[axis] = scale2[axis] + width * width;
      dimming *= std::sqrt(scale2[axis] / variance[axis]);
    }
    offset = Vec3{row[0], row[1], row[2]} - camera.center;
    view = {Dot(camera.right, offset), Dot(camera.down, offset), Dot(camera.forward, offset)};
  }

  void Project(const SplatCamera& camera) {
    inverse_z = 1 / view.z;
    const float u = view.x * inverse_z, v = view.y * inverse_z;
    slope_u = std::clamp(u, camera.min_u, camera.max_u);
    slope_v = std::clamp(v, camera.min_v, camera.max_v);
    is_bounded_u = slope_u != u;
    is_bounded_v = slope_v != v;
    to_x = (camera.right - camera.forward * slope_u) * (camera.fl_x * inverse_z);
    to_y = (camera.down - camera.forward * slope_v) * (camera.fl_y * inverse_z);
    xx = yy = kPixelVariance;
    xy = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const Vec3 column{turn.m[0][axis], turn.m[1][axis], turn.m[2][axis]};
      axes_x[axis] = Dot(to_x, column);
      axes_y[axis] = Dot(to_y, column);
      xx += variance[axis] * axes_x[axis] * axes_x[axis];
      xy += variance[axis] * axes_x[axis] * axes_y[axis];
      yy += variance[axis] * axes_y[axis] * axes_y[axis];
    }
  }

  // xx * yy - xy * xy, which cancels for long thin splats, as a sum of terms of one sign.
  float Determinant() const {
    float sum = kPixelVariance * (xx + yy - kPixelVariance);
    for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3;
      const float area = axes_x[i] * axes_y[j] - axes_x[j] * axes_y[i];
      sum += variance[i] * variance[j] * area * area;
    }
    return sum;
  }
};

// The color of a row where its harmonics have these values, before it is cut off at 0.
Vec3 FreeColorOf(const float* row, int degree, const float* harmonics) {
  Vec3 color{0.5f, 0.5f, 0.5f};
  for (int i = 0; i < (degree + 1) * (degree + 1); ++i) {
    for (int channel = 0; channel < 3; ++channel)
      color[channel] += harmonics[i] * row[SplatCloud::kColor + 3 * i + channel];
  }
  return color;
}

}  // namespace

SplatCamera::SplatCamera(const Camera& camera)
    : center(camera.camera_to_world.Column(3)),
      right(Normalized(camera.camera_to_world.Column(0))),
      down(Normalized(camera.camera_to_world.Column(1)) * -1.0f),
      forward(Normalized(camera.camera_to_world.Column(2)) * -1.0f),
      width(camera.width),
      height(camera.height),
      fl_x(camera.fl_x),
      fl_y(camera.fl_y),
      cx(camera.cx),
      cy(camera.cy) {
  const float w = static_cast<float>(width), h = static_cast<float>(height);
  const float more_x = 0.5f * kSurroundings * w, more_y = 0.5f * kSurroundings * h;
  min_u = (-more_x - cx) / fl_x;
  max_u = (w + more_x - cx) / fl_x;
  min_v = (-more_y - cy) / fl_y;
  max_v = (h + more_y - cy) / fl_y;
}

bool FlattenSplat(const float* row, int degree, float width, const SplatCamera& camera,
                  kernels::FlatSplat* flat, float* depth) {
  Flattening f(row, width, camera);
  if (!(f.view.z > kNear)) return false;
  const float opacity = OpacityOf(row) * f.dimming;
  if (!(opacity > kernels::kMinSplatAlpha)) return false;
  f.Project(camera);
  const float determinant = f.Determinant();
  if (!(determinant > 0 && determinant < kMaxDeterminant)) return false;
  flat->x = camera.fl_x * f.view.x * f.inverse_z + camera.cx;
  flat->y = camera.fl_y * f.view.y * f.inverse_z + camera.cy;
  // exp(-q / 2) = kMinSplatAlpha / opacity on the border of what it reaches.
  const float q = 2 * std::log(opacity / kernels::kMinSplatAlpha);
  flat->reach_x = std::sqrt(q * f.xx);
  flat->reach_y = std::sqrt(q * f.yy);
  const auto w = static_cast<float>(camera.width), h = static_cast<float>(camera.height);
  if (!(flat->x + flat->reach_x > 0) || !(flat->x - flat->reach_x < w) ||
      !(flat->y + flat->reach_y > 0) || !(flat->y - flat->reach_y < h)) {
    return false;
  }
  flat->a = f.yy / determinant;
  flat->b = -f.xy / determinant;
  flat->c = f.xx / determinant;
  flat->opacity = opacity;
  *depth = f.view.z;
  float harmonics[16];
  SplatHarmonics(degree, f.offset * (1 / Norm(f.offset)), harmonics, nullptr);
  const Vec3 color = FreeColorOf(row, degree, harmonics);
  for (int channel = 0; channel < 3; ++channel)
    flat->color[channel] = std::max(0.0f, color[channel]);
  return true;
}

void BackwardFlatten(const float* row, int degree, float width, const SplatCamera& camera,
                     const kernels::FlatSplatGradient& gradient, float* row_gradient) {
  Flattening f(row, width, camera);
  f.Project(camera);

  // Colors.
  const float distance = Norm(f.offset);
  const Vec3 direction = f.offset * (1 / distance);
  float harmonics[16];
  Vec3 slopes[16];
  SplatHarmonics(degree, direction, harmonics, slopes);
  const float* const coefficients = row + SplatCloud::kColor;
  const int n_harmonics = (degree + 1) * (degree + 1);
  const Vec3 color = FreeColorOf(row, degree, harmonics);
  Vec3 by_color;
  for (int channel = 0; channel < 3; ++channel)
    by_color[channel] = color[channel] > 0 ? gradient.color[channel] : 0;
  Vec3 by_direction;
  for (int i = 0; i < n_harmonics; ++i) {
    float share = 0;
    for (int channel = 0; channel < 3; ++channel) {
      row_gradient[SplatCloud::kColor + 3 * i + channel] = by_color[channel] * harmonics[i];
      share += by_color[channel] * coefficients[3 * i + channel];
    }
    by_direction = by_direction + slopes[i] * share;
  }
  Vec3 by_position = (by_direction - direction * Dot(by_direction, direction)) * (1 / distance);

  // Shape in the picture: from the inverse matrix to the variances.
  const float determinant = f.Determinant();
  const float a = f.yy / determinant, b = -f.xy / determinant, c = f.xx / determinant;
  const float ga = gradient.a, gb = 0.5f * gradient.b, gc = gradient.c;
  const float by_xx = -(a * a * ga + 2 * a * b * gb + b * b * gc);
  const float by_yy = -(b * b * ga + 2 * b * c * gb + c * c * gc);
  const float by_xy = -(a * b * ga + (a * c + b * b) * gb + b * c * gc);  // one of its two places

  // To the axes of the splat, their lengths and the map to the picture.
  Vec3 by_to_x, by_to_y;
  float by_turn[3][3];
  const float own_opacity = OpacityOf(row);
  const float by_opacity_log = gradient.opacity * own_opacity * f.dimming;
  for (int axis = 0; axis < 3; ++axis) {
    const float x = f.axes_x[axis], y = f.axes_y[axis], variance = f.variance[axis];
    const float by_variance = by_xx * x * x + 2 * by_xy * x * y + by_yy * y * y;
    row_gradient[SplatCloud::kLogScale + axis] =
        2 * f.scale2[axis] * by_variance + by_opacity_log * (1 - f.scale2[axis] / variance);
    const float by_x = 2 * variance * (by_xx * x + by_xy * y);
    const float by_y = 2 * variance * (by_xy * x + by_yy * y);
    const Vec3 column{f.turn.m[0][axis], f.turn.m[1][axis], f.turn.m[2][axis]};
    by_to_x = by_to_x + column * by_x;
    by_to_y = by_to_y + column * by_y;
    for (int line = 0; line < 3; ++line)
      by_turn[line][axis] = by_x * f.to_x[line] + by_y * f.to_y[line];
  }
  f.turn.Backward(by_turn, row_gradient + SplatCloud::kRotation);
  row_gradient[SplatCloud::kOpacity] = by_opacity_log * (1 - own_opacity);

  // The map to the picture: to_x = (right - forward * slope_u) * fl_x / z.
  const float scale_x = camera.fl_x * f.inverse_z, scale_y = camera.fl_y * f.inverse_z;
  const float by_slope_u = -Dot(by_to_x, camera.forward) * scale_x;
  const float by_slope_v = -Dot(by_to_y, camera.forward) * scale_y;
  float by_u = gradient.x * camera.fl_x, by_v = gradient.y * camera.fl_y;
  if (!f.is_bounded_u) by_u += by_slope_u;
  if (!f.is_bounded_v) by_v += by_slope_v;
  const float u = f.view.x * f.inverse_z, v = f.view.y * f.inverse_z;
  const float by_z =
      -f.inverse_z * (Dot(by_to_x, f.to_x) + Dot(by_to_y, f.to_y) + by_u * u + by_v * v);
  by_position = by_position + camera.right * (by_u * f.inverse_z) +
                camera.down * (by_v * f.inverse_z) + camera.forward * by_z;
  for (int axis = 0; axis < 3; ++axis) row_gradient[axis] = by_position[axis];
}

}  // namespace nerf
