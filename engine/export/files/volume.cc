#include "engine/export/files/volume.h"

#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/linear_light.h"
#include "engine/export/mesh/density_layers.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kLeafPoints = kLeafSide * kLeafSide * kLeafSide;
constexpr float kMinStoppedLight = 1e-3f;  // by a cell that holds something
constexpr Vec3 kSides[] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};

// The points of a leaf in occupied cells: their places in it and, training frame, where they are.
// Outermost points of the grid lie beyond the box. Returns their number.
int OccupiedPoints(const OccupancyGrid& occupancy, const SampleGrid& grid,
                   const std::array<int, 3>& origin, int* places, Vec3* positions) {
  const auto is_inner = [&](int number, int axis) {
    return number > 0 && number < grid.size[axis] - 1;
  };
  int n = 0;
  for (int place = 0; place < kLeafPoints; ++place) {
    const int x = origin[0] + (place >> 6), y = origin[1] + (place >> 3 & 7),
              z = origin[2] + (place & 7);
    if (!is_inner(x, 0) || !is_inner(y, 1) || !is_inner(z, 2)) continue;
    positions[n] = grid.PointAt(x, y, z);
    if (IsOccupied(occupancy, positions[n])) places[n++] = place;
  }
  return n;
}

std::array<int, 3> LeavesAlong(const SampleGrid& grid) {
  std::array<int, 3> n_leaves;
  for (int axis = 0; axis < 3; ++axis)
    n_leaves[axis] = (grid.size[axis] + kLeafSide - 1) / kLeafSide;
  return n_leaves;
}

absl::Status VolumeInterrupted() { return absl::CancelledError("the export was interrupted"); }

class LeafMaker {
 public:
  LeafMaker(const MarchedModel& model, const SampleGrid& grid, float own_scale, float time)
      : model_(model),
        grid_(grid),
        own_scale_(own_scale),
        min_sigma_(-std::log1p(-kMinStoppedLight) / grid.cell),
        workspace_(model.field().NewWorkspace(kLeafPoints)) {
    model.field().SetTime(time, workspace_.get());
  }

  VolumeLeaf Make(const std::array<int, 3>& origin) {
    VolumeLeaf leaf;
    leaf.origin = origin;
    std::array<Vec3, kLeafPoints> positions;
    std::array<int, kLeafPoints> places;
    const int n = OccupiedPoints(model_.grid(), grid_, origin, places.data(), positions.data());
    if (n == 0) return leaf;
    std::array<float, kLeafPoints> sigmas;
    model_.field().Density(n, positions.data(), sigmas.data(), workspace_.get());
    std::array<int, kLeafPoints> samples;
    int n_active = 0;
    for (int i = 0; i < n; ++i) {
      if (!(sigmas[i] >= min_sigma_)) continue;
      samples[n_active++] = i;
      leaf.active[places[i] >> 6] |= uint64_t{1} << (places[i] & 63);
      leaf.densities.push_back(sigmas[i] * own_scale_);
    }
    leaf.colors = MeanColors(n_active, samples.data());
    return leaf;
  }

 private:
  std::vector<Vec3> MeanColors(int n, const int* samples) {
    std::vector<Vec3> sums(n), colors(n);
    if (n == 0) return sums;
    for (const Vec3& side : kSides) {
      const std::vector<Vec3> directions(n, side);
      model_.field().Color(n, samples, directions.data(), colors.data(), workspace_.get());
      for (int i = 0; i < n; ++i) sums[i] = sums[i] + colors[i];
    }
    for (Vec3& sum : sums) {
      const Vec3 mean = sum * (1.0f / std::size(kSides));
      sum = {LinearLight(mean.x), LinearLight(mean.y), LinearLight(mean.z)};
    }
    return sums;
  }

  const MarchedModel& model_;
  const SampleGrid& grid_;
  const float own_scale_, min_sigma_;
  std::unique_ptr<RadianceField::Workspace> workspace_;
};

}  // namespace

