#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/trained_model.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp_tiles/tile_cuts.h"
#include "engine/scene/scene.h"

namespace nerf {

// The fields of tiles that are trained jointly, and where they are. Movable.
class JointTiles {
 public:
  // Untrained.
  JointTiles(const TrainConfig& config, const SceneGeometry& geometry, TileCuts cuts);

  int size() const { return static_cast<int>(tiles_.size()); }
  const TileCuts& cuts() const { return cuts_; }
  // Of each tile, without parameters; and with a tile's, as long as these live.
  const NgpNetwork& network() const { return network_; }
  NgpNetwork Network(int tile) const;
  NgpParameters& parameters(int tile) { return *tiles_[tile]; }
  const NgpParameters& parameters(int tile) const { return *tiles_[tile]; }

  // What files have of them: TrainingStep::Save and SaveModel.
  void Save(TensorFile* file) const;
  void SaveModel(TensorFile* file) const;
  // Those of a file, as TrainingStep::Load and Initialize take them. Errors: InvalidArgument naming
  // the tensor.
  absl::StatusOr<JointTiles> Loaded(const TensorFile& file) const;
  absl::StatusOr<JointTiles> Initialized(const TensorFile& file) const;
  std::unique_ptr<TrainedModel> NewModel(const OccupancyGrid& grid) const;

 private:
  using Read = absl::Status (NgpParameters::*)(const TensorFile& file);
  absl::StatusOr<JointTiles> ReadWith(Read read, const TensorFile& file) const;

  TrainConfig config_;
  SceneGeometry geometry_;
  NgpNetwork network_;
  TileCuts cuts_;
  std::vector<std::unique_ptr<NgpParameters>> tiles_;
};

}  // namespace nerf
