#pragma once

#include "engine/scene/pictures/image.h"
#include "engine/scene/posing/photographs/posed_model.h"
#include "engine/scene/posing/pose_progress.h"
#include "engine/scene/posing/pose_report.h"

namespace nerf {

// The scene from above: its points, and the cameras as wedges that open in viewing direction, with
// their numbers in PosedListText where there is room. A square picture; blank if nothing is posed.
ImageU8 PictureFromAbove(const PoseReport& report, const PosedModel& model);

// The same in about a kilobyte: some of the points, and the first 200 cameras.
PoseSketch SketchFromAbove(const PosedModel& model);

}  // namespace nerf
