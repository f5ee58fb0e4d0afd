#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/lease.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// What a worker commits. InvalidArgument FIELD_INVALID.
struct CommittedPoses {
  LeaseRef lease;
  v1::PoseReport report;
  std::vector<SceneFileRecord> files;
};
absl::StatusOr<CommittedPoses> FromProto(const v1::CommitPosesRequest& request);

}  // namespace nerf
