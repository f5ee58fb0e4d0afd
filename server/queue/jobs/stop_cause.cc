#include "server/queue/jobs/stop_cause.h"

#include <fmt/format.h>

#include <string>

#include "common/error_reason.h"

namespace nerf {
namespace {

absl::Status Fail(JobChange& change, std::string_view reason, std::string_view message,
                  absl::Time deadline) {
  const std::string time = absl::FormatTime(deadline, absl::UTCTimeZone());
  change.job.error = {absl::StatusCode::kDeadlineExceeded,
                      std::string(reason),
                      fmt::format("{} {}", message, time),
                      {{"deadline", time}},
                      {}};
  return change.Move(JobState::kFailed);
}

}  // namespace

QueueReason ReasonOf(StopCause stop, QueueReason reason) {
  // It was lost, or had no room, before it stopped as asked.
  if (reason != QueueReason::kWorkerDrained) return reason;
  switch (stop) {
    case StopCause::kPreempted:
      return QueueReason::kPreempted;
    case StopCause::kQuota:
      return QueueReason::kQuota;
    case StopCause::kResumed:
      return QueueReason::kNone;
    case StopCause::kNone:
    case StopCause::kDrained:
    case StopCause::kDeadline:
      return reason;
  }
  return reason;
}

std::string_view ResultOf(StopCause stop) {
  switch (stop) {
    case StopCause::kPreempted:
    case StopCause::kQuota:
      return "preempted";
    case StopCause::kDeadline:
      return "failed";
    case StopCause::kNone:
    case StopCause::kDrained:
    case StopCause::kResumed:
      return "drained";
  }
  return "drained";
}

absl::Status FailAtStartDeadline(JobChange& change) {
  return Fail(change, reason::kStartDeadlineExceeded, "no worker was free for it by",
              change.job.start_by);
}

absl::Status FailAtEndDeadline(JobChange& change) {
  return Fail(change, reason::kEndDeadlineExceeded, "it had not ended by", change.job.end_by);
}

}  // namespace nerf
