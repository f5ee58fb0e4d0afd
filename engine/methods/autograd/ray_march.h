#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/occupancy_updater.h"

namespace nerf {

// The samples of a batch that are visible (kernels::IsVisible), sorted by ray. Positions and deltas
// are in scene units.
struct PackedSamples {
  std::vector<int64_t> ray_offsets;  // [n_rays + 1]
  std::vector<Vec3> positions, directions;
  std::vector<float> deltas;
  std::vector<float> times;          // of the samples' rays
  std::vector<float> normalized_ts;  // kernels::DistortionCoordinate
  // Of all samples looked at: their cells of the grid and densities. [n_marched]
  std::vector<uint32_t> cells;
  std::vector<float> sigmas;

  int64_t n_marched() const { return static_cast<int64_t>(cells.size()); }

  // [n_rays + 1], over the vector's memory.
  torch::Tensor RayOffsets() const;
};

// Densities [n] at points in scene units, at times [n].
using DensityAt = std::function<torch::Tensor(const std::vector<Vec3>& positions,
                                              const std::vector<float>& times)>;

// Marches the rays of a batch through the occupancy grid, a few samples of each at a time, until
// each has left the grid or let no more light through. The grid observes all densities.
PackedSamples MarchBatch(const RayBatch& batch, const TrainConfig& config,
                         const kernels::MarchSteps& steps, const DensityAt& density,
                         OccupancyUpdater* occupancy);

}  // namespace nerf
