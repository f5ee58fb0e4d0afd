#include "engine/methods/ngp/cuda/cuda_ranks.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "engine/field/kernels/cuda/device.h"
#include "engine/methods/ngp/network.h"
#include "engine/train/ranks/new_device_group.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kPartUnit = 64;  // elements: a part begins at a cache line, in half precision too

}  // namespace

int NgpCudaRows(const TrainConfig& config, int n_ranks) {
  if (config.cuda_deterministic != 0) return kCudaLanes;
  return n_ranks > 1 ? n_ranks : 0;
}

NgpCudaRanks::NgpCudaRanks(Group* group, const TrainConfig& config, size_t table_size, int n_blocks)
    : group_(group),
      rank_(group != nullptr ? group->rank() : 0),
      n_ranks_(group != nullptr ? group->n_ranks() : 1),
      n_rows_(NgpCudaRows(config, n_ranks_)),
      n_blocks_(n_blocks),
      same_bytes_(config.cuda_deterministic != 0),
      own_rows_(PartOf(n_rows_, rank_, n_ranks_)) {
  const auto n_units = static_cast<int>(table_size / kPartUnit);
  for (int rank = 0; rank < n_ranks_; ++rank) {
    const IndexRange units = PartOf(n_units, rank, n_ranks_);
    table_parts_.push_back({kPartUnit * units.begin, kPartUnit * units.end});
    const IndexRange rows = PartOf(n_rows_, rank, n_ranks_);
    row_parts_.push_back({size_t{kNgpWeights} * rows.begin, size_t{kNgpWeights} * rows.end});
  }
  table_parts_.back().end = table_size;
}

IndexRange NgpCudaRanks::RaysOf(int n_rays, int rays_per_pixel) const {
  if (n_rows_ == 0) return {0, n_rays};
  const auto first_ray = [&](int row) {
    return row < n_rows_ ? rays_per_pixel * PartOf(n_rays / rays_per_pixel, row, n_rows_).begin
                         : n_rays;
  };
  return {first_ray(own_rows_.begin), first_ray(own_rows_.end)};
}

void NgpCudaRanks::WriteBounds(int n_rays, int rays_per_pixel, CudaStepControl* control) const {
  const IndexRange rays = RaysOf(n_rays, rays_per_pixel);
  control->first_ray = static_cast<uint32_t>(rays.begin);
  control->n_rays = static_cast<uint32_t>(rays.end - rays.begin);
  for (int row = own_rows_.begin; row < own_rows_.end; ++row) {
    control->row_rays[row - own_rows_.begin + 1] = static_cast<uint32_t>(
        rays_per_pixel * PartOf(n_rays / rays_per_pixel, row, n_rows_).end - rays.begin);
  }
}

bool NgpCudaRanks::ShareCounts(CudaRankCounts* counts) {
  counts->n_blocks = static_cast<uint32_t>(n_blocks_);
  const CudaRankCounts mine = *counts;
  std::vector<ByteBlock> from;
  nerf::AllGather(group_, std::as_bytes(std::span(&mine, 1)), &from);
  *counts = {};
  for (int rank = 0; rank < n_ranks_; ++rank) {
    CudaRankCounts one = mine;
    if (rank != rank_) {
      const Bytes bytes = from[rank].bytes();
      if (bytes.size() != sizeof(one))
        throw GroupError(fmt::format("rank {} sent a message that does not fit", rank), rank);
      std::memcpy(&one, bytes.data(), sizeof(one));
    }
    if (same_bytes_ && one.n_blocks != mine.n_blocks) {
      throw GroupError(
          fmt::format("ranks {} and {} have devices of different kinds, whose sums differ: train "
                      "without cuda_deterministic",
                      rank_, rank),
          rank);
    }
    counts->n_marched += one.n_marched;
    counts->n_trained += one.n_trained;
    counts->loss += one.loss;
    counts->squared_error += one.squared_error;
    counts->fits = std::min(counts->fits, one.fits);
  }
  return counts->fits != 0;
}

template <typename T>
void NgpCudaRanks::SumGradients(CudaTraining<T>* training, kernels::Stream stream) {
  const auto sum = [&](auto& gradients) {
    if (gradients.empty()) return;
    device().SumScatter(gradients.data(), table_parts_, stream.handle);
    const ElementRange own = own_table();
    kernels::cuda::Fill(gradients.data(), 0, own.begin * sizeof(gradients[0]), stream);
    kernels::cuda::Fill(gradients.data() + own.end, 0,
                        (gradients.size() - own.end) * sizeof(gradients[0]), stream);
  };
  sum(training->table_gradients);
  sum(training->fixed_table_gradients);
  device().AllGather(training->row_gradients.data(), ByteParts(row_parts_, sizeof(float)),
                     stream.handle);
}

template <typename T>
void NgpCudaRanks::ShareTable(CudaTraining<T>* training, CudaState* arrays,
                              kernels::Stream stream) {
  if (!training->table_copies.empty()) {
    device().AllGather(training->table_copies.data(), ByteParts(table_parts_, sizeof(Half)),
                       stream.handle);
  } else {
    ShareFloats(&arrays->table, stream);
  }
}

void NgpCudaRanks::ShareGrid(CudaState* arrays, kernels::Stream stream) {
  device().Max(arrays->grid_values.data(), arrays->grid_values.size(), stream.handle);
}

void NgpCudaRanks::Collect(CudaState* arrays, kernels::Stream stream) {
  for (Buffer<float>* table :
       {&arrays->table, &arrays->table_first, &arrays->table_second, &arrays->table_average})
    ShareFloats(table, stream);
  ShareGrid(arrays, stream);
}

DeviceGroup& NgpCudaRanks::device() {
  if (device_ == nullptr) device_ = NewDeviceGroup(group_);
  return *device_;
}

std::vector<ElementRange> NgpCudaRanks::ByteParts(std::vector<ElementRange> parts,
                                                  size_t element_bytes) const {
  for (ElementRange& part : parts) part = {part.begin * element_bytes, part.end * element_bytes};
  return parts;
}

void NgpCudaRanks::ShareFloats(Buffer<float>* table, kernels::Stream stream) {
  device().AllGather(table->data(), ByteParts(table_parts_, sizeof(float)), stream.handle);
}

template void NgpCudaRanks::SumGradients(CudaTraining<float>*, kernels::Stream);
template void NgpCudaRanks::SumGradients(CudaTraining<Half>*, kernels::Stream);
template void NgpCudaRanks::ShareTable(CudaTraining<float>*, CudaState*, kernels::Stream);
template void NgpCudaRanks::ShareTable(CudaTraining<Half>*, CudaState*, kernels::Stream);

}  // namespace nerf
