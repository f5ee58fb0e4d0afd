#pragma once

#include <cmath>

#include "engine/base/check.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"

namespace nerf {

// How a camera maps directions to its picture.
//   kPinhole: u = x / z.  kOpenCv: the same, then radial (rational where k4 to k6 are not 0) and
//   tangential distortion.
//   kFisheye: the distance from the center is theta (1 + k1 theta^2 + ... + k4 theta^8), where
//   theta is the angle from the axis; OpenCV's fisheye model (Kannala and Brandt 2006).
//   kEquirectangular: u is the longitude and v the latitude, in radians; v grows downwards.
//   kThinPrismFisheye: the point at the distance theta from the center is distorted radially by k1
//   to k4 and tangentially by p1, p2, and shifted by the prism's k5 and k6 (sx1, sy1) times its
//   squared distance; COLMAP's THIN_PRISM_FISHEYE (Weng et al. 1992).
//   kFieldOfView: the distance from the center is atan(2 r tan(k1 / 2)) / k1, where r is that of a
//   pinhole and k1 the field of view; COLMAP's FOV (Devernay and Faugeras 2001).
enum class LensModel {
  kPinhole,
  kOpenCv,
  kFisheye,
  kEquirectangular,
  kThinPrismFisheye,
  kFieldOfView
};
inline constexpr LensModel kLastLensModel = LensModel::kFieldOfView;

// Whether the picture lies on a plane before the lens, as a pinhole's does; else depths are
// measured along rays.
inline bool IsOnPlane(LensModel lens) {
  return lens == LensModel::kPinhole || lens == LensModel::kOpenCv ||
         lens == LensModel::kFieldOfView;
}

// Distortion of a lens, as OpenCV models it.
struct LensDistortion {
  float k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0;
  // Denominator of the radial part. Of a fisheye k4 is radial, of a thin prism k5, k6 are its own.
  float k4 = 0, k5 = 0, k6 = 0;
};

// Normalized image coordinates after distortion, with the Jacobian of the distortion (row-major
// 2x2). In double: Newton's method below needs residuals smaller than a float resolves.
struct DistortedPoint {
  double u, v;
  double du_du, du_dv, dv_du, dv_dv;
};

NERF_HD inline DistortedPoint DistortWithJacobian(const LensDistortion& lens, double u, double v) {
  const double k1 = lens.k1, k2 = lens.k2, k3 = lens.k3, p1 = lens.p1, p2 = lens.p2;
  const double r2 = u * u + v * v;
  const double k4 = lens.k4, k5 = lens.k5, k6 = lens.k6;
  const double above = 1 + r2 * (k1 + r2 * (k2 + r2 * k3));
  const double below = 1 + r2 * (k4 + r2 * (k5 + r2 * k6));
  const double above_slope = k1 + r2 * (2 * k2 + r2 * 3 * k3);  // by r2
  const double below_slope = k4 + r2 * (2 * k5 + r2 * 3 * k6);
  const double radial = above / below;
  const double radial_slope = (above_slope - radial * below_slope) / below;
  DistortedPoint result;
  result.u = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u);
  result.v = v * radial + p1 * (r2 + 2 * v * v) + 2 * p2 * u * v;
  result.du_du = radial + 2 * u * u * radial_slope + 2 * p1 * v + 6 * p2 * u;
  result.du_dv = 2 * u * v * radial_slope + 2 * p1 * u + 2 * p2 * v;
  result.dv_du = result.du_dv;
  result.dv_dv = radial + 2 * v * v * radial_slope + 6 * p1 * v + 2 * p2 * u;
  return result;
}

