#pragma once

#include "engine/base/buffer.h"
#include "engine/base/layouts/warp_layers.h"
#include "engine/base/vec3.h"

namespace nerf {

// The features of a time [kTimeWidth].
void TimeFeatures(float time, float* features);

// A view of the warp's weights, in the layout of kWarpLayers. Borrows them.
struct WarpNetwork {
  const float* weights = nullptr;     // [kWarpWeights]
  const float* transposed = nullptr;  // each layer as [n_out][n_in], for the backward pass
};
void TransposeWarp(const float* weights, float* transposed);

// One thread's evaluation of the warp, forward and backward, of samples by row. The deformation is
// that of Pumarola et al. 2021, "D-NeRF", with no time at which it is zero.
class WarpEvaluator {
 public:
  // Room for n_rows rows; the first n_kept stay.
  void Reserve(int n_rows, int n_kept);
  // warped[i] = where point i of the unit cube is encoded, in the unit cube, for rows [begin,
  // begin + n) on rays ray_of [n]. features: of the rays' times [n_rays][kTimeWidth].
  void Forward(const WarpNetwork& network, int begin, int n, const Vec3* unit, const int* ray_of,
               const float* features, Vec3* warped);
  void MoveRow(int from, int to);
  // Adds the gradients of rows [0, n) to those of the weights [kWarpWeights], given the gradients
  // by their warped points. Overwrites the rows.
  void Backward(const WarpNetwork& network, int n, const int* ray_of, const float* features,
                const Vec3* grad_warped, float* gradients);

 private:
  Buffer<float> inputs_, hidden0_, hidden1_, outputs_;
  Buffer<Vec3> inside_;  // of each axis 1, or 0 where a point was held at the cube's side
};

}  // namespace nerf
