#pragma once

#include <vector>

#include "engine/base/buffer.h"
#include "engine/methods/dynamic/describe/dynamic_layers.h"
#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/network.h"

namespace nerf {

// The features of a time [kTimeWidth].
void TimeFeatures(float time, float* features);

// A view of the dynamic field's parameters: those of ngp, and the time's weights in the first
// density layer. Borrows them.
struct DynamicNetwork {
  NgpNetwork ngp;
  const float* time_weights = nullptr;        // [kTimeWidth][kHiddenWidth]
  const float* transposed_weights = nullptr;  // of ngp's layers, for the backward pass
  const uint32_t* transposed_pairs = nullptr;
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
  // the MLPs and of the encodings to `output`, those of the time's weights to time_gradients.
  void Backward(const DynamicNetwork& network, int n, const int* ray_of, const float* features,
                const float* harmonics, const float* grad_sigmas, const Vec3* grad_colors,
                LaneOutput* output, float* time_gradients);

 private:
  void BackwardLayer(const DynamicNetwork& network, NgpLayerIndex index, int n,
                     const float* grad_outputs, bool inputs_are_relu, float* inputs,
                     float* gradients);
  void BackwardColorInput(const DynamicNetwork& network, int n, const int* ray_of,
                          const float* harmonics, float* gradients);

  int capacity_ = 0;
  Buffer<Vec3> unit_;
  Buffer<float> sigmas_;
  Buffer<float> encodings_, hidden_, geometry_;           // density
  Buffer<float> color_hidden0_, color_hidden1_, colors_;  // color
  Buffer<float> grad_geometry_, inputs_;
  std::vector<float> terms_;  // of rays: what the time, or the direction, adds to a layer
};

}  // namespace nerf
