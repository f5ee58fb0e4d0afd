#include "engine/train/occupancy_updater.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/field/parameters/gradient_lanes.h"

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
  Buffer<float> sigmas{kProbeBatch};
};

namespace {

// Sends the densities of this rank's tasks to the others and receives theirs. [n_tasks]
void ShareProbes(Group* group, std::vector<std::vector<float>>* sigmas) {
  const auto n_tasks = static_cast<int>(sigmas->size());
  const IndexRange own = PartOf(n_tasks, group->rank(), group->n_ranks());
  std::vector<float> mine;
  for (int task = own.begin; task < own.end; ++task) {
    const std::vector<float>& of_task = (*sigmas)[task];
    mine.insert(mine.end(), of_task.begin(), of_task.end());
  }
  std::vector<ByteBlock> from;
  AllGather(group, std::as_bytes(std::span(mine)), &from);
  for (int rank = 0; rank < group->n_ranks(); ++rank) {
    if (rank == group->rank()) continue;
    Bytes bytes = from[rank].bytes();
    const IndexRange theirs = PartOf(n_tasks, rank, group->n_ranks());
    for (int task = theirs.begin; task < theirs.end; ++task) {
      const size_t size = (*sigmas)[task].size() * sizeof(float);
      if (bytes.size() < size) throw GroupError("another rank has probed fewer cells");
      if (size > 0) std::memcpy((*sigmas)[task].data(), bytes.data(), size);
      bytes = bytes.subspan(size);
    }
    if (!bytes.empty()) throw GroupError("another rank has probed more cells");
  }
}

}  // namespace

OccupancyUpdater::OccupancyUpdater(const TrainConfig& config, const SceneGeometry& geometry)
    : config_(config),
      step_length_(geometry.step),
      grid_(FullOccupancyGrid(geometry.box, geometry.n_levels, GridResolution(config))),
      allowed_(grid_.occupied_blocks),
      values_(grid_.occupied_blocks.size() * kBlockCells) {
  ListTasks();
}

// Groups of at most kTaskBlocks blocks, trimmed at both ends of blocks without an allowed cell:
// what pictures show of an object is a small part of its box.
void OccupancyUpdater::ListTasks() {
  tasks_.clear();
  for (size_t first = 0; first < allowed_.size(); first += kTaskBlocks) {
    size_t begin = first, end = std::min(first + kTaskBlocks, allowed_.size());
    while (begin < end && allowed_[begin] == 0) ++begin;
    while (begin < end && allowed_[end - 1] == 0) --end;
    if (begin < end) tasks_.push_back({begin, end});
  }
}

bool OccupancyUpdater::IsDue(uint32_t step) const {
  return step > 0 && step % static_cast<uint32_t>(config_.grid_update_interval) == 0;
}

void OccupancyUpdater::Reopen() {
  grid_.occupied_blocks = allowed_;
  values_.SetZero();
}

void OccupancyUpdater::KeepEmpty(std::span<const uint64_t> cells) {
  std::fill(allowed_.begin(), allowed_.end(), ~uint64_t{0});
  for (size_t block = 0; block < cells.size(); ++block) allowed_[block] = ~cells[block];
  ListTasks();
  Reopen();
}

