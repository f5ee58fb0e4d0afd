#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/scene/pictures/image.h"

namespace nerf {

// Colors of the turbo map for t in [0, 1], from dark blue to dark red, through nine of its colors.
std::array<uint8_t, 3> TurboColor(float t);

// The depths that most of a set of views lies between, so that one far point does not turn all
// others to one color. Collects a few thousand of each view.
class DepthRange {
 public:
  void Add(const std::vector<float>& depths);
  // Nearest and farthest: the 2nd and 98th of a hundred. {0, 1} where nothing was hit.
  std::array<float, 2> Bounds() const;

 private:
  std::vector<float> depths_;
};

// depth / far * 65535, rounded.
std::vector<uint16_t> DepthToGray(const std::vector<float>& depths, float far);

// Near is red, far is blue, nothing is black. depths: [height * width], 0 for nothing.
ImageU8 DepthInColor(int width, int height, const std::vector<float>& depths,
                     const std::array<float, 2>& bounds);

}  // namespace nerf