// The same of a thin prism fisheye, from and to coordinates whose distance from the center is the
// angle from the axis.
NERF_HD inline DistortedPoint ThinPrismWithJacobian(const LensDistortion& lens, double u,
                                                    double v) {
  const double k1 = lens.k1, k2 = lens.k2, k3 = lens.k3, k4 = lens.k4;
  const double p1 = lens.p1, p2 = lens.p2, sx = lens.k5, sy = lens.k6;
  const double r2 = u * u + v * v;
  const double radial = 1 + r2 * (k1 + r2 * (k2 + r2 * (k3 + r2 * k4)));
  const double slope = k1 + r2 * (2 * k2 + r2 * (3 * k3 + r2 * 4 * k4));  // by r2
  DistortedPoint result;
  result.u = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u) + sx * r2;
  result.v = v * radial + 2 * p2 * u * v + p1 * (r2 + 2 * v * v) + sy * r2;
  result.du_du = radial + 2 * u * u * slope + 2 * p1 * v + 6 * p2 * u + 2 * sx * u;
  result.du_dv = 2 * u * v * slope + 2 * p1 * u + 2 * p2 * v + 2 * sx * v;
  result.dv_du = 2 * u * v * slope + 2 * p2 * v + 2 * p1 * u + 2 * sy * u;
  result.dv_dv = radial + 2 * v * v * slope + 2 * p2 * u + 6 * p1 * v + 2 * sy * v;
  return result;
}

// Replaces the distorted point (*u, *v) by the undistorted one, by at most 10 Newton steps. Where
// they do not converge the point is left as it is. thin_prism: of that lens.
NERF_HD inline void UndistortPoint(const LensDistortion& lens, float* u, float* v,
                                   bool thin_prism = false) {
  constexpr int kMaxNewtonSteps = 10;
  // Bounds on the squared residual in normalized coordinates: far below a thousandth of a pixel at
  // any accepted focal length.
  constexpr double kConverged = 1e-18;
  constexpr double kAcceptable = 1e-10;
  double guess_u = *u, guess_v = *v;
  for (int step = 0; step <= kMaxNewtonSteps; ++step) {
    const DistortedPoint at = thin_prism ? ThinPrismWithJacobian(lens, guess_u, guess_v)
                                         : DistortWithJacobian(lens, guess_u, guess_v);
    const double error_u = at.u - *u, error_v = at.v - *v;
    const double error = error_u * error_u + error_v * error_v;
    if (error < kConverged || (step == kMaxNewtonSteps && error < kAcceptable)) {
      *u = static_cast<float>(guess_u);
      *v = static_cast<float>(guess_v);
      return;
    }
    const double determinant = at.du_du * at.dv_dv - at.du_dv * at.dv_du;
    // Beyond the radius where the polynomial stops growing there is no valid preimage.
    if (!(determinant > 1e-9) || !std::isfinite(error)) return;
    guess_u -= (at.dv_dv * error_u - at.du_dv * error_v) / determinant;
    guess_v -= (at.du_du * error_v - at.dv_du * error_u) / determinant;
  }
}

// A fisheye's distance from the center at an angle from the axis, and its slope.
struct FisheyeRadius {
  double radius, slope;
};
NERF_HD inline FisheyeRadius FisheyeRadiusAt(const LensDistortion& lens, double theta) {
  const double k1 = lens.k1, k2 = lens.k2, k3 = lens.k3, k4 = lens.k4, t2 = theta * theta;
  return {theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))),
          1 + t2 * (3 * k1 + t2 * (5 * k2 + t2 * (7 * k3 + t2 * 9 * k4)))};
}

// The angle from the axis of what a fisheye shows at a distance from its center, by at most 20
// Newton steps. False where there is none up to half a turn; *theta is then the distance.
NERF_HD inline bool FisheyeAngle(const LensDistortion& lens, double radius, double* theta) {
  constexpr int kMaxNewtonSteps = 20;
  constexpr double kAcceptable = 1e-7, kHalfTurn = 3.14159265358979;
  double guess = radius;
  for (int step = 0; step < kMaxNewtonSteps; ++step) {
    const FisheyeRadius at = FisheyeRadiusAt(lens, guess);
    if (!(at.slope > 1e-6)) break;
    guess -= (at.radius - radius) / at.slope;
  }
  *theta = radius;
  const FisheyeRadius at = FisheyeRadiusAt(lens, guess);
  if (!(std::abs(at.radius - radius) < kAcceptable) || guess < 0 || guess > kHalfTurn) return false;
  *theta = guess;
  return true;
}

