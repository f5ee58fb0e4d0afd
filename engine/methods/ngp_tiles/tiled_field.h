#pragma once

#include <memory>
#include <vector>

#include "engine/field/marched_model.h"
#include "engine/field/radiance_field.h"
#include "engine/methods/ngp_tiles/tile_cuts.h"

namespace nerf {

// The fields of all tiles as one. A point has the density of its tile; within `margin` of a cut it
// has the sum of both sides' densities and the mean of their colors, each by its weight
// (TileCuts::Weights). Rays are marched through it as through any field, so they go through the
// tiles in order and end in whichever takes the last of their light.
class TiledField final : public RadianceField {
 public:
  // models: of the tiles, in order. margin 0: nearest tile alone.
  TiledField(TileCuts cuts, float margin, std::vector<std::unique_ptr<const MarchedModel>> models);

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override;
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override;
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override;

  const TileCuts& cuts() const { return cuts_; }
  float margin() const { return margin_; }
  const std::vector<std::unique_ptr<const MarchedModel>>& models() const { return models_; }

 private:
  const TileCuts cuts_;
  const float margin_;
  const std::vector<std::unique_ptr<const MarchedModel>> models_;
};

}  // namespace nerf
