#pragma once

#include <vector>

#include "absl/status/status.h"
#include "nerf/v1/pose_job.pb.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/resources/blob_ref.h"

namespace nerf {

// InvalidArgument FIELD_INVALID that names every wrong field of a request to find poses. Without
// files only the other ones.
absl::Status CheckPoseSpec(const JobSpec& spec, bool with_files = true);

// Adds the files of a report.
void AddBlobs(const v1::PoseReport& report, std::vector<BlobRef>* blobs);

}  // namespace nerf
