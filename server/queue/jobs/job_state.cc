#include "server/queue/jobs/job_state.h"

#include <fmt/format.h>

namespace nerf {

bool IsLegalTransition(JobState from, JobState to) {
  using enum JobState;
  if (to == kFailed) return !IsFinal(from);
  switch (from) {
    case kQueued:
      return to == kPreparing || to == kRunning || to == kPaused || to == kCancelled;
    case kPreparing:
      return to == kRunning || to == kQueued || to == kPausing || to == kCancelling;
    case kRunning:
      return to == kSucceeded || to == kQueued || to == kPausing || to == kCancelling;
    case kPausing:
      return to == kPaused || to == kPreparing || to == kCancelling;
    case kPaused:
      return to == kQueued || to == kCancelled;
    case kCancelling:
      return to == kCancelled;
    case kSucceeded:
    case kFailed:
    case kCancelled:
      return false;
  }
  return false;
}

bool IsFinal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool HoldsLease(JobState state) {
  return state == JobState::kPreparing || state == JobState::kRunning ||
         state == JobState::kPausing || state == JobState::kCancelling;
}

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kPreparing:
      return "PREPARING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kPausing:
      return "PAUSING";
    case JobState::kPaused:
      return "PAUSED";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

absl::StatusOr<JobState> ParseJobState(std::string_view name) {
  for (JobState state : kAllJobStates) {
    if (JobStateName(state) == name) return state;
  }
  return absl::InvalidArgumentError(fmt::format("no job state is called {}", name));
}

std::string_view QueueReasonName(QueueReason reason) {
  switch (reason) {
    case QueueReason::kNone:
      return "";
    case QueueReason::kWorkerLost:
      return "WORKER_LOST";
    case QueueReason::kWorkerDrained:
      return "WORKER_DRAINED";
    case QueueReason::kPreempted:
      return "PREEMPTED";
    case QueueReason::kEngineCrashed:
      return "ENGINE_CRASHED";
    case QueueReason::kNoRoom:
      return "NO_ROOM";
    case QueueReason::kCheckpointCorrupt:
      return "CHECKPOINT_CORRUPT";
    case QueueReason::kQuota:
      return "QUOTA";
    case QueueReason::kBlobsMissing:
      return "BLOBS_MISSING";
  }
  return "";
}

absl::StatusOr<QueueReason> ParseQueueReason(std::string_view name) {
  for (QueueReason reason :
       {QueueReason::kNone, QueueReason::kWorkerLost, QueueReason::kWorkerDrained,
        QueueReason::kPreempted, QueueReason::kEngineCrashed, QueueReason::kNoRoom,
        QueueReason::kCheckpointCorrupt, QueueReason::kQuota, QueueReason::kBlobsMissing}) {
    if (QueueReasonName(reason) == name) return reason;
  }
  return absl::InvalidArgumentError(fmt::format("no queue reason is called {}", name));
}

}  // namespace nerf
