#include "engine/methods/voxels/voxels_step.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/bfloat16.h"
#include "engine/field/marched_model.h"
#include "engine/files/metadata_reader.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/adam.h"
#include "engine/methods/voxels/describe/voxels_settings.h"
#include "engine/methods/voxels/field.h"
#include "engine/methods/voxels/voxel_file.h"
#include "engine/parameters/dense_parameters.h"
#include "engine/train/field_step.h"
#include "engine/train/occupancy_file.h"

namespace nerf {
namespace {

constexpr int kLanes = 32;
constexpr size_t kLine = 16;               // floats of a cache line
constexpr int kSlabBricks = 4;             // bricks along z of one task of an update
constexpr uint32_t kVariationPeriod = 16;  // a brick gets the variation's gradient so seldom
// Unoccupied bricks are dropped whenever voxels are divided, and once more at this share of the
// budget.
constexpr double kLastPruning = 0.6;
constexpr const char* kFirstMoments = "adam.first.field.voxels";
constexpr const char* kSecondMoments = "adam.second.field.voxels";
constexpr const char* kChangesName = "voxels.changes";

// A trained sample for the scatter into the voxels.
struct SampleGradient {
  Vec3 unit;
  float exponent;  // gradient of the density's exponent
  Vec3 color;      // of the color before its sigmoid
  int harmonics;   // index of its ray's harmonics in the lane
};

struct Lane {
  std::vector<SampleGradient> samples;
  std::vector<float> harmonics;
};

class VoxelsChunkField final : public ChunkField {
 public:
  VoxelsChunkField(const VoxelGrid* grid, const VoxelPlacement& placement, std::vector<Lane>* lanes)
      : grid_(*grid), placement_(placement), lanes_(*lanes) {}

  void Begin(int n_rays, const Ray* rays, const float* /*times*/) override {
    harmonics_.resize(static_cast<size_t>(n_rays) * kVoxelHarmonics);
    for (int r = 0; r < n_rays; ++r)
      VoxelHarmonics(rays[r].direction, harmonics_.data() + size_t{kVoxelHarmonics} * r);
  }
  void Reserve(int n_rows, int /*n_kept*/) override {
    unit_.resize(n_rows);
    sigmas_.resize(n_rows);
    colors_.resize(n_rows);
    rows_.resize(static_cast<size_t>(n_rows) * kVoxelStride);
  }
  void Density(int begin, int n, const Vec3* positions, const int* /*ray_of*/,
               float* sigmas) override {
    for (int i = 0; i < n; ++i) {
      unit_[begin + i] = placement_.ToUnit(positions[i]);
      grid_.Interpolate(unit_[begin + i], Row(begin + i));
    }
    kernels::cpu::DensityActivation({.n = n,
                                     .outputs = Row(begin),
                                     .stride = kVoxelStride,
                                     .shift = placement_.density_shift,
                                     .sigmas = sigmas});
    std::copy_n(sigmas, n, sigmas_.data() + begin);
  }
  void MoveRow(int from, int to) override {
    unit_[to] = unit_[from];
    sigmas_[to] = sigmas_[from];
    std::copy_n(Row(from), kVoxelStride, Row(to));
  }
  void Color(int n, const int* ray_of, Vec3* colors) override {
    for (int i = 0; i < n; ++i) {
      colors[i] = colors_[i] =
          VoxelColor(Row(i), harmonics_.data() + size_t{kVoxelHarmonics} * ray_of[i]);
    }
  }
  void Backward(int n, const int* ray_of, const float* grad_sigmas, const Vec3* grad_colors,
                int lane_index) override {
    Lane& lane = lanes_[lane_index];
    const auto first = static_cast<int>(lane.harmonics.size() / kVoxelHarmonics);
    lane.harmonics.insert(lane.harmonics.end(), harmonics_.begin(), harmonics_.end());
    for (int i = 0; i < n; ++i) {
      const Vec3 c = colors_[i];
      // d sigma / d exponent is sigma itself.
      lane.samples.push_back({unit_[i], grad_sigmas[i] * sigmas_[i],
                              grad_colors[i] * c * (Vec3{1, 1, 1} - c), first + ray_of[i]});
    }
  }

 private:
  float* Row(int i) { return rows_.data() + static_cast<size_t>(i) * kVoxelStride; }

