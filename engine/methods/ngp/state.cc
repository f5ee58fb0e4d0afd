#include "engine/methods/ngp/state.h"

#include <array>
#include <cmath>

#include "common/status_macros.h"
#include "engine/field/marched_model.h"
#include "engine/field/parameters/update_count.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/field.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp/view_parameters/view_appearances.h"
#include "engine/train/occupancy_file.h"

namespace nerf {
namespace {

Aabb OuterBoxOf(const SceneGeometry& geometry) {
  return geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)));
}

// Relative to the box, so that fields start alike whatever their unit of length.
float DensityShiftOf(const TrainConfig& config, const SceneGeometry& geometry) {
  return std::log(geometry.box.Size().x / Ngp(config).initial_density);
}

kernels::HashGridShape EncodingShape(const TrainConfig& config, const SceneGeometry& geometry) {
  return NgpHashGridShape({.log2_hashmap_size = Log2HashmapSize(config),
                           .n_features_per_level = Ngp(config).n_features_per_level,
                           .finest_resolution = FinestResolution(config),
                           .n_doublings = EncodingDoublings(config, geometry.n_levels)});
}

}  // namespace

NgpNetwork NgpNetworkOf(const TrainConfig& config, const SceneGeometry& geometry) {
  return {.shape = EncodingShape(config, geometry),
          .box = OuterBoxOf(geometry),
          .density_shift = DensityShiftOf(config, geometry),
          .contraction = ContractionOf(config),
          .inner_box = geometry.box,
          .frustum = geometry.frustum,
          .learns_background = Ngp(config).learned_background != 0};
}

NgpNetwork WithParameters(NgpNetwork network, const NgpParameters& parameters) {
  network.table = parameters.table();
  network.weights = parameters.weights();
  network.half_table = parameters.half_table();
  network.weight_pairs = parameters.weight_pairs();
  return network;
}

std::unique_ptr<TrainedModel> NewNgpModel(const TrainConfig& config, const SceneGeometry& geometry,
                                          NgpEvaluationParameters parameters, OccupancyGrid grid) {
  const NgpNetwork network = NgpNetworkOf(config, geometry);
  auto field =
      std::make_unique<NgpField>(network, std::move(parameters.table),
                                 std::move(parameters.weights), std::move(parameters.appearance));
  const uint64_t field_bytes = field->byte_size();
  return std::make_unique<MarchedModel>("ngp", std::move(field), std::move(grid),
                                        kernels::MarchSteps{geometry.step, geometry.cone},
                                        field_bytes, MarchedModel::Limits{.t_far = geometry.far});
}

int ActiveLevels(const TrainConfig& config, double fraction) {
  const NgpSettings& settings = Ngp(config);
  const int n_levels = kEncodingWidth / settings.n_features_per_level;
  if (fraction >= settings.coarse_share) return n_levels;
  const int first = std::max(1, n_levels / 4);
  return first + static_cast<int>((n_levels - first) * fraction / settings.coarse_share);
}

OccupancyUpdater::Density ProbedDensity(const NgpNetwork& network) {
  if (network.contraction == Contraction::kNone) {
    return [network](int n, const Vec3* unit, float* sigmas, int /*thread*/) {
      NgpDensities(network, n, unit, sigmas);
    };
  }
  return [network](int n, const Vec3* unit, float* sigmas, int /*thread*/) {
    std::array<Vec3, OccupancyUpdater::kProbeBatch> encoded;
    const Vec3 size = network.box.Size();
    for (int i = 0; i < n; ++i) encoded[i] = network.box.min + unit[i] * size;
    ToEncodedCube(network, n, encoded.data(), encoded.data());
    NgpDensities(network, n, encoded.data(), sigmas);
  };
}

NgpState::NgpState(const TrainConfig& config, const SceneGeometry& geometry)
    : config(config),
      geometry(geometry),
      parameters(config, EncodingShape(config, geometry)),
      occupancy(config, geometry) {
  parameters.InitializeRandomly();
}

Aabb NgpState::OuterBox() const { return OuterBoxOf(geometry); }

NgpNetwork NgpState::Network() const {
  return WithParameters(NgpNetworkOf(config, geometry), parameters);
}

float NgpState::density_shift() const { return DensityShiftOf(config, geometry); }

kernels::MarchSteps NgpState::steps() const { return {geometry.step, geometry.cone}; }

void NgpState::Save(TensorFile* file) const {
  parameters.Save(file);
  StoreOccupancy(occupancy, file);
  SaveUpdateCount(n_updates, file);
}

absl::Status NgpState::Load(const TensorFile& file) {
  NERF_RETURN_IF_ERROR(CheckOccupancy(file, geometry, occupancy));
  NERF_ASSIGN_OR_RETURN(const uint32_t held_updates, LoadUpdateCount(file));
  NERF_RETURN_IF_ERROR(parameters.Load(file));
  NERF_RETURN_IF_ERROR(LoadOccupancy(file, geometry, &occupancy));
  n_updates = held_updates;
  return absl::OkStatus();
}

void NgpState::SaveModel(TensorFile* file) const {
  parameters.SaveModel(file);
  StoreOccupancyBits(occupancy.grid(), file);
}

absl::Status NgpState::Initialize(const TensorFile& file) {
  NERF_RETURN_IF_ERROR(parameters.Initialize(file));
  n_updates = 0;
  InitializeOccupancy(file, geometry, &occupancy);
  return absl::OkStatus();
}

std::unique_ptr<TrainedModel> NgpState::Snapshot() const {
  return NewNgpModel(
      config, geometry,
      {.table = parameters.EvaluationTable(), .weights = parameters.EvaluationWeights()},
      occupancy.grid());
}

absl::StatusOr<std::unique_ptr<TrainedModel>> LoadNgpModel(const TensorFile& file,
                                                           const TrainConfig& config,
                                                           const SceneGeometry& geometry) {
  if (Ngp(config).sampler == Sampler::kProposals)
    return LoadNgpProposalModel(file, config, geometry);
  const kernels::HashGridShape shape = EncodingShape(config, geometry);
  NERF_ASSIGN_OR_RETURN(NgpEvaluationParameters held, ReadNgpEvaluationParameters(file, shape));
  NERF_ASSIGN_OR_RETURN(held.appearance, ReadShownAppearance(file));
  NERF_ASSIGN_OR_RETURN(OccupancyGrid grid, LoadModelGrid(file, geometry, GridResolution(config)));
  return NewNgpModel(config, geometry, std::move(held), std::move(grid));
}

}  // namespace nerf
