#include "engine/methods/splats/splat_cloud.h"

#include <cmath>

namespace nerf {

float OpacityOf(const float* row) { return 1 / (1 + std::exp(-row[SplatCloud::kOpacity])); }
float OpacityNumber(float opacity) { return std::log(opacity / (1 - opacity)); }

WidenedSplat Widened(const float* row, float width) {
  WidenedSplat widened;
  float dimming = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const float scale = std::exp(row[SplatCloud::kLogScale + axis]);
    widened.scale[axis] = std::sqrt(scale * scale + width * width);
    dimming *= scale / widened.scale[axis];
  }
  widened.opacity = dimming * OpacityOf(row);
  return widened;
}

}  // namespace nerf
