#include <memory>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/cuda_tiles.h"
#include "engine/methods/ngp_tiles/joint_step.h"
#include "engine/methods/ngp_tiles/merge_tiles.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/ngp_tiles/tiled_model.h"
#include "engine/methods/ngp_tiles/tiled_step.h"
#include "engine/train/method.h"

namespace nerf {

const MethodDescription& DescribeNgpTiles();

namespace {

class NgpTilesMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeNgpTiles(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    const bool is_joint = Ngp(request.config).tile_training == TileTraining::kJoint;
    if (request.cuda_device.has_value())
      return is_joint ? NewJointStepOnDevice(request) : NewTiledStepOnDevice(request);
    if (is_joint)
      return NewJointTileStep(request.config, request.geometry, request.scene, request.pool);
    return NewTiledStep(request.config, request.geometry, request.scene, request.pool);
  }

  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    const int n_tiles = Ngp(config).tiles;
    if (Ngp(config).tile_training == TileTraining::kJoint)
      return LoadJointTiles(file, config, geometry);
    NERF_ASSIGN_OR_RETURN(const TileCuts cuts, LoadCuts(file, n_tiles));
    std::vector<std::unique_ptr<TrainedModel>> models;
    for (int tile = 0; tile < n_tiles; ++tile) {
      if (Ngp(config).tile != kAllTiles && Ngp(config).tile != tile) continue;
      NERF_ASSIGN_OR_RETURN(std::unique_ptr<TrainedModel> model,
                            LoadNgpModel(TileOf(file, tile), config, geometry));
      models.push_back(std::move(model));
    }
    return NewTiledModel(ShownCuts(cuts, config), config, geometry, std::move(models));
  }

  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override {
    return NewNgpCudaRenderDevice(index, TiledViewParts);
  }

  absl::StatusOr<TensorFile> Merge(std::vector<ModelPart> parts) const override {
    return MergeTiles(std::move(parts));
  }
};

}  // namespace

const Method& NgpTilesMethod() {
  static const auto& method = *new NgpTilesMethodImpl();
  return method;
}

}  // namespace nerf
