#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/flags/photograph_flags.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

class Session;

// Photographs and films of a folder, or one film, on their way to a pose job.
struct PoseUpload {
  std::string source;
  std::string id, scene;  // of the job and of its scene; empty: the server makes one
  std::string display_name;
  std::string request_id;  // UUID4; empty: of its photographs and name, so that the same ones are
                           // not posed twice
  double min_posed = 0;
  uint32_t film_frames = 0;
  std::string into;  // full name of a scene that they are added to; may be empty
  PhotographFlags photographs;
};

// Whether a connected worker finds poses, of films if `source` has some. False where that cannot be
// asked.
bool CanServerPose(Session& session, const std::string& source);

// Uploads what the server does not hold and queues the job, which may be an earlier one of the same
// request. Errors: NotFound and InvalidArgument of the source; those of the server; Cancelled.
absl::StatusOr<v1::Job> CreatePoseJobOf(Session& session, const PoseUpload& upload);

}  // namespace nerf
