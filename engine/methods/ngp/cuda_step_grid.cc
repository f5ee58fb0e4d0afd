#include "engine/methods/ngp/cuda_ngp_step.h"

#include <algorithm>

#include "engine/kernels/occupancy_update.h"

// The occupancy grid of a step on a CUDA device.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

template <typename T>
void NgpCudaStep<T>::UpdateGrid(uint32_t step) {
  // All ranks probe all cells: they have the same field, and then the same grid.
  if (!ranks_.alone()) ranks_.ShareGrid(&arrays_, stream_);
  ProbeCells(step);
  if (state_->occupancy.Spreads(step)) {
    cuda::SpreadBlockMaximum({.n_blocks = static_cast<uint32_t>(arrays_.grid_blocks.size()),
                              .values = arrays_.grid_values.data()},
                             stream_);
  }
  cuda::Fill(training_.n_occupied.data(), 0, sizeof(uint32_t), stream_);
  cuda::SetOccupiedBits({.n_blocks = static_cast<uint32_t>(arrays_.grid_blocks.size()),
                         .values = arrays_.grid_values.data(),
                         .threshold = config_.grid_threshold,
                         .sums = training_.grid_sums.data(),
                         .blocks = arrays_.grid_blocks.data(),
                         .n_occupied = training_.n_occupied.data()},
                        stream_);
  UpdateEmptyDistances();
  uint32_t n_occupied = 0;
  cuda::CopyToHost(&n_occupied, training_.n_occupied.data(), sizeof(n_occupied), stream_);
  cuda::Synchronize(stream_);
  occupied_fraction_ = n_occupied / (64.0 * arrays_.grid_blocks.size());
}

template <typename T>
void NgpCudaStep<T>::UpdateEmptyDistances() {
  const OccupancyGrid& grid = state_->occupancy.grid();
  cuda::EmptyDistances({.n_levels = grid.n_levels,
                        .side = static_cast<uint32_t>(grid.resolution / 4),
                        .blocks = arrays_.grid_blocks.data(),
                        .distances = training_.empty_distances.data(),
                        .along_axis = training_.distances_along_axis.data()},
                       stream_);
}

// As many blocks at a time as the samples' arrays hold points of.
template <typename T>
void NgpCudaStep<T>::ProbeCells(uint32_t step) {
  const OccupancyUpdater& occupancy = state_->occupancy;
  const OccupancyGrid& host_grid = occupancy.grid();
  const Aabb outer = state_->OuterBox();
  const kernels::ProbePeriods periods = occupancy.Periods(step);
  const auto n_blocks = static_cast<uint32_t>(arrays_.grid_blocks.size());
  const int shortest = std::min(periods.occupied, periods.empty);
  const uint32_t at_once = std::max(1u, shape_.sample_capacity / (64 / shortest));
  for (uint32_t first = 0; first < n_blocks; first += at_once) {
    cuda::Fill(training_.n_points.data(), 0, sizeof(uint32_t), stream_);
    cuda::ProbeCells({.first_block = first,
                      .end_block = std::min(first + at_once, n_blocks),
                      .resolution = host_grid.resolution,
                      .center = host_grid.box.Center(),
                      .half_size = host_grid.box.Size() * 0.5f,
                      .box_min = outer.min,
                      .box_size = outer.Size(),
                      .seed = config_.seed,
                      .step = step,
                      .update = occupancy.UpdateNumber(step),
                      .periods = periods,
                      .blocks = arrays_.grid_blocks.data(),
                      .decay = config_.grid_decay,
                      .values = arrays_.grid_values.data(),
                      .capacity = shape_.sample_capacity,
                      .count = training_.n_points.data(),
                      .positions = samples_.positions.data(),
                      .cells = samples_.cells.data()},
                     stream_);
    const kernels::DeviceRange points{shape_.sample_capacity, training_.n_points.data()};
    if (IsContracted()) Contract(points, outer);
    if (warp_ != nullptr) warp_->MoveProbes(points, samples_.positions.data(), stream_);
    Encode(points);
    cuda::NgpDensityParams<T> density = Density(points);
    density.cells = samples_.cells.data();
    density.step_length = occupancy.step_length();
    density.values = arrays_.grid_values.data();
    cuda::NgpDensity(density, stream_);
  }
}

template void NgpCudaStep<float>::UpdateGrid(uint32_t);
template void NgpCudaStep<Half>::UpdateGrid(uint32_t);
template void NgpCudaStep<float>::UpdateEmptyDistances();
template void NgpCudaStep<Half>::UpdateEmptyDistances();

}  // namespace nerf
