#pragma once

#include <vector>

#include "engine/scene/judge/verdict.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/pose.h"

namespace nerf {

// Compares the cameras with each other. `trusted`: views whose poses are known to be right, by what
// their pictures show.

// The same pose for several pictures, and cameras far from all others: by how the others stand, and
// by how far they are from what they look at. poses: of the views, as they will be read. Returns
// which views stand where no camera of the capture can have stood: they are to be left out. Refuses
// a scene that has too many of them.
std::vector<bool> JudgePositions(const ListedViews& listed, const std::vector<Pose>& poses,
                                 const std::vector<bool>& trusted, Verdicts* verdicts);

// One position for all, and cameras that look away from what all others look at.
void JudgeDirections(const ListedViews& listed, const std::vector<bool>& trusted,
                     Verdicts* verdicts);

}  // namespace nerf
