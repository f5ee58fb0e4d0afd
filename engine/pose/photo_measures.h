#pragma once

#include <cstdint>
#include <vector>

#include "engine/scene/image.h"

namespace nerf {

// What is asked of a photograph's pixels before COLMAP sees them.

// Gray values of 0 to 255, rows top to bottom.
struct GrayImage {
  int width = 0, height = 0;
  std::vector<float> values;
};

// Luma of the picture, reduced by averages over areas so that no side is longer than `max_side`.
// Smaller pictures keep their size.
GrayImage ReducedGray(const ImageU8& image, int max_side);

// How much of the variation between neighboring pixels is gone after a blur, 0 to 1: a sharp
// picture loses most of it, one that is blurred already loses little. The smaller of both
// directions, since a shake blurs along one of them. Of a picture without variation: 0.
double Sharpness(const GrayImage& gray);

// A print of 16 x 16 cells that says whether two pictures show the same: averages, mean 0, their
// root mean square 1 (all 0 of a uniform picture).
std::vector<float> Fingerprint(const GrayImage& gray);
// Mean absolute difference of two prints. 0: the same picture; 0.02: stored anew.
double FingerprintDistance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace nerf
