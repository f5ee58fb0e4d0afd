#pragma once

#include <google/protobuf/repeated_field.h>

#include "engine/base/local_origin.h"
#include "engine/base/vec3.h"

namespace nerf {

// A pose of a message, camera to world: 16 numbers, row by row, doubles in the data set's frame. A
// Mat34, of floats, is relative to an origin.
using PoseNumbers = google::protobuf::RepeatedField<double>;

// Requires: 16 numbers. Likewise below.
Vec3d PlaceOf(const PoseNumbers& pose);
Mat34 ReadPose(const PoseNumbers& pose, const Vec3d& origin);
// In place of what `to` holds.
void WritePose(const Mat34& pose, const Vec3d& origin, PoseNumbers* to);

}  // namespace nerf
