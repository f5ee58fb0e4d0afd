#include "engine/methods/ngp_tiles/joint_tiles.h"

#include <utility>

#include "common/status_macros.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/ngp_tiles/tiled_model.h"

namespace nerf {

JointTiles::JointTiles(const TrainConfig& config, const SceneGeometry& geometry, TileCuts cuts)
    : config_(config),
      geometry_(geometry),
      network_(NgpNetworkOf(config, geometry)),
      cuts_(std::move(cuts)) {
  for (int tile = 0; tile < cuts_.n_tiles(); ++tile) {
    tiles_.push_back(std::make_unique<NgpParameters>(config, network_.shape));
    tiles_.back()->InitializeRandomly();
  }
}

NgpNetwork JointTiles::Network(int tile) const { return WithParameters(network_, *tiles_[tile]); }

void JointTiles::Save(TensorFile* file) const {
  StoreCuts(cuts_, file);
  for (int tile = 0; tile < size(); ++tile) {
    TensorFile part;
    tiles_[tile]->Save(&part);
    AddTile(tile, std::move(part), file);
  }
}

void JointTiles::SaveModel(TensorFile* file) const {
  StoreCuts(cuts_, file);
  for (int tile = 0; tile < size(); ++tile) {
    TensorFile part;
    tiles_[tile]->SaveModel(&part);
    AddTile(tile, std::move(part), file);
  }
}

absl::StatusOr<JointTiles> JointTiles::Loaded(const TensorFile& file) const {
  return ReadWith(&NgpParameters::Load, file);
}
absl::StatusOr<JointTiles> JointTiles::Initialized(const TensorFile& file) const {
  return ReadWith(&NgpParameters::Initialize, file);
}

absl::StatusOr<JointTiles> JointTiles::ReadWith(Read read, const TensorFile& file) const {
  NERF_ASSIGN_OR_RETURN(TileCuts cuts, LoadCuts(file, size()));
  JointTiles tiles(config_, geometry_, std::move(cuts));
  for (int tile = 0; tile < size(); ++tile)
    NERF_RETURN_IF_ERROR((tiles.parameters(tile).*read)(TileOf(file, tile)));
  return tiles;
}

std::unique_ptr<TrainedModel> JointTiles::NewModel(const OccupancyGrid& grid) const {
  std::vector<std::unique_ptr<TrainedModel>> models;
  for (const auto& tile : tiles_) {
    models.push_back(NewNgpModel(config_, geometry_,
                                 {tile->EvaluationTable(), tile->EvaluationWeights()}, grid));
  }
  return NewTiledModel(cuts_, config_, geometry_, std::move(models));
}

}  // namespace nerf
