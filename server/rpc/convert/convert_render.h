#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nerf/v1/render_job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/watcher.h"

namespace nerf {

// The job without `wait`. With `whole` its path and its frames too.
v1::RenderJob ToRenderJob(const Job& job, bool whole);
v1::WatchRenderJobResponse ToRenderWatch(const WatchEvent& event);

// Checks all of the request. InvalidArgument FIELD_INVALID.
absl::StatusOr<JobSpec> FromProto(const v1::CreateRenderJobRequest& request);

// Names the wrong parts of a path "`field`.keyframes.frames" and so on.
void CheckCameraPath(std::string_view field, const v1::CameraPath& path, RequestCheck& check);

// The cameras of a path, each of width x height. InvalidArgument FIELD_INVALID; `field` names the
// path. Refuses paths through the scene, which only the engine knows.
absl::StatusOr<std::vector<v1::Camera>> ExpandPath(std::string_view field,
                                                   const v1::CameraPath& path, uint32_t width,
                                                   uint32_t height);

// The order for a part of a render job.
v1::DesiredJob RenderOrder(const LeaseGrant& grant);

// What a worker commits. InvalidArgument FIELD_INVALID.
struct CommittedFrames {
  LeaseRef lease;
  std::vector<std::pair<uint32_t, FrameRecord>> frames;
  std::optional<BlobRef> movie;
};
absl::StatusOr<CommittedFrames> FromProto(const v1::CommitFramesRequest& request);

}  // namespace nerf
