#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/config/train_config.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/stream.h"
#include "engine/train/cuda_field_arrays.h"
#include "engine/train/occupancy_updater.h"

namespace nerf {

// The occupancy grid of a training step on a CUDA device, which is updated there as
// OccupancyUpdater does it on the CPU. Uses the current device.
class CudaOccupancy {
 public:
  // host: the same grid, for files; outlives this. values, blocks: the device's copies of its
  // values and bits, which belong to the step.
  CudaOccupancy(const TrainConfig& config, const OccupancyUpdater* host, float* values,
                uint64_t* blocks);

  // After values and bits were uploaded.
  void FollowUpload(kernels::Stream stream);
  // The update before step `step`, in as many parts as `scratch` needs to hold the probed points.
  // density raises the values of cells to the densities at points, which are scratch->positions and
  // scratch->cells: those of the scene minus box_min, over box_size.
  using Density = std::function<void(const kernels::DeviceRange& points)>;
  void Update(uint32_t step, Vec3 box_min, Vec3 box_size, CudaFieldSamples* scratch,
              const Density& density, kernels::Stream stream);

  double occupied_fraction() const { return occupied_fraction_; }
  // Of the host's grid, with the device's arrays.
  kernels::MarchGrid MarchGrid() const;

 private:
  void ProbeCells(uint32_t step, Vec3 box_min, Vec3 box_size, CudaFieldSamples* scratch,
                  const Density& density, kernels::Stream stream);
  void FindEmptyDistances(kernels::Stream stream);

  const TrainConfig config_;
  const OccupancyUpdater* const host_;
  float* const values_;
  uint64_t* const blocks_;
  const uint32_t n_blocks_;
  CudaGridWork work_;
  double occupied_fraction_ = 1;
};

}  // namespace nerf
