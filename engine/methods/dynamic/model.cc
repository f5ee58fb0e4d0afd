#include "engine/methods/dynamic/model.h"

#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/layouts/warp_layers.h"
#include "engine/base/philox.h"
#include "engine/field/marched_model.h"
#include "engine/methods/dynamic/field.h"
#include "engine/methods/ngp/state.h"
#include "engine/train/occupancy_file.h"

namespace nerf {

std::vector<ParameterBlock> WarpBlocks() {
  std::vector<ParameterBlock> blocks;
  for (const WarpLayer& layer : kWarpLayers) {
    blocks.push_back({layer.tensor_name,
                      {static_cast<uint32_t>(layer.n_in), static_cast<uint32_t>(layer.n_out)}});
  }
  return blocks;
}

void InitializeWarp(uint64_t seed, DenseParameters* warp) {
  for (int i = 0; i < kWarpLayers[2].offset; ++i) {
    const WarpLayer& layer = kWarpLayers[i < kWarpLayers[1].offset ? 0 : 1];
    const float reach = std::sqrt(6.0f / static_cast<float>(layer.n_in + layer.n_out));
    const uint32_t word =
        RandomWords(seed, RandomUse::kInit, 100, static_cast<uint32_t>(i) / 4)[i % 4];
    warp->values()[i] = (2 * UniformFloat(word) - 1) * reach;
  }
  warp->RestartMoments();
}

std::unique_ptr<TrainedModel> NewDynamicModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              NgpEvaluationParameters ngp,
                                              Buffer<float> warp_weights, TimeRange times,
                                              OccupancyGrid grid) {
  const NgpNetwork network = NgpNetworkOf(config, geometry);
  auto field = std::make_unique<DynamicField>(network.shape, network.box, network.density_shift,
                                              std::move(ngp.table), std::move(ngp.weights),
                                              std::move(warp_weights), times);
  const uint64_t field_bytes = field->byte_size();
  return std::make_unique<MarchedModel>("dynamic", std::move(field), std::move(grid),
                                        kernels::MarchSteps{geometry.step, geometry.cone},
                                        field_bytes);
}

absl::StatusOr<std::unique_ptr<TrainedModel>> LoadDynamicModel(const TensorFile& file,
                                                               const TrainConfig& config,
                                                               const SceneGeometry& geometry) {
  NERF_ASSIGN_OR_RETURN(NgpEvaluationParameters ngp,
                        ReadNgpEvaluationParameters(file, NgpNetworkOf(config, geometry).shape));
  NERF_ASSIGN_OR_RETURN(Buffer<float> warp, ReadEvaluationParameters(file, WarpBlocks()));
  NERF_ASSIGN_OR_RETURN(const TimeRange times, ReadTimeRange(file));
  NERF_ASSIGN_OR_RETURN(OccupancyGrid grid, LoadModelGrid(file, geometry, GridResolution(config)));
  return NewDynamicModel(config, geometry, std::move(ngp), std::move(warp), times, std::move(grid));
}

}  // namespace nerf
