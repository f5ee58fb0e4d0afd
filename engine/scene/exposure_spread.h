#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/scene/scene.h"

namespace nerf {

// How far the exposures of photographs are apart: of each one and the two nearest that look the
// same way, the ratio of their mean colors, its absolute logarithm, median over all. Neighbors show
// much the same: in captures of one exposure brightness is 0.01 to 0.04 and tint at most 0.023
// (fern, fox, drone, lego, mic); with gains of 0.6 to 1.5 and tints, 0.21 to 0.29 and 0.05 to 0.07.
struct ExposureSpread {
  double brightness = 0;
  double tint = 0;  // of a channel, beside brightness
};

// pixels(i): of views[i], whose image may have its size alone. Where pictures have alpha, what is
// transparent or masked counts less. Zero of fewer than four views.
ExposureSpread SpreadOfExposures(
    std::span<const View> views,
    const std::function<std::span<const uint8_t>(size_t view)>& pixels);

// Whether a training should find each picture's exposure. Where it does and they are equal, test
// views lose (docs/use/captures.md).
inline bool ExposuresDiffer(const ExposureSpread& spread) {
  return spread.brightness > 0.1 || spread.tint > 0.05;
}

}  // namespace nerf
