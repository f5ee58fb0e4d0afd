#pragma once

#include "engine/scene/view_list.h"

namespace nerf {

// If the views are keyframes, puts the views of the smooth path through them in their place:
// n_frames, or if that is 0 as many as the path lasts at `fps` (5 seconds if it does not say). All
// have the first keyframe's lens.
void ExpandKeyframes(int n_frames, double fps, ViewList* list);

}  // namespace nerf
