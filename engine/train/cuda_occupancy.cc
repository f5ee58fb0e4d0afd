#include "engine/train/cuda_occupancy.h"

#include <algorithm>

#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/occupancy_update.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

CudaOccupancy::CudaOccupancy(const TrainConfig& config, const OccupancyUpdater* host, float* values,
                             uint64_t* blocks)
    : config_(config),
      host_(host),
      values_(values),
      blocks_(blocks),
      n_blocks_(static_cast<uint32_t>(host->allowed().size())),
      work_(n_blocks_, cuda::DeviceAllocator()) {}

void CudaOccupancy::FollowUpload(kernels::Stream stream) {
  cuda::CopyToDevice(work_.allowed.data(), host_->allowed().data(), work_.allowed.byte_size(),
                     stream);
  FindEmptyDistances(stream);
  cuda::Synchronize(stream);
  occupied_fraction_ = host_->grid().OccupiedFraction();
}

void CudaOccupancy::Update(uint32_t step, Vec3 box_min, Vec3 box_size, CudaFieldSamples* scratch,
                           const Density& density, kernels::Stream stream) {
  ProbeCells(step, box_min, box_size, scratch, density, stream);
  if (host_->Spreads(step))
    cuda::SpreadBlockMaximum({.n_blocks = n_blocks_, .values = values_}, stream);
  cuda::Fill(work_.n_occupied.data(), 0, sizeof(uint32_t), stream);
  cuda::SetOccupiedBits({.n_blocks = n_blocks_,
                         .values = values_,
                         .threshold = config_.grid_threshold,
                         .allowed = work_.allowed.data(),
                         .sums = work_.sums.data(),
                         .blocks = blocks_,
                         .n_occupied = work_.n_occupied.data()},
                        stream);
  FindEmptyDistances(stream);
  uint32_t n_occupied = 0;
  cuda::CopyToHost(&n_occupied, work_.n_occupied.data(), sizeof(n_occupied), stream);
  cuda::Synchronize(stream);
  occupied_fraction_ = n_occupied / (64.0 * n_blocks_);
}

kernels::MarchGrid CudaOccupancy::MarchGrid() const {
  kernels::MarchGrid grid = MarchGridOf(host_->grid());
  grid.blocks = blocks_;
  grid.empty_distances = work_.empty_distances.data();
  return grid;
}

// As many blocks at a time as the samples' arrays hold points of.
void CudaOccupancy::ProbeCells(uint32_t step, Vec3 box_min, Vec3 box_size,
                               CudaFieldSamples* scratch, const Density& density,
                               kernels::Stream stream) {
  const OccupancyGrid& grid = host_->grid();
  const kernels::ProbePeriods periods = host_->Periods(step);
  const auto capacity = static_cast<uint32_t>(scratch->positions.size());
  const uint32_t at_once = std::max(
      1u, capacity / static_cast<uint32_t>(64 / std::min(periods.occupied, periods.empty)));
  for (uint32_t first = 0; first < n_blocks_; first += at_once) {
    cuda::Fill(work_.n_points.data(), 0, sizeof(uint32_t), stream);
    cuda::ProbeCells({.first_block = first,
                      .end_block = std::min(first + at_once, n_blocks_),
                      .resolution = grid.resolution,
                      .center = grid.box.Center(),
                      .half_size = grid.box.Size() * 0.5f,
                      .box_min = box_min,
                      .box_size = box_size,
                      .seed = config_.seed,
                      .step = step,
                      .update = host_->UpdateNumber(step),
                      .periods = periods,
                      .blocks = blocks_,
                      .allowed = work_.allowed.data(),
                      .decay = config_.grid_decay,
                      .values = values_,
                      .capacity = capacity,
                      .count = work_.n_points.data(),
                      .positions = scratch->positions.data(),
                      .cells = scratch->cells.data()},
                     stream);
    density({capacity, work_.n_points.data()});
  }
}

void CudaOccupancy::FindEmptyDistances(kernels::Stream stream) {
  const OccupancyGrid& grid = host_->grid();
  cuda::EmptyDistances({.n_levels = grid.n_levels,
                        .side = static_cast<uint32_t>(grid.resolution / 4),
                        .blocks = blocks_,
                        .distances = work_.empty_distances.data(),
                        .along_axis = work_.distances_along_axis.data()},
                       stream);
}

}  // namespace nerf
