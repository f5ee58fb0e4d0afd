#include "engine/train/occupancy_updater.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/base/philox.h"

namespace nerf {
namespace {

constexpr size_t kBlockCells = kernels::kBlockCells;
constexpr size_t kTaskBlocks = 64;  // blocks of one task
// Probes every 8th cell while the field takes shape; later every 32nd of blocks with an occupied
// cell and every 64th of empty blocks, which surfaces reach by growing from neighbors.
constexpr uint32_t kWarmUpSteps = 256;
constexpr kernels::ProbePeriods kWarmUpPeriods{8, 8}, kPeriods{32, 64};

}  // namespace

struct OccupancyUpdater::Workspace {
  Buffer<Vec3> positions{kProbeBatch};
  Buffer<size_t> cells{kProbeBatch};
  Buffer<float> sigmas{kProbeBatch};
  int n = 0;
};

OccupancyUpdater::OccupancyUpdater(const TrainConfig& config, const SceneGeometry& geometry)
    : config_(config),
      step_length_(geometry.step),
      grid_(FullOccupancyGrid(geometry.box, geometry.n_levels, config.grid_resolution)),
      values_(grid_.occupied_blocks.size() * kBlockCells) {}

bool OccupancyUpdater::IsDue(uint32_t step) const {
  return step > 0 && step % static_cast<uint32_t>(config_.grid_update_interval) == 0;
}

void OccupancyUpdater::Reopen() {
  std::fill(grid_.occupied_blocks.begin(), grid_.occupied_blocks.end(), ~uint64_t{0});
  values_.SetZero();
}

kernels::ProbePeriods OccupancyUpdater::Periods(uint32_t step) const {
  return step < kWarmUpSteps ? kWarmUpPeriods : kPeriods;
}

void OccupancyUpdater::Observe(std::span<const uint32_t> cells, std::span<const float> sigmas) {
  for (size_t i = 0; i < sigmas.size(); ++i) {
    float& value = values_[cells[i]];
    value = std::max(value, sigmas[i] * step_length_);
  }
}

// After the first update the cells that were not probed take the block's largest value: the field
// is smooth then.
void OccupancyUpdater::SpreadBlockMaximum(size_t begin, size_t end) {
  for (size_t block = begin; block < end; ++block) {
    float* const values = values_.data() + block * kBlockCells;
    std::fill_n(values, kBlockCells, *std::max_element(values, values + kBlockCells));
  }
}

void OccupancyUpdater::Update(const Density& density, uint32_t step, ThreadPool* pool) {
  std::vector<std::unique_ptr<Workspace>> workspaces(pool->n_threads());
  const size_t n_blocks = grid_.occupied_blocks.size();
  const size_t n_tasks = (n_blocks + kTaskBlocks - 1) / kTaskBlocks;
  std::vector<double> sums(n_tasks);
  const auto for_blocks = [&](auto visit) {
    pool->ParallelFor(static_cast<int64_t>(n_tasks), [&](int64_t task, int thread) {
      const size_t begin = task * kTaskBlocks;
      visit(task, thread, begin, std::min(begin + kTaskBlocks, n_blocks));
    });
  };
  for_blocks([&](int64_t task, int thread, size_t begin, size_t end) {
    if (!workspaces[thread]) workspaces[thread] = std::make_unique<Workspace>();
    for (size_t cell = begin * kBlockCells; cell < end * kBlockCells; ++cell)
      values_[cell] *= config_.grid_decay;
    ProbeBlocks(density, step, thread, begin, end, workspaces[thread].get());
    if (Spreads(step)) SpreadBlockMaximum(begin, end);
    sums[task] = kernels::cpu::SumOfCells(static_cast<int64_t>(end - begin),
                                          values_.data() + begin * kBlockCells);
  });
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  const float threshold =
      std::min(static_cast<float>(sum / values_.size()), config_.grid_threshold);
  for_blocks([&](int64_t, int, size_t begin, size_t end) {
    kernels::cpu::SetOccupiedBits({.n_blocks = static_cast<int64_t>(end - begin),
                                   .values = values_.data() + begin * kBlockCells,
                                   .threshold = threshold,
                                   .blocks = grid_.occupied_blocks.data() + begin});
  });
}

void OccupancyUpdater::ProbeBlocks(const Density& density, uint32_t step, int thread, size_t begin,
                                   size_t end, Workspace* w) {
  const size_t side = grid_.resolution / 4;
  const size_t level_blocks = side * side * side;
  const auto flush = [&] {
    if (w->n == 0) return;
    density(w->n, w->positions.data(), w->sigmas.data(), thread);
    for (int i = 0; i < w->n; ++i) {
      float& value = values_[w->cells[i]];
      value = std::max(value, w->sigmas[i] * step_length_);
    }
    w->n = 0;
  };
  const Aabb outer_box = grid_.box.Scaled(static_cast<float>(1 << (grid_.n_levels - 1)));
  const Vec3 outer_size = outer_box.Size();
  for (size_t b = begin; b < end; ++b) {
    const int level = static_cast<int>(b / level_blocks);
    const size_t block = b % level_blocks;
    if (kernels::IsCoveredBlock(level, block, static_cast<uint32_t>(side))) continue;
    const Aabb box = grid_.box.Scaled(static_cast<float>(1 << level));
    const float cell_size = box.Size().x / grid_.resolution;
    const size_t x0 = block % side * 4, y0 = block / side % side * 4,
                 z0 = block / (side * side) * 4;
    const int period = Periods(step).Of(grid_.occupied_blocks[b]);
    for (uint64_t due = kernels::ProbedCells(period, UpdateNumber(step), b); due != 0;
         due &= due - 1) {
      const int bit = std::countr_zero(due);
      const size_t cell = b * kBlockCells + bit;
      const auto words =
          RandomWords(config_.seed, RandomUse::kGridCell, step, static_cast<uint32_t>(cell));
      const Vec3 corner{static_cast<float>(x0 + (bit & 3)),
                        static_cast<float>(y0 + ((bit >> 2) & 3)),
                        static_cast<float>(z0 + (bit >> 4))};
      const Vec3 jitter{UniformFloat(words[0]), UniformFloat(words[1]), UniformFloat(words[2])};
      const Vec3 offset = box.min + (corner + jitter) * cell_size - outer_box.min;
      w->positions[w->n] = {offset.x / outer_size.x, offset.y / outer_size.y,
                            offset.z / outer_size.z};
      w->cells[w->n] = cell;
      if (++w->n == kProbeBatch) flush();
    }
  }
  flush();
}

}  // namespace nerf
