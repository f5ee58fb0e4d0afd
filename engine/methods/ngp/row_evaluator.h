#pragma once

#include <vector>

#include "engine/base/buffer.h"
#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/network.h"

namespace nerf {

// A network with what its backward pass reads. Borrows it.
struct NgpTrainedNetwork {
  NgpNetwork network;
  const float* transposed_weights = nullptr;
  const uint32_t* transposed_pairs = nullptr;  // of these, or null (PackNgpWeightPairs)
};

// One thread's evaluation of the ngp field, forward and backward, of samples by row: for samplers
// other than the march of NgpChunk.
class NgpRowEvaluator {
 public:
  // Room for n_rows rows; the first n_kept stay.
  void Reserve(int n_rows, int n_kept);
  // Densities of rows [begin, begin + n) at points of the encoding's unit cube.
  void Density(const NgpNetwork& network, int begin, int n, const Vec3* unit, float* sigmas);
  void MoveRow(int from, int to);
  // Colors of n rows: rows[i], or row i if rows is null. harmonics [n_rays][kDirectionWidth];
  // ray_of [n].
  void Color(const NgpNetwork& network, int n, const int* rows, const int* ray_of, int n_rays,
             const float* harmonics, Vec3* colors);
  // The backward pass of rows [0, n), whose colors were evaluated in order. Adds the gradients of
  // the MLPs and of the encodings to `output`; grad_unit [n], if not null, becomes that by the
  // points. Overwrites the rows.
  void Backward(const NgpTrainedNetwork& trained, int n, const int* ray_of, const float* harmonics,
                const float* grad_sigmas, const Vec3* grad_colors, LaneOutput* output,
                Vec3* grad_unit);
  // The same where only densities were evaluated.
  void BackwardDensity(const NgpTrainedNetwork& trained, int n, const float* grad_sigmas,
                       LaneOutput* output);

 private:
  void BackwardLayer(const NgpTrainedNetwork& trained, NgpLayerIndex index, int n,
                     const float* grad_outputs, bool inputs_are_relu, float* inputs,
                     float* gradients);
  void BackwardColorInput(const NgpTrainedNetwork& trained, int n, const int* ray_of,
                          const float* harmonics, float* gradients);
  void BackwardGeometry(const NgpTrainedNetwork& trained, int n, const float* grad_sigmas,
                        LaneOutput* output);

  int capacity_ = 0;
  Buffer<Vec3> unit_;
  Buffer<float> sigmas_;
  Buffer<float> encodings_, hidden_, geometry_;           // density
  Buffer<float> color_hidden0_, color_hidden1_, colors_;  // color
  Buffer<float> grad_geometry_, inputs_;
  std::vector<float> terms_;  // of rays: what the direction adds to a layer
};

}  // namespace nerf
