#pragma once

#include "engine/base/encoded_space.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// Rays of photographs of one side may begin at this share of what is known to be nearest.
inline constexpr float kNearOfNearest = 0.6f;

// Sets description->nearest and farthest by COLMAP's points. Of a view that shows 30 at least, one
// in a hundred may lie nearer and one farther; `nearest` is the least of these views, `farthest`
// their median.
void FindDepths(SceneDescription* description);

// The frustum that holds all that the training views show, around the mean of their axes, from
// kNearOfNearest of what is nearest on. Empty unless that is known, there are two cameras at least,
// and all look one way: what they show lies within 75 degrees of the mean of their axes, in front
// of the mean of their positions, and its slope is at most 4.
Frustum FrustumOfViews(const SceneDescription& description);

// Whether all that lies in `inner` lies in `outer`, too. False where one is empty.
bool HoldsFrustum(const Frustum& outer, const Frustum& inner);

}  // namespace nerf
