#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/ray_wave.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/chunk_field.h"
#include "engine/train/chunk_sums.h"
#include "engine/train/composited_ray.h"

namespace nerf {

// What a chunk reads; the same for all chunks of a step.
struct FieldChunkInput {
  const TrainConfig* config = nullptr;
  kernels::MarchGrid grid;
  kernels::MarchSteps steps;        // of this step's samples
  kernels::MarchSteps scene_steps;  // of the scene
  int round_samples = 4;            // of a ray between two looks at its transmittance
  const RayBatch* batch = nullptr;
};

// Forward and backward pass of a few rays through a field on an occupancy grid: march a few samples
// of each ray, take their densities, drop what lies behind the transmittance limit, repeat until
// all rays are through; then colors, composite, loss and the gradients. One for each thread.
// Sources: Max 1995 (compositing), Mueller et al. 2022, appendix E (marching).
class FieldChunk {
 public:
  // Rays [begin, end) of the batch; gradients go to `lane` of the field.
  void Run(const FieldChunkInput& input, int begin, int end, int lane, ChunkField* field,
           ChunkSums* sums);

 private:
  void Reserve(int n_rows, ChunkField* field);
  bool CollectActiveRays();
  void MarchRound(const FieldChunkInput& input, ChunkField* field, ChunkSums* sums);
  int DropHidden(const TrainConfig& config, int begin, int end, ChunkField* field);
  void CompositeAndLoss(const FieldChunkInput& input, int begin, ChunkSums* sums);
  void CompositeBackward(const FieldChunkInput& input);

  std::vector<CompositedRay> rays_;
  std::vector<kernels::MarchRay> marches_;  // of the same rays
  RayWave wave_;
  int n_rows_ = 0;    // samples kept so far
  int capacity_ = 0;  // rows that the buffers hold
  std::vector<Vec3> positions_, colors_, grad_colors_;
  std::vector<int> ray_of_;
  std::vector<float> deltas_, sigmas_, alphas_, weights_, normalized_t_, grad_sigmas_;
};

}  // namespace nerf