  const VoxelGrid& grid_;
  const VoxelPlacement placement_;
  std::vector<Lane>& lanes_;
  std::vector<float> harmonics_;  // of the chunk's rays
  std::vector<Vec3> unit_, colors_;
  std::vector<float> sigmas_, rows_;
};

// The loop has a constant length, so that -O2 vectorizes it.
void AddVoxelGradient(const float* __restrict row, float weight, float* __restrict gradient) {
  for (int c = 0; c < kVoxelStride; ++c) gradient[c] += weight * row[c];
}

std::unique_ptr<TrainedModel> NewModel(const VoxelPlacement& placement, VoxelGrid grid,
                                       const SceneGeometry& geometry, OccupancyGrid occupancy) {
  for (float& value : grid.values()) value = RoundToHalf(value);
  auto field = std::make_unique<VoxelsField>(placement, std::move(grid));
  const uint64_t field_bytes = field->byte_size();
  return std::make_unique<MarchedModel>("voxels", std::move(field), std::move(occupancy),
                                        kernels::MarchSteps{geometry.step, geometry.cone},
                                        field_bytes);
}

VoxelPlacement PlacementOf(const TrainConfig& config, const SceneGeometry& geometry) {
  return {geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))),
          std::log(geometry.box.Size().x / Voxels(config).initial_density)};
}

VoxelGrid WholeGrid(int resolution) {
  const auto side = static_cast<size_t>(resolution / 4);
  return VoxelGrid(resolution, std::vector<bool>(side * side * side, true));
}

class VoxelsStep final : public FieldStep {
 public:
  VoxelsStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
             ThreadPool* pool)
      : FieldStep(config, geometry, views, pool, {.n_lanes = kLanes, .chunk_samples = 512}),
        placement_(PlacementOf(config, geometry)),
        lanes_(kLanes) {
    SetGrid(WholeGrid(Voxels(config).first_resolution));
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override;
  absl::Status Load(const TensorFile& file) override;
  void SaveModel(TensorFile* file) const override {
    StoreVoxels(config(), grid_, DType::kF16, file);
    StoreOccupancyBits(occupancy().grid(), file);
  }
  absl::Status Initialize(const TensorFile& file) override;
  std::unique_ptr<TrainedModel> Snapshot() const override;

 protected:
  std::unique_ptr<ChunkField> NewChunkField() override {
    return std::make_unique<VoxelsChunkField>(&grid_, placement_, &lanes_);
  }
  OccupancyUpdater::Density ProbedDensity() override {
    return [this](int n, const Vec3* unit, float* sigmas, int /*thread*/) {
      for (int i = 0; i < n; ++i)
        sigmas[i] = kernels::DensityFromOutput(grid_.Exponent(unit[i]), placement_.density_shift);
    };
  }
  bool UpdateParameters(const RayBatch& batch, int t) override;

 private:
  // Takes over the grid; moments restart.
  void SetGrid(VoxelGrid grid);
  // Called where the occupancy grid is updated, so that a change that has to wait is tried again.
  void ChangeGridIfDue(double fraction);
  int ChangesDue(double fraction) const;
  void Scatter(int z_begin, int z_end);

  const VoxelPlacement placement_;
  std::vector<Lane> lanes_;
  VoxelGrid grid_;
  int n_changes_ = 0;                  // divisions and prunings so far
  uint32_t updates_since_change_ = 0;  // of Adam
  Buffer<float> gradients_;            // as values of the grid; zeros between steps
  Buffer<uint32_t> moments_;           // pairs in bf16
  Buffer<uint8_t> touched_;            // cache lines with gradients
  std::vector<size_t> slab_bricks_;    // where each slab's bricks begin, and the end
};

void VoxelsStep::SetGrid(VoxelGrid grid) {
  grid_ = std::move(grid);
  const size_t n = grid_.values().size();
  gradients_ = Buffer<float>(n);
  moments_ = Buffer<uint32_t>(n);
  touched_ = Buffer<uint8_t>(n / kLine);
  updates_since_change_ = 0;
  slab_bricks_.clear();
  const auto side = static_cast<size_t>(grid_.bricks_per_side());
  for (size_t z = 0; z < side; z += kSlabBricks) {
    slab_bricks_.push_back(std::lower_bound(grid_.places().begin(), grid_.places().end(),
                                            static_cast<uint32_t>(z * side * side)) -
                           grid_.places().begin());
  }
  slab_bricks_.push_back(grid_.n_bricks());
}

