#include "engine/methods/ngp_tiles/tiled_model.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp_tiles/tiled_field.h"

namespace nerf {
namespace {

constexpr int kBlockSide = 4;  // cells

bool Overlap(const Aabb& a, const Aabb& b) {
  for (int axis = 0; axis < 3; ++axis) {
    if (a.max[axis] < b.min[axis] || b.max[axis] < a.min[axis]) return false;
  }
  return true;
}

}  // namespace

float TileMargin(const TrainConfig& config, const SceneGeometry& geometry) {
  return Ngp(config).tile_margin * geometry.box.Size().x;
}

OccupancyGrid MergeTileGrids(const TileCuts& cuts, float margin,
                             std::span<const OccupancyGrid* const> grids) {
  OccupancyGrid merged = *grids[0];
  const int side = merged.resolution / kBlockSide;
  std::vector<Aabb> reaches;
  for (const Aabb& box : cuts.boxes()) {
    const Vec3 more{margin, margin, margin};
    reaches.push_back({box.min - more, box.max + more});
  }
  size_t word = 0;
  for (int level = 0; level < merged.n_levels; ++level) {
    const Aabb box = merged.box.Scaled(static_cast<float>(1 << level));
    const Vec3 size = box.Size() * (1.0f / static_cast<float>(side));
    for (int z = 0; z < side; ++z) {
      for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x, ++word) {
          const Vec3 low = box.min + size * Vec3{static_cast<float>(x), static_cast<float>(y),
                                                 static_cast<float>(z)};
          const Aabb block{low, low + size};
          uint64_t occupied = 0;
          for (size_t tile = 0; tile < grids.size(); ++tile) {
            if (Overlap(block, reaches[tile])) occupied |= grids[tile]->occupied_blocks[word];
          }
          merged.occupied_blocks[word] = occupied;
        }
      }
    }
  }
  return merged;
}

TileCuts ShownCuts(const TileCuts& cuts, const TrainConfig& config) {
  return Ngp(config).tile == kAllTiles ? cuts : TileCuts(std::vector<TileCut>());
}

std::unique_ptr<TrainedModel> NewTiledModel(const TileCuts& cuts, const TrainConfig& config,
                                            const SceneGeometry& geometry,
                                            std::vector<std::unique_ptr<TrainedModel>> models) {
  const NgpSettings& settings = Ngp(config);
  // Tiles that were trained together know nothing of what lies beyond their cuts.
  const bool blends =
      settings.tile_blend != 0 && settings.tile_training == TileTraining::kIndependent;
  const float margin = blends ? TileMargin(config, geometry) : 0;
  std::vector<std::unique_ptr<const MarchedModel>> marched;
  std::vector<const OccupancyGrid*> grids;
  uint64_t field_bytes = 0;
  for (std::unique_ptr<TrainedModel>& model : models) {
    field_bytes += model->byte_size();
    const auto* const tile = dynamic_cast<const MarchedModel*>(model.get());
    NERF_CHECK(tile != nullptr);
    model.release();
    marched.emplace_back(tile);
    grids.push_back(&tile->grid());
  }
  OccupancyGrid grid = MergeTileGrids(cuts, margin, grids);
  auto field = std::make_unique<TiledField>(cuts, margin, std::move(marched));
  return std::make_unique<MarchedModel>("ngp-tiles", std::move(field), std::move(grid),
                                        kernels::MarchSteps{geometry.step, geometry.cone},
                                        field_bytes, MarchedModel::Limits{.t_far = geometry.far});
}

}  // namespace nerf