void OccupancyUpdater::SetBits(std::vector<uint64_t> bits) {
  NERF_CHECK(bits.size() == allowed_.size());
  for (size_t block = 0; block < bits.size(); ++block) bits[block] &= allowed_[block];
  grid_.occupied_blocks = std::move(bits);
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

void OccupancyUpdater::Update(const Density& density, uint32_t step, ThreadPool* pool,
                              Group* group) {
  std::vector<std::unique_ptr<Workspace>> workspaces(pool->n_threads());
  const size_t n_tasks = tasks_.size();
  std::vector<double> sums(n_tasks);
  std::vector<std::vector<float>> sigmas(n_tasks);  // of the cells that a task probes
  const IndexRange own = group == nullptr
                             ? IndexRange{0, static_cast<int>(n_tasks)}
                             : PartOf(static_cast<int>(n_tasks), group->rank(), group->n_ranks());
  const auto for_blocks = [&](auto visit) {
    pool->ParallelFor(static_cast<int64_t>(n_tasks), [&](int64_t task, int thread) {
      visit(task, thread, tasks_[task].begin, tasks_[task].end);
    });
  };
  for_blocks([&](int64_t task, int thread, size_t begin, size_t end) {
    if (task < own.begin || task >= own.end) {
      size_t n = 0;
      ForProbedCells(step, begin, end, [&n](size_t, auto) { ++n; });
      sigmas[task].resize(n);
      return;
    }
    if (!workspaces[thread]) workspaces[thread] = std::make_unique<Workspace>();
    ProbeBlocks(density, step, thread, begin, end, workspaces[thread].get(), &sigmas[task]);
  });
  if (group != nullptr) ShareProbes(group, &sigmas);
  for_blocks([&](int64_t task, int, size_t begin, size_t end) {
    ApplyProbes(step, begin, end, sigmas[task]);
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
                                   .allowed = allowed_.data() + begin,
                                   .blocks = grid_.occupied_blocks.data() + begin});
  });
}

// Calls visit(cell, position) for each cell that is probed, where position() computes the random
// point of the unit cube at which it is.
template <typename Visit>
void OccupancyUpdater::ForProbedCells(uint32_t step, size_t begin, size_t end,
                                      const Visit& visit) const {
  const size_t side = grid_.resolution / 4;
  const size_t level_blocks = side * side * side;
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
    for (uint64_t due = kernels::ProbedCells(period, UpdateNumber(step), b) & allowed_[b]; due != 0;
         due &= due - 1) {
      const int bit = std::countr_zero(due);
      const size_t cell = b * kBlockCells + bit;
      visit(cell, [&] {
        const auto words =
            RandomWords(config_.seed, RandomUse::kGridCell, step, static_cast<uint32_t>(cell));
        const Vec3 corner{static_cast<float>(x0 + (bit & 3)),
                          static_cast<float>(y0 + ((bit >> 2) & 3)),
                          static_cast<float>(z0 + (bit >> 4))};
        const Vec3 jitter{UniformFloat(words[0]), UniformFloat(words[1]), UniformFloat(words[2])};
        const Vec3 offset = box.min + (corner + jitter) * cell_size - outer_box.min;
        return Vec3{offset.x / outer_size.x, offset.y / outer_size.y, offset.z / outer_size.z};
      });
    }
  }
}

// Appends the densities of the probed cells of blocks [begin, end).
void OccupancyUpdater::ProbeBlocks(const Density& density, uint32_t step, int thread, size_t begin,
                                   size_t end, Workspace* w, std::vector<float>* sigmas) const {
  int n = 0;
  const auto flush = [&] {
    if (n == 0) return;
    density(n, w->positions.data(), w->sigmas.data(), thread);
    sigmas->insert(sigmas->end(), w->sigmas.begin(), w->sigmas.begin() + n);
    n = 0;
  };
  ForProbedCells(step, begin, end, [&](size_t, const auto& position) {
    w->positions[n] = position();
    if (++n == kProbeBatch) flush();
  });
  flush();
}

// Decays the cells of blocks [begin, end) and raises those that were probed.
void OccupancyUpdater::ApplyProbes(uint32_t step, size_t begin, size_t end,
                                   const std::vector<float>& sigmas) {
  for (size_t cell = begin * kBlockCells; cell < end * kBlockCells; ++cell)
    values_[cell] *= config_.grid_decay;
  size_t i = 0;
  ForProbedCells(step, begin, end, [&](size_t cell, const auto&) {
    values_[cell] = std::max(values_[cell], sigmas[i++] * step_length_);
  });
}

}  // namespace nerf
