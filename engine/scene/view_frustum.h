#pragma once

#include "engine/base/encoded_space.h"
#include "engine/scene/scene_reader.h"

namespace nerf {

// Rays of photographs of one side may begin at this share of what is known to be nearest.
inline constexpr float kNearOfNearest = 0.6f;

// Sets description->nearest and farthest by COLMAP's points, where there are 30 that training views
// show: all but one in a hundred lie farther, and all but one nearer.
void FindDepths(SceneDescription* description);

// The frustum that holds all that the training views show, around the mean of their axes, from
// kNearOfNearest of what is nearest on. Empty unless that is known, there are two cameras at least,
// and all look one way: what they show lies within 75 degrees of the mean of their axes.
Frustum FrustumOfViews(const SceneDescription& description);

}  // namespace nerf
