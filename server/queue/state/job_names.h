#pragma once

#include <string_view>

#include "server/queue/resources/request_check.h"
#include "server/queue/state/job_queue.h"

namespace nerf {

// Checks what the requests for all kinds of jobs have: project, id, request id, display name,
// priority and labels. `noun`: of their fields, "pose_job".
void CheckJobNames(const JobSpec& spec, std::string_view noun, RequestCheck& check);

}  // namespace nerf
