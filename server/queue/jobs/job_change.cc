#include "server/queue/jobs/job_change.h"

#include "common/status_macros.h"

namespace nerf {

JobEvent MakeJobEvent(const Job& job, JobEventKind kind, uint32_t checkpoint_step, absl::Time now) {
  JobEvent event;
  event.sequence = job.last_event_sequence;
  event.kind = kind;
  event.time = now;
  event.state = job.state;
  event.queue_reason = job.queue_reason;
  event.attempt = job.attempt;
  event.worker = std::string(job.lease.holder());
  event.progress = job.progress;
  event.checkpoint_step = checkpoint_step;
  return event;
}

JobChange::JobChange(const JobEntry& entry, absl::Time now)
    : job(entry.job),
      now_(now),
      old_state_(entry.job.state),
      old_epoch_(entry.job.lease.epoch),
      old_live_version_(entry.log.live_version()) {}

absl::Status JobChange::Move(JobState to, QueueReason reason) {
  NERF_RETURN_IF_ERROR(Transition(job, to, now_, reason));
  Record(JobEventKind::kStateChanged);
  return absl::OkStatus();
}

void JobChange::Record(JobEventKind kind, uint32_t checkpoint_step) {
  ++job.last_event_sequence;
  events_.push_back(MakeJobEvent(job, kind, checkpoint_step, now_));
}

}  // namespace nerf
