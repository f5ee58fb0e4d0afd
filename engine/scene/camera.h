#pragma once

#include "engine/base/lens.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"

namespace nerf {

// A posed camera. Pixel (x, y) covers [x, x+1) x [y, y+1), its center is at +0.5; y grows
// downwards. Lengths in pixels.
struct Camera {
  int width = 0;
  int height = 0;
  float fl_x = 0, fl_y = 0;  // focal lengths
  float cx = 0, cy = 0;      // principal point
  LensModel lens = LensModel::kPinhole;
  // Distortion (base/lens.h): of kOpenCv and kThinPrismFisheye all, of kFisheye k1 to k4, of
  // kFieldOfView k1.
  float k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0, k4 = 0, k5 = 0, k6 = 0;
  Mat34 camera_to_world;  // OpenGL axes: +X right, +Y up, looks along -Z
  float time = 0;         // of the picture, 0 to 1 over the capture
  // Of kEquirectangular: as LensCamera has it. The picture then holds those of both eyes.
  float eye_distance = 0;

  bool operator==(const Camera&) const = default;
};

// The ray through image position (x, y), in pixels (a pixel's center is its index + 0.5), in the
// camera's world frame, lens distortion removed. direction has unit length; t_near and t_far keep
// their defaults.
Ray CameraRay(const Camera& camera, float x, float y);

// The parameters that those rays depend on, without the picture's size.
LensCamera LensOf(const Camera& camera);

// Whether every corner of the picture has a direction that the lens maps back to that corner.
bool CanUndistort(const Camera& camera);

// Distorts normalized image coordinates (u, v) (y downwards, unit focal length) with the OpenCV
// model.
void Distort(const Camera& camera, float u, float v, float* distorted_u, float* distorted_v);

// Inverse of Distort, by at most 10 Newton steps. Returns its input if they do not converge.
void Undistort(const Camera& camera, float distorted_u, float distorted_v, float* u, float* v);

// The same view at another size: intrinsics scale with the picture.
Camera Resized(const Camera& camera, int width, int height);

}  // namespace nerf
