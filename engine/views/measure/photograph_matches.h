#pragma once

#include <span>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/views/measure/seen_points.h"

namespace nerf {

// How far photographs disagree with their cameras, whatever the model shows: small patches of one
// photograph are found again in photographs beside it, and lie off the lines on which the cameras
// say that they lie (epipolar lines).
struct MatchErrors {
  // Of each photograph: the median distance of its patches from their lines, pixels; NaN below 12.
  std::vector<double> of_view;
  // Of each photograph: brightness of its patches over that of the same ones elsewhere, a median.
  std::vector<double> exposures;
  double error = 0;  // median over all; NaN without
  // The common factor of all focal lengths at which that is least, and what it is there.
  double focal_scale = 1, error_at_scale = 0;
};

// What the views show says where patches are looked for. Requires: CanProject of all cameras.
MatchErrors MatchPhotographs(std::span<const DepthView> views, ThreadPool* pool);

}  // namespace nerf
