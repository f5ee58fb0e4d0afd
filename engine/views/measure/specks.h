#pragma once

#include <array>
#include <cstdint>

#include "engine/scene/pictures/image.h"

namespace nerf {

// What views show where pictures see nothing ("floaters"): the opacity of pixels whose alpha is 0
// in the picture and that are at least 3 pixels away, in rows and columns, from any other.
class Specks {
 public:
  // Counts a view of a picture. rendered: RGBA as ViewPicture has it, of the picture's size.
  // Pictures without alpha count nothing.
  void Add(const ImageU8& photograph, const ImageU8& rendered);

  int64_t n_pixels() const;
  // Opacities, 0 to 1, in 255 steps; NaN without pixels. share: 0 to 1; 0.999 gives the opacity
  // that at least 99.9% of the pixels do not exceed.
  double Mean() const;
  double Percentile(double share) const;

 private:
  std::array<int64_t, 256> n_of_opacity_{};
};

}  // namespace nerf
