#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

class Session;

// The job that trained what `request` renders. Its progress is the job's latest, not that of an
// earlier checkpoint. Asks the server, for seconds at most. Errors: NotFound if the server does not
// know it, or no longer; those of the calls.
absl::StatusOr<v1::Job> TrainingOf(Session& session, const v1::RenderImageRequest& request);

}  // namespace nerf
