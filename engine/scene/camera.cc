#include "engine/scene/camera.h"

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
          .is_distorted = camera.lens == LensModel::kOpenCv,
          .distortion = {camera.k1, camera.k2, camera.k3, camera.p1, camera.p2},
          .camera_to_world = camera.camera_to_world};
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
