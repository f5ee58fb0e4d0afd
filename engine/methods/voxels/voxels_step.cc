#include "engine/methods/voxels/voxels_step.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/bfloat16.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/voxels/describe/voxels_settings.h"
#include "engine/methods/voxels/field.h"
#include "engine/methods/voxels/voxel_file.h"
#include "engine/methods/voxels/voxels_state.h"
#include "engine/train/field_step.h"
#include "engine/train/occupancy_file.h"

namespace nerf {
namespace {

constexpr int kLanes = 32;
constexpr size_t kLine = 16;    // floats of a cache line
constexpr int kSlabBricks = 4;  // bricks along z of one task of an update

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

class VoxelsStep final : public FieldStep {
 public:
  VoxelsStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
             ThreadPool* pool)
      : FieldStep(config, geometry, views, pool, {.n_lanes = kLanes, .chunk_samples = 512}),
        placement_(VoxelPlacementOf(config, geometry)),
        lanes_(kLanes),
        state_(UntrainedVoxels(config)) {
    MakeRoom();
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override;
  absl::Status Load(const TensorFile& file) override;
  void SaveModel(TensorFile* file) const override {
    StoreVoxels(config(), state_.grid, DType::kF16, file);
    StoreOccupancyBits(occupancy().grid(), file);
  }
  absl::Status Initialize(const TensorFile& file) override;
  std::unique_ptr<TrainedModel> Snapshot() const override;

 protected:
  std::unique_ptr<ChunkField> NewChunkField() override {
    return std::make_unique<VoxelsChunkField>(&state_.grid, placement_, &lanes_);
  }
  OccupancyUpdater::Density ProbedDensity() override {
    return [this](int n, const Vec3* unit, float* sigmas, int /*thread*/) {
      for (int i = 0; i < n; ++i)
        sigmas[i] =
            kernels::DensityFromOutput(state_.grid.Exponent(unit[i]), placement_.density_shift);
    };
  }
  bool UpdateParameters(const RayBatch& batch, int t) override;

 private:
  // For a new grid, with moments of zero.
  void MakeRoom();
  void Scatter(int z_begin, int z_end);

  const VoxelPlacement placement_;
  std::vector<Lane> lanes_;
  VoxelsState state_;
  Buffer<float> gradients_;          // as values of the grid; zeros between steps
  Buffer<uint32_t> moments_;         // pairs in bf16
  Buffer<uint8_t> touched_;          // cache lines with gradients
  std::vector<size_t> slab_bricks_;  // where each slab's bricks begin, and the end
};

void VoxelsStep::MakeRoom() {
  const size_t n = state_.grid.values().size();
  gradients_ = Buffer<float>(n);
  moments_ = Buffer<uint32_t>(n);
  touched_ = Buffer<uint8_t>(n / kLine);
  slab_bricks_.clear();
  const auto side = static_cast<size_t>(state_.grid.bricks_per_side());
  for (size_t z = 0; z < side; z += kSlabBricks) {
    slab_bricks_.push_back(std::lower_bound(state_.grid.places().begin(),
                                            state_.grid.places().end(),
                                            static_cast<uint32_t>(z * side * side)) -
                           state_.grid.places().begin());
  }
  slab_bricks_.push_back(state_.grid.n_bricks());
}

StepResult VoxelsStep::RunRays(const RayBatch& batch) {
  // Where the occupancy grid is updated, so that a change that has to wait is tried again.
  if (occupancy().IsDue(batch.step) &&
      state_.n_changes < VoxelChangesDue(config(), batch.fraction)) {
    const int n_changes = state_.n_changes;
    ChangeVoxels(config(), batch.fraction, occupancy().grid(), &state_);
    if (state_.n_changes != n_changes) MakeRoom();
  }
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
      const VoxelCorners corners = state_.grid.CornersOf(sample.unit);
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
        const ptrdiff_t offset = state_.grid.OffsetOf(corners.Along(i, 0), corners.Along(i, 1), z);
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
                                            static_cast<int>(++state_.updates_since_change));
  const VariationWeights weights{Voxels(c).tv_density, Voxels(c).tv_color};
  const bool has_variation = weights.density > 0 || weights.color > 0;
  const auto n_slabs = static_cast<int64_t>(slab_bricks_.size()) - 1;
  // The variation is that of the values before the step, of which no task may see another's update.
  if (has_variation) {
    pool()->ParallelFor(n_slabs, [&](int64_t slab, int) {
      for (size_t b = slab_bricks_[slab]; b < slab_bricks_[slab + 1]; ++b) {
        if (b % kVariationPeriod != batch.step % kVariationPeriod) continue;
        AddVariationGradient(state_.grid, b, b + 1, weights, c.loss_scale, gradients_.data());
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
                              .parameters = state_.grid.values().data() + first,
                              .moment_pairs = moments_.data() + first,
                              .gradients = gradients_.data() + first});
  });
  // A voxel that is not finite shows in the loss of the rays that meet it.
  return true;
}

void VoxelsStep::Save(TensorFile* file) const {
  VoxelMoments moments{Buffer<float>(moments_.size()), Buffer<float>(moments_.size())};
  std::transform(moments_.begin(), moments_.end(), moments.first.begin(), Bf16Low);
  std::transform(moments_.begin(), moments_.end(), moments.second.begin(), Bf16High);
  SaveVoxelsState(config(), state_, moments, file);
  SaveCommon(file);
}

absl::Status VoxelsStep::Load(const TensorFile& file) {
  VoxelMoments moments;
  NERF_ASSIGN_OR_RETURN(VoxelsState state, LoadVoxelsState(config(), file, &moments));
  NERF_RETURN_IF_ERROR(LoadCommon(file));
  state_ = std::move(state);
  MakeRoom();
  std::transform(moments.first.begin(), moments.first.end(), moments.second.begin(),
                 moments_.begin(), Bf16Pair);
  return absl::OkStatus();
}

absl::Status VoxelsStep::Initialize(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(VoxelsState state, InitialVoxels(config(), file));
  InitializeCommon(file);
  state_ = std::move(state);
  MakeRoom();
  return absl::OkStatus();
}

std::unique_ptr<TrainedModel> VoxelsStep::Snapshot() const {
  return NewVoxelsModel(placement_, Copy(state_.grid), geometry(), occupancy().grid());
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
                        LoadModelGrid(file, geometry, GridResolution(config)));
  return NewVoxelsModel(VoxelPlacementOf(config, geometry), std::move(grid), geometry,
                        std::move(occupancy));
}

}  // namespace nerf
