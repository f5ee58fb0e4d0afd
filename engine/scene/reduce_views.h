#pragma once

#include <cstdint>
#include <vector>

#include "engine/scene/pictures/image_resize.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// What was reduced: the sizes of the largest picture before and after; 0 where no picture was.
struct Reduction {
  ReducedSize from, to;
};

// Reduces the cameras of the views, and with them what DecodeViews makes of their pictures, to
// options.max_side and options.max_test_pixels; corrects description->image_bytes.
struct Reductions {
  Reduction train, test;
};
Reductions ReduceViews(const SceneOptions& options, SceneDescription* description);

// Of all their pictures, decoded and reduced.
uint64_t DecodedBytes(const std::vector<ViewDescription>& views);

}  // namespace nerf
