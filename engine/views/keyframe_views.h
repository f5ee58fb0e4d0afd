#pragma once

#include "absl/status/status.h"
#include "engine/scene/cameras/view_list.h"

namespace nerf {

// If the views are keyframes, puts the views of the smooth path through them in their place:
// n_frames, or if that is 0 as many as the path lasts at `fps` (5 seconds if it does not say). The
// field of view is interpolated, too; the rest of the lens is the first keyframe's.
void ExpandKeyframes(int n_frames, double fps, ViewList* list);

// Whether `n_frames` (--frames; 0: not given) can be had of a list. Cameras that are listed one by
// one are all rendered. Errors: InvalidArgument.
absl::Status CheckFrameCount(int n_frames, const ViewList& list);

}  // namespace nerf
