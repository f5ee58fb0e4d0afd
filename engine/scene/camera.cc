#include "engine/scene/camera.h"

#include <cmath>
#include <initializer_list>
#include <numbers>

namespace nerf {

void Distort(const Camera& camera, float u, float v, float* distorted_u, float* distorted_v) {
  const DistortedPoint distorted = DistortWithJacobian(LensOf(camera).distortion, u, v);
  *distorted_u = static_cast<float>(distorted.u);
  *distorted_v = static_cast<float>(distorted.v);
}

void Undistort(const Camera& camera, float distorted_u, float distorted_v, float* u, float* v) {
  *u = distorted_u;
  *v = distorted_v;
  UndistortPoint(LensOf(camera).distortion, u, v);
}

LensCamera LensOf(const Camera& camera) {
  return {.fl_x = camera.fl_x,
          .fl_y = camera.fl_y,
          .cx = camera.cx,
          .cy = camera.cy,
          .lens = camera.lens,
          .distortion = {camera.k1, camera.k2, camera.k3, camera.p1, camera.p2, camera.k4,
                         camera.k5, camera.k6},
          .camera_to_world = camera.camera_to_world,
          .eye_distance = camera.eye_distance};
}

bool CanUndistort(const Camera& camera) {
  if (camera.lens == LensModel::kPinhole || camera.lens == LensModel::kEquirectangular) return true;
  // Largest error at a picture's corner, in pixels, after undistorting and distorting it again.
  constexpr float kMaxCornerError = 0.5f;
  for (const float x : {0.0f, static_cast<float>(camera.width)}) {
    for (const float y : {0.0f, static_cast<float>(camera.height)}) {
      const float distorted_u = (x - camera.cx) / camera.fl_x;
      const float distorted_v = (y - camera.cy) / camera.fl_y;
      if (camera.lens == LensModel::kFisheye) {
        double theta = 0;
        if (!FisheyeAngle(LensOf(camera).distortion, std::hypot(distorted_u, distorted_v), &theta))
          return false;
        continue;
      }
      if (camera.lens == LensModel::kFieldOfView) {
        constexpr float kRightAngle = std::numbers::pi_v<float> / 2;
        if (!(std::hypot(distorted_u, distorted_v) * std::abs(camera.k1) < kRightAngle))
          return false;
        continue;
      }
      const bool thin_prism = camera.lens == LensModel::kThinPrismFisheye;
      float u = distorted_u, v = distorted_v;
      UndistortPoint(LensOf(camera).distortion, &u, &v, thin_prism);
      const DistortedPoint again = thin_prism
                                       ? ThinPrismWithJacobian(LensOf(camera).distortion, u, v)
                                       : DistortWithJacobian(LensOf(camera).distortion, u, v);
      const auto again_u = static_cast<float>(again.u), again_v = static_cast<float>(again.v);
      const float error =
          std::hypot((again_u - distorted_u) * camera.fl_x, (again_v - distorted_v) * camera.fl_y);
      if (!(error <= kMaxCornerError)) return false;
    }
  }
  return true;
}

Ray CameraRay(const Camera& camera, float x, float y) { return LensRay(LensOf(camera), x, y); }

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
