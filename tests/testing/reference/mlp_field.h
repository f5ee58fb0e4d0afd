#pragma once

#include <vector>

#include "engine/base/vec3.h"
#include "engine/methods/mlp/network.h"

namespace nerf::reference {

// The field of methods mlp, t-nerf and d-nerf in double precision, written down plainly. Borrows
// everything. Sources: Mildenhall et al. 2020, figure 7; Pumarola et al. 2021, eq. 3.
class MlpField {
 public:
  // A network and its parameters, laid out by `layout`.
  struct Network {
    const MlpLayout* layout = nullptr;
    const std::vector<double>* parameters = nullptr;
  };
  struct Sample {
    double sigma = 0;
    double color[3] = {};
  };
  // warp: moves points before they reach the field; without a layout there is none.
  MlpField(const Network& field, const MlpPlacement& placement, const Network& warp)
      : field_(field), warp_(warp), placement_(placement) {}
  MlpField(const Network& field, const MlpPlacement& placement)
      : field_(field), placement_(placement) {}

  // Density in 1 / training unit and sRGB color of a point seen along a direction of unit length.
  Sample At(Vec3 position, Vec3 direction, double time = 0) const;

 private:
  const Network field_, warp_;
  const MlpPlacement placement_;
};

}  // namespace nerf::reference
