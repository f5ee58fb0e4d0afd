#pragma once

#include <array>
#include <vector>

#include "engine/methods/splats/splat_cloud.h"
#include "engine/scene/camera.h"

namespace nerf::reference {

// What splats show at a pixel, written from the formulas of Kerbl et al. 2023 and, for `widths`, Yu
// et al. 2024: every splat at every pixel, in order of depth.
struct SplatPixel {
  std::array<double, 3> color;  // on black
  double transmittance;
};

// The picture of a cloud whose numbers are `numbers`, rows of cloud.row_size(). Rows top to bottom.
std::vector<SplatPixel> DrawSplats(const SplatCloud& cloud, const std::vector<double>& numbers,
                                   const Camera& camera);

}  // namespace nerf::reference
