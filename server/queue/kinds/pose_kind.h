#pragma once

#include "absl/status/status.h"
#include "server/queue/jobs/job_spec.h"

namespace nerf {

// InvalidArgument FIELD_INVALID that names every wrong field of a request to find poses. Without
// files only the other ones.
absl::Status CheckPoseSpec(const JobSpec& spec, bool with_files = true);

}  // namespace nerf
