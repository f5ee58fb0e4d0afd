#pragma once

#include "engine/base/buffer.h"
#include "engine/methods/dynamic/warp.h"
#include "engine/methods/ngp/row_evaluator.h"

namespace nerf {

// A view of the dynamic field's parameters: those of ngp, and the warp's. Borrows them.
struct DynamicNetwork {
  NgpTrainedNetwork ngp;
  WarpNetwork warp;
};

// One thread's evaluation of the field, forward and backward, of samples by row.
class DynamicEvaluator {
 public:
  void Reserve(int n_rows, int n_kept);
  // Densities of rows [begin, begin + n) at points of the unit cube. features: of the times of the
  // rows' rays [n_rays][kTimeWidth]; ray_of [n].
  void Density(const DynamicNetwork& network, int begin, int n, const Vec3* unit, const int* ray_of,
               const float* features, float* sigmas);
  void MoveRow(int from, int to);
  // Colors of n rows: rows[i], or row i if rows is null. harmonics [n_rays][kDirectionWidth].
  void Color(const DynamicNetwork& network, int n, const int* rows, const int* ray_of, int n_rays,
             const float* harmonics, Vec3* colors);
  // The backward pass of rows [0, n), whose colors were evaluated in order. Adds the gradients of
  // the MLPs and of the encodings to `output`, those of the warp's weights to warp_gradients.
  void Backward(const DynamicNetwork& network, int n, const int* ray_of, const float* features,
                const float* harmonics, const float* grad_sigmas, const Vec3* grad_colors,
                LaneOutput* output, float* warp_gradients);

 private:
  int capacity_ = 0;
  WarpEvaluator warp_;
  NgpRowEvaluator rows_;
  Buffer<Vec3> warped_, grad_warped_;  // where rows are encoded, in the unit cube
};

}  // namespace nerf
