#pragma once

#include "engine/scene/pictures/image.h"

namespace nerf {

// The picture at another size: each new pixel is the average over the area that it covers, so that
// fine patterns become their mean and not noise. Colors with alpha are averaged by their opacity:
// what cannot be seen does not tint an edge. Where a side grows, pixels are repeated.
// Requires: width and height of at least 1.
ImageU8 AreaResized(const ImageU8& image, int width, int height);

// The largest size of the same shape with at most `max_side` pixels on the longer side; at least 1
// on the other. 0: as it is. Never larger than it is.
struct ReducedSize {
  int width = 0, height = 0;
};
ReducedSize FitSide(int width, int height, int max_side);
// The same with at most `max_pixels` in all.
ReducedSize FitPixels(int width, int height, double max_pixels);

}  // namespace nerf
