#pragma once

#include "common/problems.h"
#include "nerf/v1/pose_job.pb.h"

namespace nerf {

// What is wrong with a pose job, by field, the same for server and nerfctl: all but the names of
// resources and the files.
Problems ProblemsOf(const v1::PoseSpec& spec);

}  // namespace nerf
