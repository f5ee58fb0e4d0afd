#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/occupancy_grid.h"
#include "engine/scene/scene.h"
#include "engine/train/group/group.h"

namespace nerf {

// Keeps the occupancy grid up to date with a field in training: densities of cells, sampled at
// random points, decay and follow the field; a cell is occupied while its density * step exceeds
// the threshold, or the mean if that is lower. Cells in the middle of an outer level are not
// updated: the finer level covers them. Source: Mueller et al. 2022, appendix E.
// Cells that are known to be empty are neither probed nor occupied.
class OccupancyUpdater {
 public:
  OccupancyUpdater(const TrainConfig& config, const SceneGeometry& geometry);

  // Whether an update is due before step `step` (counted from 0).
  bool IsDue(uint32_t step) const;
  // Number of the update before step `step`, counted from 1.
  uint32_t UpdateNumber(uint32_t step) const { return step / config_.grid_update_interval; }
  kernels::ProbePeriods Periods(uint32_t step) const;
  // Whether the update gives all cells of a 4x4x4 block the largest value among them. True for the
  // first update, which probes few of them.
  bool Spreads(uint32_t step) const { return UpdateNumber(step) == 1; }
  // Densities of the field at n points of the unit cube, which the outermost box is mapped to.
  // Called on the pool's threads; `thread` is the pool's index. n is at most kProbeBatch.
  using Density = std::function<void(int n, const Vec3* unit, float* sigmas, int thread)>;
  static constexpr int kProbeBatch = 512;

  // Decays all cells, probes a share of them and sets the grid's bits anew. Deterministic in (seed,
  // step). The ranks of a group divide the probes; each ends with the same grid.
  void Update(const Density& density, uint32_t step, ThreadPool* pool, Group* group = nullptr);
  // Raises cells (64 * block + bit) to densities that training evaluated there. Order does not
  // matter.
  void Observe(std::span<const uint32_t> cells, std::span<const float> sigmas);

  // A cell's value is its density times this.
  float step_length() const { return step_length_; }
  const OccupancyGrid& grid() const { return grid_; }
  // Every cell is occupied but those that are known to be empty.
  void Reopen();
  // From now on these cells are empty, one bit a cell; none: any may hold something. Then reopens.
  void KeepEmpty(std::span<const uint64_t> cells);
  // The cells that may be occupied. [n_blocks]
  const std::vector<uint64_t>& allowed() const { return allowed_; }
  // Takes these bits, of cells that may be occupied.
  void SetBits(std::vector<uint64_t> bits);

  // Density * step of each cell, in the order of the grid's bits: [n_levels][resolution^3]. For
  // checkpoints.
  Buffer<float>& values() { return values_; }
  const Buffer<float>& values() const { return values_; }
  std::span<uint64_t> bits() { return grid_.occupied_blocks; }

 private:
  struct Workspace;
  template <typename Visit>
  void ForProbedCells(uint32_t step, size_t begin, size_t end, const Visit& visit) const;
  void ProbeBlocks(const Density& density, uint32_t step, int thread, size_t begin, size_t end,
                   Workspace* workspace, std::vector<float>* sigmas) const;
  void ApplyProbes(uint32_t step, size_t begin, size_t end, const std::vector<float>& sigmas);
  void SpreadBlockMaximum(size_t begin_block, size_t end_block);
  void ListTasks();

  const TrainConfig config_;
  const float step_length_;
  OccupancyGrid grid_;
  std::vector<uint64_t> allowed_;
  struct BlockRange {
    size_t begin, end;
  };
  std::vector<BlockRange> tasks_;  // the blocks that updates visit; the others stay empty
  Buffer<float> values_;
};

}  // namespace nerf
