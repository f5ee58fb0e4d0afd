#pragma once

#include <optional>

#include "absl/status/status.h"
#include "server/queue/jobs/job_change.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// What JobQueue has to know of a new pose job.

// Draws the scene of a job that names none. AlreadyExists if the named one is taken.
absl::Status ReserveScene(QueueState& state, Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// A training may name a pose job that is to make its scene. It wants no worker before the scene is
// there. Then it starts; if the pose job ends otherwise, it fails. Both follow from the stored
// states (JobUpkeep::FollowPoses), so that a restart loses nothing. While it waits, only that pose
// job makes a scene of its scene's id, and that scene is not deleted.

// The pose job that the training names; null if there is none any more.
const Job* PosesOf(const QueueState& state, const Job& training)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Of a new training that names a pose job: sets its scene, and whether it waits. Errors: NotFound
// (the pose job, or the scene that it made); FailedPrecondition STATE_CONFLICT (it made none).
absl::Status AwaitPoses(const QueueState& state, Job& training)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// How a training that waits for a pose job goes on: it waits no more, or has FAILED. nullopt while
// that job goes on.
std::optional<JobChange> AfterPoses(const QueueState& state, const JobEntry& training)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// A training that waits for the pose job, or whose creation is being stored; nullopt without one.
std::optional<ResourceKey> TrainingAwaiting(const QueueState& state, const ResourceKey& pose_job)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
// Lets all trainings that wait for a pose job, which has ended, go on as AfterPoses says. Waits for
// the store. Errors: those of the store.
absl::Status ReleaseTrainings(QueueState& state, const ResourceKey& pose_job)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

}  // namespace nerf
