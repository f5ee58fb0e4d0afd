#pragma once

#include <string>
#include <vector>

#include "engine/base/scene_reading.h"
#include "engine/scene/judge/verdict.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/pose.h"

// Files hold matrices of several conventions. A wrong one gives cameras that can't be those of a
// capture: they look away from each other.
namespace nerf {

// Camera to world with OpenGL's axes, of matrices of the convention. Of matrices from world to
// camera the axes are those with which more of the cameras look at one place; OpenCV's if they
// can't be told.
std::vector<Pose> PosesReadAs(PoseConvention convention, const std::vector<Pose>& given);

// A warning if the cameras look away from each other, but would look at one place if their
// matrices, which were read as the convention says, were read as another. Empty if they need no
// other, or if no other is better.
std::string PoseConventionWarning(PoseConvention read_as, const std::vector<Pose>& given);

// Reads the views' poses by the convention that the user names, and warns if another is likelier.
// COLMAP's and LLFF's files state theirs. Returns whether it warned.
bool ReadPoses(PoseConvention convention, ListedViews* listed, Verdicts* verdicts);

}  // namespace nerf
