#pragma once

#include "engine/base/crop_box.h"
#include "engine/base/view_style.h"
#include "engine/scene/scene.h"

namespace nerf {

// From the box's own axes and unit, with its center at 0, to the data set's frame, relative to the
// origin.
Mat34 BoxToOwn(const OwnBox& box, const Vec3d& origin);
// From the training frame to the box's own axes and the data set's unit, its center at 0.
Mat34 ToBox(const OwnBox& box, const SceneFrame& frame);
// The box in the training frame.
CropBox ToTrainingFrame(const OwnBox& box, const SceneFrame& frame);

}  // namespace nerf
