#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/field/kernels/stream.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/methods/ngp/cuda/cuda_buffers.h"
#include "engine/methods/ngp/cuda/cuda_state.h"
#include "engine/train/group/device_group.h"
#include "engine/train/group/group.h"

namespace nerf {

// Rows in which a step keeps the gradients of the MLPs' weights: those of its gradient lanes where
// sums must not depend on the number of ranks (cuda_deterministic), else one a rank. 0: a process
// alone, which needs none.
int NgpCudaRows(const TrainConfig& config, int n_ranks);

// What a step reports to the other ranks before any of them updates its parameters.
struct CudaRankCounts {
  uint64_t n_marched = 0, n_trained = 0;
  double loss = 0, squared_error = 0;  // sums over rays
  uint32_t fits = 1;                   // 0: the samples did not fit into the rank's arrays
  uint32_t n_blocks = 0;               // of the backward pass, which follows the device's kind
};

// How the ranks of a group share a training step of method ngp on CUDA devices, one each: a rank
// trains a range of the rays, sums the table's gradients of its part over all ranks, updates that
// part, and sends it to all. Every rank updates the MLPs. With cuda_deterministic any number of
// ranks trains the same bytes.
class NgpCudaRanks {
 public:
  // group outlives this; null: this process alone. n_blocks: of the backward pass.
  NgpCudaRanks(Group* group, const TrainConfig& config, size_t table_size, int n_blocks);

  bool alone() const { return group_ == nullptr; }
  // Of all exchanges so far.
  GroupTraffic traffic() const { return alone() ? GroupTraffic() : group_->traffic(); }
  int n_rows() const { return n_rows_; }
  // The rows that this rank computes; none where n_rows() is 0.
  IndexRange own_rows() const { return own_rows_; }
  // The rays of a step that this rank trains, and where each of its rows begins among them.
  // Those of a pixel are of one row.
  IndexRange RaysOf(int n_rays, int rays_per_pixel) const;
  void WriteBounds(int n_rays, int rays_per_pixel, CudaStepControl* control) const;
  // The elements of the table that this rank updates.
  ElementRange own_table() const { return table_parts_[rank_]; }

  // In turn, in a step of several ranks; each waits for the others and throws GroupError.
  // Sums the counts over the ranks. False: on some rank the samples did not fit; nothing may be
  // updated until all call it again with counts that fit.
  bool ShareCounts(CudaRankCounts* counts);
  // Sums the gradients of own_table() over the ranks and sets all others to zero; brings all rows.
  template <typename T>
  void SumGradients(CudaTraining<T>* training, kernels::Stream stream);
  // After the update of own_table(): brings the rest of what the field is evaluated with.
  template <typename T>
  void ShareTable(CudaTraining<T>* training, CudaState* arrays, kernels::Stream stream);

  // Brings the largest value of each cell of the occupancy grid.
  void ShareGrid(CudaState* arrays, kernels::Stream stream);
  // Brings the whole state here.
  void Collect(CudaState* arrays, kernels::Stream stream);

 private:
  DeviceGroup& device();
  std::vector<ElementRange> ByteParts(std::vector<ElementRange> parts, size_t element_bytes) const;
  void ShareFloats(Buffer<float>* table, kernels::Stream stream);

  Group* const group_;
  std::unique_ptr<DeviceGroup>
      device_;  // made by the first exchange, for which all ranks are there
  const int rank_, n_ranks_, n_rows_, n_blocks_;
  const bool same_bytes_;  // of any number of ranks
  const IndexRange own_rows_;
  std::vector<ElementRange> table_parts_, row_parts_;  // of each rank
};

}  // namespace nerf
