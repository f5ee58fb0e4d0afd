#include "engine/scene/camera.h"

#include <cmath>

namespace nerf {
namespace {

constexpr int kMaxNewtonSteps = 10;
// Of the squared residual, in normalised coordinates: far below a thousandth of a pixel at any
// focal length we accept.
constexpr double kConverged = 1e-18;
constexpr double kAcceptable = 1e-10;

// The OpenCV model and its Jacobian (row-major 2x2) at (u, v), in double because Newton squares
// what is lost.
struct Distorted {
  double u, v;
  double du_du, du_dv, dv_du, dv_dv;
};

Distorted DistortWithJacobian(const Camera& camera, double u, double v) {
  const double k1 = camera.k1, k2 = camera.k2, k3 = camera.k3, p1 = camera.p1, p2 = camera.p2;
  const double r2 = u * u + v * v;
  const double radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3));
  const double radial_slope = k1 + r2 * (2 * k2 + r2 * 3 * k3);  // d radial / d r2
  Distorted result;
  result.u = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u);
  result.v = v * radial + p1 * (r2 + 2 * v * v) + 2 * p2 * u * v;
  result.du_du = radial + 2 * u * u * radial_slope + 2 * p1 * v + 6 * p2 * u;
  result.du_dv = 2 * u * v * radial_slope + 2 * p1 * u + 2 * p2 * v;
  result.dv_du = result.du_dv;
  result.dv_dv = radial + 2 * v * v * radial_slope + 6 * p1 * v + 2 * p2 * u;
  return result;
}

}  // namespace

void Distort(const Camera& camera, float u, float v, float* distorted_u, float* distorted_v) {
  const Distorted distorted = DistortWithJacobian(camera, u, v);
  *distorted_u = static_cast<float>(distorted.u);
  *distorted_v = static_cast<float>(distorted.v);
}

void Undistort(const Camera& camera, float distorted_u, float distorted_v, float* u, float* v) {
  double guess_u = distorted_u, guess_v = distorted_v;
  for (int step = 0; step <= kMaxNewtonSteps; ++step) {
    const Distorted at = DistortWithJacobian(camera, guess_u, guess_v);
    const double error_u = at.u - distorted_u, error_v = at.v - distorted_v;
    const double error = error_u * error_u + error_v * error_v;
    if (error < kConverged || (step == kMaxNewtonSteps && error < kAcceptable)) {
      *u = static_cast<float>(guess_u);
      *v = static_cast<float>(guess_v);
      return;
    }
    const double determinant = at.du_du * at.dv_dv - at.du_dv * at.dv_du;
    // Past the fold of the polynomial the picture turns inside out: no preimage on our side of it.
    if (!(determinant > 1e-9) || !std::isfinite(error)) break;
    guess_u -= (at.dv_dv * error_u - at.du_dv * error_v) / determinant;
    guess_v -= (at.du_du * error_v - at.dv_du * error_u) / determinant;
  }
  *u = distorted_u;
  *v = distorted_v;
}

Ray CameraRay(const Camera& camera, float x, float y) {
  float u = (x - camera.cx) / camera.fl_x;
  float v = (y - camera.cy) / camera.fl_y;
  if (camera.lens == LensModel::kOpenCv) Undistort(camera, u, v, &u, &v);
  Ray ray;
  ray.origin = camera.camera_to_world.Column(3);
  ray.direction = Normalized(camera.camera_to_world.ApplyToDirection({u, -v, -1.0f}));
  return ray;
}

Camera Resized(const Camera& camera, int width, int height) {
  Camera resized = camera;
  const float scale_x = static_cast<float>(width) / static_cast<float>(camera.width);
  const float scale_y = static_cast<float>(height) / static_cast<float>(camera.height);
  resized.width = width;
  resized.height = height;
  resized.fl_x *= scale_x;
  resized.cx *= scale_x;
  resized.fl_y *= scale_y;
  resized.cy *= scale_y;
  return resized;
}

}  // namespace nerf
