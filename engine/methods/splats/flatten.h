#pragma once

#include "engine/field/kernels/splat_tiles.h"
#include "engine/methods/splats/splat_cloud.h"
#include "engine/scene/camera.h"

namespace nerf {

// Added to the variance of a splat in each picture, pixels^2, as programs that show files of splats
// do.
inline constexpr float kPixelVariance = 0.3f;

// A pinhole camera, as splats are flattened by it.
struct SplatCamera {
  explicit SplatCamera(const Camera& camera);

  Vec3 center;
  Vec3 right, down, forward;  // unit length, training frame
  int width, height;
  float fl_x, fl_y, cx, cy;
  // Bounds of x / z and y / z in the derivative of the projection: the picture and its
  // surroundings. Farther out the linear map of a splat's shape grows without bound.
  float max_u, min_u, max_v, min_v;
};

// How the camera's picture shows a splat, and its distance along the view. False where it shows
// none.
bool FlattenSplat(const float* row, int degree, float width, const SplatCamera& camera,
                  kernels::FlatSplat* flat, float* depth);

// The derivatives of the loss by the numbers of a splat that FlattenSplat showed. Shape:
// row_gradient [row size], set.
void BackwardFlatten(const float* row, int degree, float width, const SplatCamera& camera,
                     const kernels::FlatSplatGradient& gradient, float* row_gradient);

}  // namespace nerf