// The camera parameters that a pixel's ray depends on. Lengths in pixels; camera axes as in
// scene/camera.h.
struct LensCamera {
  float fl_x = 0, fl_y = 0;  // focal lengths
  float cx = 0, cy = 0;      // principal point
  LensModel lens = LensModel::kPinhole;
  LensDistortion distortion;
  Mat34 camera_to_world;
  // Of kEquirectangular: above 0, the left eye's picture is followed, below it or to its right, by
  // the right eye's. World units.
  float eye_distance = 0;
};

// Where a panorama's ray begins, to the right of the camera: half of the distance of its eyes.
// Turns the place (u, v) of the second picture into that of the first.
NERF_HD inline float EyeAt(float eye_distance, float* u, float* v) {
  constexpr float kPi = 3.14159265f;
  if (!(eye_distance > 0)) return 0;
  if (*v > kPi / 2) {
    *v -= kPi;
  } else if (*u > kPi) {
    *u -= 2 * kPi;
  } else {
    return -0.5f * eye_distance;
  }
  return 0.5f * eye_distance;
}

// The direction, in camera axes, of what a fisheye shows at (u, v).
NERF_HD inline Vec3 FisheyeDirection(const LensDistortion& lens, float u, float v) {
  const double radius = std::sqrt(double{u} * u + double{v} * v);
  if (radius < 1e-9) return {u, -v, -1};
  double theta = 0;
  FisheyeAngle(lens, radius, &theta);
  const auto across = static_cast<float>(std::sin(theta) / radius);
  return {u * across, -v * across, -static_cast<float>(std::cos(theta))};
}

// The direction, in camera axes, of what lies at (u, v) where the distance from the center is the
// angle from the axis.
NERF_HD inline Vec3 DirectionAtAngle(float u, float v) {
  const double theta = std::sqrt(double{u} * u + double{v} * v);
  if (theta < 1e-9) return {u, -v, -1};
  const auto across = static_cast<float>(std::sin(theta) / theta);
  return {u * across, -v * across, -static_cast<float>(std::cos(theta))};
}

// The direction of what a lens of COLMAP's FOV shows at (u, v).
NERF_HD inline Vec3 FieldOfViewDirection(float field_of_view, float u, float v) {
  const double omega = field_of_view, radius = std::sqrt(double{u} * u + double{v} * v);
  if (radius < 1e-9 || std::abs(omega) < 1e-6) return {u, -v, -1};
  const auto across = static_cast<float>(std::sin(radius * omega) / radius);
  const auto along = static_cast<float>(2 * std::tan(omega / 2) * std::cos(radius * omega));
  return {u * across, -v * across, -along};
}

// The ray through image position (x, y), y pointing down. t_near and t_far keep their defaults.
NERF_HD inline Ray LensRay(const LensCamera& camera, float x, float y) {
  float u = (x - camera.cx) / camera.fl_x;
  float v = (y - camera.cy) / camera.fl_y;
  if (camera.lens == LensModel::kOpenCv) UndistortPoint(camera.distortion, &u, &v);
  Vec3 direction{u, -v, -1.0f}, eye;
  if (camera.lens == LensModel::kFisheye) direction = FisheyeDirection(camera.distortion, u, v);
  if (camera.lens == LensModel::kThinPrismFisheye) {
    UndistortPoint(camera.distortion, &u, &v, /*thin_prism=*/true);
    direction = DirectionAtAngle(u, v);
  }
  if (camera.lens == LensModel::kFieldOfView)
    direction = FieldOfViewDirection(camera.distortion.k1, u, v);
  if (camera.lens == LensModel::kEquirectangular) {
    const float right = EyeAt(camera.eye_distance, &u, &v);
    direction = {std::sin(u) * std::cos(v), -std::sin(v), -std::cos(u) * std::cos(v)};
    eye = {right * std::cos(u), 0, right * std::sin(u)};
  }
  Ray ray;
  ray.origin = camera.camera_to_world.ApplyToPoint(eye);
  ray.direction = Normalized(camera.camera_to_world.ApplyToDirection(direction));
  return ray;
}

}  // namespace nerf
