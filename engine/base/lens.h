#pragma once

#include <cmath>

#include "engine/base/check.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"

namespace nerf {

// Radial and tangential distortion of a lens, as OpenCV models it.
struct LensDistortion {
  float k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0;
};

// Where the model sends normalized image coordinates (u, v), and its Jacobian (row-major 2x2)
// there; in double because Newton squares what is lost.
struct DistortedPoint {
  double u, v;
  double du_du, du_dv, dv_du, dv_dv;
};

NERF_HD inline DistortedPoint DistortWithJacobian(const LensDistortion& lens, double u, double v) {
  const double k1 = lens.k1, k2 = lens.k2, k3 = lens.k3, p1 = lens.p1, p2 = lens.p2;
  const double r2 = u * u + v * v;
  const double radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3));
  const double radial_slope = k1 + r2 * (2 * k2 + r2 * 3 * k3);  // d radial / d r2
  DistortedPoint result;
  result.u = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u);
  result.v = v * radial + p1 * (r2 + 2 * v * v) + 2 * p2 * u * v;
  result.du_du = radial + 2 * u * u * radial_slope + 2 * p1 * v + 6 * p2 * u;
  result.du_dv = 2 * u * v * radial_slope + 2 * p1 * u + 2 * p2 * v;
  result.dv_du = result.du_dv;
  result.dv_dv = radial + 2 * v * v * radial_slope + 6 * p1 * v + 2 * p2 * u;
  return result;
}

// The point that the lens sends to (*u, *v), in its place: at most 10 Newton steps from the
// distorted point, which is kept where they do not converge.
NERF_HD inline void UndistortPoint(const LensDistortion& lens, float* u, float* v) {
  constexpr int kMaxNewtonSteps = 10;
  // Of the squared residual, in normalized coordinates: far below a thousandth of a pixel at any
  // focal length we accept.
  constexpr double kConverged = 1e-18;
  constexpr double kAcceptable = 1e-10;
  double guess_u = *u, guess_v = *v;
  for (int step = 0; step <= kMaxNewtonSteps; ++step) {
    const DistortedPoint at = DistortWithJacobian(lens, guess_u, guess_v);
    const double error_u = at.u - *u, error_v = at.v - *v;
    const double error = error_u * error_u + error_v * error_v;
    if (error < kConverged || (step == kMaxNewtonSteps && error < kAcceptable)) {
      *u = static_cast<float>(guess_u);
      *v = static_cast<float>(guess_v);
      return;
    }
    const double determinant = at.du_du * at.dv_dv - at.du_dv * at.dv_du;
    // Past the fold of the polynomial the picture turns inside out: no preimage on our side of it.
    if (!(determinant > 1e-9) || !std::isfinite(error)) return;
    guess_u -= (at.dv_dv * error_u - at.du_dv * error_v) / determinant;
    guess_v -= (at.du_du * error_v - at.dv_du * error_u) / determinant;
  }
}

// What a ray through a pixel depends on. Lengths in pixels; camera axes as scene/camera.h has them.
struct LensCamera {
  float fl_x = 0, fl_y = 0;  // focal lengths
  float cx = 0, cy = 0;      // principal point
  bool is_distorted = false;
  LensDistortion distortion;
  Mat34 camera_to_world;
};

// The ray through image position (x, y), y downwards. t_near and t_far are left at their defaults.
NERF_HD inline Ray LensRay(const LensCamera& camera, float x, float y) {
  float u = (x - camera.cx) / camera.fl_x;
  float v = (y - camera.cy) / camera.fl_y;
  if (camera.is_distorted) UndistortPoint(camera.distortion, &u, &v);
  Ray ray;
  ray.origin = camera.camera_to_world.Column(3);
  ray.direction = Normalized(camera.camera_to_world.ApplyToDirection({u, -v, -1.0f}));
  return ray;
}

}  // namespace nerf
