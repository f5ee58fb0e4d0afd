#include "engine/methods/voxels/voxels_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/half_float.h"
#include "engine/field/files/metadata_reader.h"
#include "engine/field/marched_model.h"
#include "engine/methods/voxels/describe/voxels_settings.h"
#include "engine/methods/voxels/voxel_file.h"

namespace nerf {
namespace {

// Unoccupied bricks are dropped whenever voxels are divided, and once more at this share of the
// budget.
constexpr double kLastPruning = 0.6;
constexpr const char* kFirstMoments = "adam.first.field.voxels";
constexpr const char* kSecondMoments = "adam.second.field.voxels";
constexpr const char* kChangesName = "voxels.changes";

}  // namespace

VoxelPlacement VoxelPlacementOf(const TrainConfig& config, const SceneGeometry& geometry) {
  return {geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))),
          std::log(geometry.box.Size().x / Voxels(config).initial_density)};
}

VoxelsState UntrainedVoxels(const TrainConfig& config) {
  const int resolution = Voxels(config).first_resolution;
  const auto side = static_cast<size_t>(resolution / 4);
  return {VoxelGrid(resolution, std::vector<bool>(side * side * side, true))};
}

int VoxelChangesDue(const TrainConfig& config, double fraction) {
  const VoxelsSettings& voxels = Voxels(config);
  int n_divisions = 0;
  for (int r = voxels.first_resolution; r < voxels.finest_resolution; r *= 2) ++n_divisions;
  int due = 0;
  for (int i = 1; i <= n_divisions; ++i)
    due += fraction >= voxels.subdivide_share * i / n_divisions && fraction > 0;
  if (due == n_divisions && fraction >= std::max<double>(kLastPruning, voxels.subdivide_share))
    ++due;
  return due;
}

void ChangeVoxels(const TrainConfig& config, double fraction, const OccupancyGrid& occupancy,
                  VoxelsState* state) {
  const int finest = Voxels(config).finest_resolution;
  for (const int due = VoxelChangesDue(config, fraction); state->n_changes < due;
       ++state->n_changes) {
    const int held = state->grid.resolution();
    const int resolution = std::min(2 * held, std::max(finest, held));
    const std::vector<bool> mask = OccupiedBricks(occupancy, resolution);
    // While space is not yet seen to be empty, finer voxels would not fit the memory: later.
    const auto n_bricks = static_cast<uint64_t>(std::count(mask.begin(), mask.end(), true));
    if (n_bricks > VoxelsMostBricks(config)) return;
    state->grid = Resampled(state->grid, resolution, mask);
    state->updates_since_change = 0;
  }
}

void SaveVoxelsState(const TrainConfig& config, const VoxelsState& state,
                     const VoxelMoments& moments, TensorFile* file) {
  StoreVoxels(config, state.grid, DType::kF32, file);
  StoreVoxelValues(state.grid, moments.first, kFirstMoments, DType::kF32, file);
  StoreVoxelValues(state.grid, moments.second, kSecondMoments, DType::kF32, file);
  file->metadata[kChangesName] = MetadataText(state.n_changes, state.updates_since_change);
}

absl::StatusOr<VoxelsState> LoadVoxelsState(const TrainConfig& config, const TensorFile& file,
                                            VoxelMoments* moments) {
  VoxelsState state;
  NERF_ASSIGN_OR_RETURN(state.grid, LoadVoxels(config, file));
  NERF_ASSIGN_OR_RETURN(moments->first, LoadVoxelValues(state.grid, file, kFirstMoments));
  NERF_ASSIGN_OR_RETURN(moments->second, LoadVoxelValues(state.grid, file, kSecondMoments));
  MetadataReader reader(file);
  double n_changes = 0, n_updates = 0;
  reader.Numbers<double>(kChangesName, 0, UINT32_MAX, {&n_changes, &n_updates});
  NERF_RETURN_IF_ERROR(reader.status);
  state.n_changes = static_cast<int>(n_changes);
  state.updates_since_change = static_cast<uint32_t>(n_updates);
  return state;
}

absl::StatusOr<VoxelsState> InitialVoxels(const TrainConfig& config, const TensorFile& file) {
  VoxelsState state;
  NERF_ASSIGN_OR_RETURN(state.grid, LoadVoxels(config, file));
  // It has been divided as often as its resolution says.
  for (int r = Voxels(config).first_resolution; r < state.grid.resolution(); r *= 2)
    ++state.n_changes;
  return state;
}

std::unique_ptr<TrainedModel> NewVoxelsModel(const VoxelPlacement& placement, VoxelGrid grid,
                                             const SceneGeometry& geometry,
                                             OccupancyGrid occupancy) {
  for (float& value : grid.values()) value = RoundToHalf(value);
  auto field = std::make_unique<VoxelsField>(placement, std::move(grid));
  const uint64_t field_bytes = field->byte_size();
  return std::make_unique<MarchedModel>("voxels", std::move(field), std::move(occupancy),
                                        kernels::MarchSteps{geometry.step, geometry.cone},
                                        field_bytes);
}

}  // namespace nerf
