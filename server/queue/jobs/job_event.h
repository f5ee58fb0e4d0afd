#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/queue/jobs/job.h"

namespace nerf {

enum class JobEventKind {
  kStateChanged,
  kProgress,
  kCheckpointCommitted,
  kUpdated  // display_name, priority or labels
};

// "STATE_CHANGED", "PROGRESS", "CHECKPOINT_COMMITTED", "UPDATED".
std::string_view JobEventKindName(JobEventKind kind);
absl::StatusOr<JobEventKind> ParseJobEventKind(std::string_view name);

// One stored event of a job, with the changing parts of the job right after it.
struct JobEvent {
  uint64_t sequence = 0;  // 1, 2, 3... within the job, without gaps
  JobEventKind kind = JobEventKind::kStateChanged;
  absl::Time time;
  JobState state = JobState::kQueued;
  QueueReason queue_reason = QueueReason::kNone;
  uint32_t attempt = 0;
  std::string worker;
  internal::JobProgress progress;
  uint32_t checkpoint_step = 0;  // with kCheckpointCommitted
};

}  // namespace nerf
