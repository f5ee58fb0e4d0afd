#pragma once

#include <array>
#include <vector>

#include "engine/base/vec3.h"
#include "engine/methods/mlp/network.h"

namespace nerf::reference {

// The network of method mlp in double precision, written down plainly. Borrows everything.
// Source: Mildenhall et al. 2020, figure 7.
class MlpField {
 public:
  struct Sample {
    double sigma = 0;
    double color[3] = {};
  };
  // parameters: laid out by `layout`.
  MlpField(const MlpLayout& layout, const MlpPlacement& placement,
           const std::vector<double>& parameters)
      : layout_(layout), placement_(placement), parameters_(parameters) {}

  // Density in 1 / training unit and sRGB color of a point seen along a direction of unit length.
  Sample At(Vec3 position, Vec3 direction) const;

 private:
  std::vector<double> Layer(const MlpLayer& layer, const std::vector<double>& inputs,
                            bool relu) const;

  const MlpLayout& layout_;
  const MlpPlacement placement_;
  const std::vector<double>& parameters_;
};

}  // namespace nerf::reference