// Divisions of the voxels and the last pruning that are due when `fraction` is spent.
int VoxelsStep::ChangesDue(double fraction) const {
  const VoxelsSettings& voxels = Voxels(config());
  int n_divisions = 0;
  for (int r = voxels.first_resolution; r < voxels.finest_resolution; r *= 2) ++n_divisions;
  int due = 0;
  for (int i = 1; i <= n_divisions; ++i)
    due += fraction >= voxels.subdivide_share * i / n_divisions && fraction > 0;
  if (due == n_divisions && fraction >= std::max<double>(kLastPruning, voxels.subdivide_share))
    ++due;
  return due;
}

void VoxelsStep::ChangeGridIfDue(double fraction) {
  const int finest = Voxels(config()).finest_resolution;
  for (const int due = ChangesDue(fraction); n_changes_ < due; ++n_changes_) {
    const int resolution = std::min(2 * grid_.resolution(), std::max(finest, grid_.resolution()));
    const std::vector<bool> mask = OccupiedBricks(occupancy().grid(), resolution);
    // While space is not yet seen to be empty, finer voxels would not fit the memory: later.
    const auto n_bricks = static_cast<uint64_t>(std::count(mask.begin(), mask.end(), true));
    if (n_bricks > VoxelsMostBricks(config())) return;
    SetGrid(Resampled(grid_, resolution, mask));
  }
}

StepResult VoxelsStep::RunRays(const RayBatch& batch) {
  if (occupancy().IsDue(batch.step)) ChangeGridIfDue(batch.fraction);
  for (Lane& lane : lanes_) {
    lane.samples.clear();
    lane.harmonics.clear();
  }
  return FieldStep::RunRays(batch);
}

// Adds the samples' gradients to the voxels with z in [z_begin, z_end), in the order of lanes.
void VoxelsStep::Scatter(int z_begin, int z_end) {
  for (const Lane& lane : lanes_) {
    for (const SampleGradient& sample : lane.samples) {
      const VoxelGrid::Corners corners = grid_.CornersOf(sample.unit);
      if (corners.high[2] < z_begin || corners.low[2] >= z_end) continue;
      float row[kVoxelStride] = {};
      row[0] = sample.exponent;
      const float* const harmonics =
          lane.harmonics.data() + static_cast<size_t>(sample.harmonics) * kVoxelHarmonics;
      for (int channel = 0; channel < 3; ++channel) {
        for (int h = 0; h < kVoxelHarmonics; ++h)
          row[1 + channel * kVoxelHarmonics + h] = sample.color[channel] * harmonics[h];
      }
      for (int i = 0; i < 8; ++i) {
        const int z = corners.Along(i, 2);
        if (z < z_begin || z >= z_end) continue;
        const ptrdiff_t offset = grid_.OffsetOf(corners.Along(i, 0), corners.Along(i, 1), z);
        if (offset < 0) continue;
        const float weight = corners.Weight(i);
        AddVoxelGradient(row, weight, gradients_.data() + offset);
        touched_[offset / kLine] = touched_[offset / kLine + 1] = 1;
      }
    }
  }
}

