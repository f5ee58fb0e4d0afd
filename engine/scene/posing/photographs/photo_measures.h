#pragma once

#include <cstdint>
#include <vector>

#include "engine/scene/pictures/image.h"

namespace nerf {

// Measures of a photograph's pixels, used before COLMAP runs.

// Gray values of 0 to 255, rows top to bottom.
struct GrayImage {
  int width = 0, height = 0;
  std::vector<float> values;
};

// Luma of the picture, reduced by averages over areas so that no side is longer than `max_side`.
// Smaller pictures keep their size.
GrayImage ReducedGray(const ImageU8& image, int max_side);

// Share of the variation between neighboring pixels that a blur removes, 0 to 1: large for a sharp
// picture, small for one that is already blurred. The smaller value of both directions, since
// camera shake blurs along one. 0 for a uniform picture.
double Sharpness(const GrayImage& gray);

// Averages over 16 x 16 cells, normalized to mean 0 and root mean square 1 (all 0 for a uniform
// picture). Nearly equal for two files of the same picture.
std::vector<float> Fingerprint(const GrayImage& gray);
// Mean absolute difference of two fingerprints. 0: the same picture; 0.02: the same, encoded again.
double FingerprintDistance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace nerf
