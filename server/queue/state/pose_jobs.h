#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// What JobQueue has to know of a new pose job.

// InvalidArgument FIELD_INVALID that names every wrong field. Without files only the other ones.
absl::Status CheckPoseSpec(const JobSpec& spec, bool with_files = true);
// Of what the client asked for, without ids that the queue draws.
std::string FingerprintOfPoses(const JobSpec& spec);
// Draws the scene of a job that names none. AlreadyExists if the named one is taken.
absl::Status ReserveScene(QueueState& state, Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

}  // namespace nerf
