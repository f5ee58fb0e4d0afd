#pragma once

#include <span>
#include <vector>

#include "engine/base/vec3.h"
#include "engine/scene/camera.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// The part of a view that differs most from its photograph while the rest agrees.
struct ErrorRegion {
  double gain_db = 0;  // PSNR without it over that with it; 0: there is none
  float x = 0, y = 0;  // its middle, as shares of the picture's sides
  float radius = 0;    // of a disk of its area, as a share of the longer side
};

// The connected region of errors well above the view's median that costs most, at most a quarter of
// the picture. RGB of one size.
ErrorRegion FindErrorRegion(const ImageU8& photograph, const ImageU8& rendered);

// A place in the scene where the regions of several views meet.
struct ErrorPlace {
  Vec3 point;
  std::vector<int> views;  // whose region lies there
  int n_showing = 0;       // views that have the place in their picture
};

// Where the regions of most views meet, of those that cost at least min_gain_db. No views where the
// regions of no two do. Requires: as many cameras as regions, CanProject of each.
ErrorPlace MeetingPlace(std::span<const Camera> cameras, std::span<const ErrorRegion> regions,
                        double min_gain_db);

}  // namespace nerf
