#pragma once

#include <vector>

#include "engine/base/buffer.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/train/chunk_sums.h"

namespace nerf {

// What the chunks of one gradient lane leave behind: MLP gradients, and for the scatter into the
// hash table the position of each trained sample (unit cube) with the gradient of its encoding, in
// tiles [n / 16, rounded up][levels][16][F] (kernels/hash_encoding.h). Sums are in double, in chunk
// order.
struct LaneOutput : ChunkSums {
  float* weight_gradients = nullptr;  // [kNgpWeights], added to
  std::vector<Vec3> positions;
  // Behind the last sample lies what is left of earlier steps.
  Buffer<float> grad_encodings;

  // n samples more; gradients are [n][kEncodingWidth], of F = n_features a level.
  void Append(int n, const Vec3* unit, int n_features, const float* gradients);
  // Adds the samples' gradients of one level of the hash table.
  void Scatter(const kernels::HashGridShape& shape, int level, LevelGradients* gradients) const;
  void Clear();
};

}  // namespace nerf
