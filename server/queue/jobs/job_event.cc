#include "server/queue/jobs/job_event.h"

#include <fmt/format.h>

namespace nerf {

std::string_view JobEventKindName(JobEventKind kind) {
  switch (kind) {
    case JobEventKind::kStateChanged:
      return "STATE_CHANGED";
    case JobEventKind::kProgress:
      return "PROGRESS";
    case JobEventKind::kCheckpointCommitted:
      return "CHECKPOINT_COMMITTED";
    case JobEventKind::kUpdated:
      return "UPDATED";
  }
  return "";
}

absl::StatusOr<JobEventKind> ParseJobEventKind(std::string_view name) {
  for (JobEventKind kind : {JobEventKind::kStateChanged, JobEventKind::kProgress,
                            JobEventKind::kCheckpointCommitted, JobEventKind::kUpdated}) {
    if (JobEventKindName(kind) == name) return kind;
  }
  return absl::InvalidArgumentError(fmt::format("no event is called {}", name));
}

}  // namespace nerf
