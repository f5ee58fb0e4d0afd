#pragma once

#include <vector>

#include "engine/base/scene_reading.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/judge/verdict.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/pictures/masks.h"
#include "engine/scene/scene_description.h"

// The judgement of a scene before it is trained on, which check, training, server and client share.
// Readers report what they cannot read; what is said here can be read and is odd. Each of the files
// judge_*.h compares one thing with another; this one has their order.
namespace nerf {

// Judges the poses of a data set as it lists them, and reads them by the convention. Removes views
// whose poses cannot be right. Returns whether it warned of the convention.
bool JudgePoses(PoseConvention convention, ListedViews* listed, Verdicts* verdicts);

// Refuses a data set with too few pictures to train on.
void JudgeCount(const ListedViews& listed, Verdicts* verdicts);

// Judges a placed scene: masks and depths that are there and unused, boxes out of view.
// has_odd_poses: a warning says already that the poses are read wrongly.
void JudgePlaced(const SceneFolder& folder, const SceneDescription& description, bool has_odd_poses,
                 Verdicts* verdicts);

// Judges what masks and alpha leave of the training pictures, as far as they were decoded.
void JudgeMaskUses(const std::vector<MaskUse>& uses, SceneDescription* description);

}  // namespace nerf
