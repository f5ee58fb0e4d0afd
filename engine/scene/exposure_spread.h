#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/scene/scene.h"

namespace nerf {

// How far pictures are apart in brightness and tint: the ratio of their mean colors, its absolute
// logarithm, median over pairs.
struct ColorSpread {
  double brightness = 0;
  double tint = 0;  // of a channel, beside brightness
};

// `neighbors`: each picture and the two nearest that look the same way, within 20 degrees, which
// show much the same. `any`: two pictures of the capture. A few photographs around an object show
// other sides of it: there neighbors are apart, too, and others farther. Figures of captures:
// docs/use/captures.md.
struct ExposureSpread {
  ColorSpread neighbors, any;
};

// pixels(i): of views[i], whose image may have its size alone. Where pictures have alpha, what is
// transparent or masked counts less. Zero of fewer than four views, and where most have no
// neighbor.
ExposureSpread SpreadOfExposures(
    std::span<const View> views,
    const std::function<std::span<const uint8_t>(size_t view)>& pixels);

// Whether a training should find each picture's exposure. Where it does and they are equal, test
// views lose (docs/use/captures.md).
inline bool ExposuresDiffer(const ExposureSpread& spread) {
  const auto [brightness, tint] = spread.neighbors;
  const auto& any = spread.any;
  return brightness > 0.2 || (brightness > 0.1 && brightness > any.brightness / 2) ||
         (tint > 0.05 && tint > any.tint / 2);
}

}  // namespace nerf