bool VoxelsStep::UpdateParameters(const RayBatch& batch, int /*t*/) {
  const TrainConfig& c = config();
  const kernels::AdamSettings adam = AdamAt(batch.learning_rate, c.beta1, c.beta2, c.epsilon,
                                            static_cast<int>(++updates_since_change_));
  const VariationWeights weights{Voxels(c).tv_density, Voxels(c).tv_color};
  const bool has_variation = weights.density > 0 || weights.color > 0;
  const auto n_slabs = static_cast<int64_t>(slab_bricks_.size()) - 1;
  // The variation is that of the values before the step, of which no task may see another's update.
  if (has_variation) {
    pool()->ParallelFor(n_slabs, [&](int64_t slab, int) {
      for (size_t b = slab_bricks_[slab]; b < slab_bricks_[slab + 1]; ++b) {
        if (b % kVariationPeriod != batch.step % kVariationPeriod) continue;
        AddVariationGradient(grid_, b, b + 1, weights, c.loss_scale, gradients_.data());
        std::fill_n(touched_.data() + b * (kBrickFloats / kLine), kBrickFloats / kLine, 1);
      }
    });
  }
  pool()->ParallelFor(n_slabs, [&](int64_t slab, int) {
    const int slab_voxels = 4 * kSlabBricks;
    const int z = static_cast<int>(slab) * slab_voxels;
    Scatter(z, z + slab_voxels);
    const size_t first = slab_bricks_[slab] * kBrickFloats;
    const size_t n = slab_bricks_[slab + 1] * kBrickFloats - first;
    if (n == 0) return;
    kernels::cpu::AdamSparse({.settings = adam,
                              .n_lines = static_cast<int64_t>(n / kLine),
                              .touched = touched_.data() + first / kLine,
                              .parameters = grid_.values().data() + first,
                              .moment_pairs = moments_.data() + first,
                              .gradients = gradients_.data() + first});
  });
  // A voxel that is not finite shows in the loss of the rays that meet it.
  return true;
}

void VoxelsStep::Save(TensorFile* file) const {
  StoreVoxels(config(), grid_, DType::kF32, file);
  Buffer<float> first(moments_.size()), second(moments_.size());
  std::transform(moments_.begin(), moments_.end(), first.begin(), Bf16Low);
  std::transform(moments_.begin(), moments_.end(), second.begin(), Bf16High);
  StoreVoxelValues(grid_, first, kFirstMoments, DType::kF32, file);
  StoreVoxelValues(grid_, second, kSecondMoments, DType::kF32, file);
  file->metadata[kChangesName] = MetadataText(n_changes_, updates_since_change_);
  SaveCommon(file);
}

absl::Status VoxelsStep::Load(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(VoxelGrid grid, LoadVoxels(config(), file));
  NERF_ASSIGN_OR_RETURN(const Buffer<float> first, LoadVoxelValues(grid, file, kFirstMoments));
  NERF_ASSIGN_OR_RETURN(const Buffer<float> second, LoadVoxelValues(grid, file, kSecondMoments));
  MetadataReader reader(file);
  double n_changes = 0, n_updates = 0;
  reader.Numbers<double>(kChangesName, 0, UINT32_MAX, {&n_changes, &n_updates});
  NERF_RETURN_IF_ERROR(reader.status);
  NERF_RETURN_IF_ERROR(LoadCommon(file));
  SetGrid(std::move(grid));
  std::transform(first.begin(), first.end(), second.begin(), moments_.begin(), Bf16Pair);
  n_changes_ = static_cast<int>(n_changes);
  updates_since_change_ = static_cast<uint32_t>(n_updates);
  return absl::OkStatus();
}

absl::Status VoxelsStep::Initialize(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(VoxelGrid grid, LoadVoxels(config(), file));
  InitializeCommon(file);
  // It has been divided as often as its resolution says.
  n_changes_ = 0;
  for (int r = Voxels(config()).first_resolution; r < grid.resolution(); r *= 2) ++n_changes_;
  SetGrid(std::move(grid));
  return absl::OkStatus();
}

std::unique_ptr<TrainedModel> VoxelsStep::Snapshot() const {
  return NewModel(placement_, Copy(grid_), geometry(), occupancy().grid());
}

}  // namespace

std::unique_ptr<RayStep> NewVoxelsStep(const TrainConfig& config, const SceneGeometry& geometry,
                                       std::span<const View> views, ThreadPool* pool) {
  return std::make_unique<VoxelsStep>(config, geometry, views, pool);
}

absl::StatusOr<std::unique_ptr<TrainedModel>> LoadVoxelsModel(const TensorFile& file,
                                                              const TrainConfig& config,
                                                              const SceneGeometry& geometry) {
  NERF_ASSIGN_OR_RETURN(VoxelGrid grid, LoadVoxels(config, file));
  NERF_ASSIGN_OR_RETURN(OccupancyGrid occupancy,
                        LoadModelGrid(file, geometry, config.grid_resolution));
  return NewModel(PlacementOf(config, geometry), std::move(grid), geometry, std::move(occupancy));
}

}  // namespace nerf
