#include "engine/export/volume.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/linear_light.h"
#include "engine/export/density_layers.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kLeafPoints = kLeafSide * kLeafSide * kLeafSide;
constexpr float kMinStoppedLight = 1e-3f;  // by a cell that holds something
constexpr Vec3 kSides[] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};

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
    int n = 0;
    for (int place = 0; place < kLeafPoints; ++place) {
      const int x = origin[0] + (place >> 6), y = origin[1] + (place >> 3 & 7),
                z = origin[2] + (place & 7);
      if (!IsInner(x, 0) || !IsInner(y, 1) || !IsInner(z, 2)) continue;
      positions[n] = grid_.PointAt(x, y, z);
      if (IsOccupied(model_.grid(), positions[n])) places[n++] = place;
    }
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
  // Outermost points lie beyond the box.
  bool IsInner(int number, int axis) const { return number > 0 && number < grid_.size[axis] - 1; }

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
  std::array<int, 3> n_leaves;
  for (int axis = 0; axis < 3; ++axis) {
    n_leaves[axis] = (volume.grid.size[axis] + kLeafSide - 1) / kLeafSide;
  }
  for (int x = 0; x < n_leaves[0]; ++x) {
    progress("volume", static_cast<double>(x) / n_leaves[0]);
    std::vector<VolumeLeaf> slab(static_cast<size_t>(n_leaves[1]) * n_leaves[2]);
    pool->ParallelFor(static_cast<int64_t>(slab.size()), [&](int64_t index, int thread) {
      if (stop.stop_requested()) return;
      const int y = static_cast<int>(index / n_leaves[2]);
      const int z = static_cast<int>(index % n_leaves[2]);
      slab[index] = makers[thread].Make({x * kLeafSide, y * kLeafSide, z * kLeafSide});
    });
    if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
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