absl::StatusOr<VolumeExtent> OccupiedExtent(const MarchedModel& model,
                                            const SceneGeometry& geometry,
                                            const std::optional<OwnBox>& own_box, int resolution,
                                            ThreadPool* pool, const std::stop_token& stop) {
  constexpr int kLowerLeaves = 16;  // along a side of a lower node
  const SampleGrid grid = SampleGridOver(model.OccupiedBox(), own_box, geometry.frame, resolution);
  const std::array<int, 3> n_leaves = LeavesAlong(grid);
  const auto number = [](const std::array<int, 3>& at, const std::array<int, 3>& size) {
    return (static_cast<size_t>(at[0]) * size[1] + at[1]) * size[2] + at[2];
  };
  std::vector<uint16_t> counts(static_cast<size_t>(n_leaves[0]) * n_leaves[1] * n_leaves[2]);
  pool->ParallelFor(n_leaves[0], [&](int64_t x, int /*thread*/) {
    std::array<int, kLeafPoints> places;
    std::array<Vec3, kLeafPoints> positions;
    std::array<int, 3> at = {static_cast<int>(x), 0, 0};
    for (at[1] = 0; at[1] < n_leaves[1] && !stop.stop_requested(); ++at[1]) {
      for (at[2] = 0; at[2] < n_leaves[2]; ++at[2]) {
        counts[number(at, n_leaves)] = static_cast<uint16_t>(OccupiedPoints(
            model.grid(), grid, {at[0] * kLeafSide, at[1] * kLeafSide, at[2] * kLeafSide},
            places.data(), positions.data()));
      }
    }
  });
  if (stop.stop_requested()) return VolumeInterrupted();
  VolumeExtent extent;
  std::set<std::array<int, 3>> lower;
  std::array<int, 3> at;
  for (at[0] = 0; at[0] < n_leaves[0]; ++at[0]) {
    for (at[1] = 0; at[1] < n_leaves[1]; ++at[1]) {
      for (at[2] = 0; at[2] < n_leaves[2]; ++at[2]) {
        const uint16_t n_points = counts[number(at, n_leaves)];
        if (n_points == 0) continue;
        extent.n_points += n_points;
        ++extent.n_leaves;
        lower.insert({at[0] / kLowerLeaves, at[1] / kLowerLeaves, at[2] / kLowerLeaves});
      }
    }
  }
  extent.n_lower = static_cast<double>(lower.size());
  extent.n_upper = 1;
  return extent;
}

absl::StatusOr<Volume> MakeVolume(const MarchedModel& model, const SceneGeometry& geometry,
                                  const std::optional<OwnBox>& own_box, int resolution, float time,
                                  ThreadPool* pool, const std::stop_token& stop,
                                  const ExportProgress& progress) {
  Volume volume;
  volume.grid = SampleGridOver(model.OccupiedBox(), own_box, geometry.frame, resolution);
  std::vector<LeafMaker> makers;
  for (int i = 0; i < pool->n_threads(); ++i) {
    makers.emplace_back(model, volume.grid, geometry.frame.scale, time);
  }
  const std::array<int, 3> n_leaves = LeavesAlong(volume.grid);
  for (int x = 0; x < n_leaves[0]; ++x) {
    progress("volume", static_cast<double>(x) / n_leaves[0]);
    std::vector<VolumeLeaf> slab(static_cast<size_t>(n_leaves[1]) * n_leaves[2]);
    pool->ParallelFor(static_cast<int64_t>(slab.size()), [&](int64_t index, int thread) {
      if (stop.stop_requested()) return;
      const int y = static_cast<int>(index / n_leaves[2]);
      const int z = static_cast<int>(index % n_leaves[2]);
      slab[index] = makers[thread].Make({x * kLeafSide, y * kLeafSide, z * kLeafSide});
    });
    if (stop.stop_requested()) return VolumeInterrupted();
    for (VolumeLeaf& leaf : slab) {
      if (leaf.densities.empty()) continue;
      volume.n_points += leaf.densities.size();
      volume.leaves.push_back(std::move(leaf));
    }
    if (volume.n_points > kMaxVolumePoints) {
      return absl::ResourceExhaustedError(
          "the volume has more than 64 million points: take a smaller --resolution or --crop");
    }
  }
  if (volume.leaves.empty()) {
    return absl::InvalidArgumentError("no volume: the box holds no density");
  }
  return volume;
}

}  // namespace nerf
