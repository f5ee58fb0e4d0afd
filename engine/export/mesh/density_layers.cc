#include "engine/export/mesh/density_layers.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace nerf {
namespace {

constexpr int kBatch = 512;
constexpr int kRowsAtOnce = 4;  // of a thread
// Logarithms of the density over that of the surface are clamped to this: those of an empty cell
// lie about there.
constexpr float kLogRange = 3;

}  // namespace

bool IsOccupied(const OccupancyGrid& grid, Vec3 point) {
  const Vec3 center = grid.box.Center();
  const float half = 0.5f * grid.box.Size().x;
  const Vec3 p = point - center;
  const float reach = std::max({std::abs(p.x), std::abs(p.y), std::abs(p.z)});
  int level = 0;
  float level_half = half;
  while (reach > level_half && level < grid.n_levels - 1) {
    ++level;
    level_half *= 2;
  }
  if (!(reach < level_half)) return false;
  const float cells_per_unit = static_cast<float>(grid.resolution) / (2 * level_half);
  std::array<int, 3> cell;
  for (int axis = 0; axis < 3; ++axis) {
    cell[axis] = std::clamp(static_cast<int>((p[axis] + level_half) * cells_per_unit), 0,
                            grid.resolution - 1);
  }
  return grid.Occupied(level, cell[0], cell[1], cell[2]);
}

DensityLayers::DensityLayers(const MarchedModel& model, const SampleGrid& grid, float level,
                             float time, ThreadPool* pool)
    : model_(model), grid_(grid), level_(level), pool_(pool) {
  for (int i = 0; i < pool->n_threads(); ++i) {
    workspaces_.push_back(model.field().NewWorkspace(kBatch));
    model.field().SetTime(time, workspaces_.back().get());
  }
}

void DensityLayers::Evaluate(int z, std::vector<float>* values) {
  values->assign(static_cast<size_t>(grid_.size[0]) * grid_.size[1], kNoDensity);
  if (z == 0 || z == grid_.size[2] - 1) return;
  const int n_rows = grid_.size[1] - 2;
  pool_->ParallelFor((n_rows + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t index, int thread) {
    const int begin = 1 + static_cast<int>(index) * kRowsAtOnce;
    for (int y = begin; y < std::min(begin + kRowsAtOnce, n_rows + 1); ++y) {
      EvaluateRow(y, z, thread, values->data() + static_cast<size_t>(y) * grid_.size[0]);
    }
  });
}

void DensityLayers::EvaluateRow(int y, int z, int thread, float* values) {
  std::array<Vec3, kBatch> positions;
  std::array<float, kBatch> sigmas;
  std::array<int, kBatch> columns;
  int n = 0;
  const auto flush = [&] {
    if (n == 0) return;
    model_.field().Density(n, positions.data(), sigmas.data(), workspaces_[thread].get());
    // Fields learn the logarithm of the density: it is close to linear across a surface.
    for (int i = 0; i < n; ++i) {
      const float steepness = std::log(std::max(sigmas[i], 1e-30f) / level_);
      values[columns[i]] = std::clamp(steepness / (2 * kLogRange), kNoDensity, 0.5f);
    }
    n = 0;
  };
  for (int x = 1; x < grid_.size[0] - 1; ++x) {
    const Vec3 point = grid_.PointAt(x, y, z);
    if (!IsOccupied(model_.grid(), point)) continue;
    positions[n] = point;
    columns[n++] = x;
    if (n == kBatch) flush();
  }
  flush();
}

}  // namespace nerf
