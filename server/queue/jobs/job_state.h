#pragma once

#include <array>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

// The state of a job. Legal moves:
//
//   QUEUED --grant--> PREPARING --> RUNNING --> SUCCEEDED
//     ^ ^                |            |
//     | +----------------+------------+      with a QueueReason
//     +-- the holder of an expired lease takes it up again: QUEUED -> RUNNING, same lease epoch
//   PREPARING, RUNNING -> PAUSING -> PAUSED -> QUEUED
//   PAUSING -> PREPARING, resumed: its worker hands it back, and it is queued
//   QUEUED -> PAUSED
//   QUEUED, PAUSED -> CANCELLED
//   PREPARING, RUNNING, PAUSING -> CANCELLING -> CANCELLED
//   any state that is not final -> FAILED
enum class JobState {
  kQueued,
  kPreparing,
  kRunning,
  kPausing,
  kPaused,
  kCancelling,
  kSucceeded,
  kFailed,
  kCancelled
};

inline constexpr std::array kAllJobStates = {
    JobState::kQueued,    JobState::kPreparing, JobState::kRunning,
    JobState::kPausing,   JobState::kPaused,    JobState::kCancelling,
    JobState::kSucceeded, JobState::kFailed,    JobState::kCancelled};

// Why a job that was placed before is queued (again).
enum class QueueReason {
  kNone,
  kWorkerLost,
  kWorkerDrained,
  kPreempted,
  kEngineCrashed,
  kNoRoom,             // the worker had no room on its disk
  kCheckpointCorrupt,  // its last checkpoint was damaged and is dropped
  kQuota,              // its project has used its workers' time of the day
  kBlobsMissing        // a file that it needs is damaged or missing in the blob store
};

// True if the diagram above has this arrow.
bool IsLegalTransition(JobState from, JobState to);

// SUCCEEDED, FAILED and CANCELLED: the job never leaves them.
bool IsFinal(JobState state);

// PREPARING, RUNNING, PAUSING, CANCELLING: a worker holds the job's lease.
bool HoldsLease(JobState state);

// "QUEUED", ...
std::string_view JobStateName(JobState state);
absl::StatusOr<JobState> ParseJobState(std::string_view name);

// "", "WORKER_LOST", "WORKER_DRAINED", "PREEMPTED", "ENGINE_CRASHED", "NO_ROOM",
// "CHECKPOINT_CORRUPT", "QUOTA", "BLOBS_MISSING".
std::string_view QueueReasonName(QueueReason reason);
absl::StatusOr<QueueReason> ParseQueueReason(std::string_view name);

}  // namespace nerf
