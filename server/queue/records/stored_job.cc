#include "server/queue/records/stored_job.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/kind_record.h"

namespace nerf {
namespace {

absl::Status ReadQueueReason(std::string_view of, const std::string& name, QueueReason* reason) {
  const absl::StatusOr<QueueReason> known = ParseQueueReason(name);
  if (!known.ok()) return CorruptRecord(of, "queue_reason");
  *reason = *known;
  return absl::OkStatus();
}

}  // namespace

internal::JobRecord ToRecord(const Job& job) {
  internal::JobRecord record;
  FillJob(job, record.mutable_job());
  RecordOf(job.kind).fill(job, /*whole=*/true, record.mutable_job());
  RecordOf(job.kind).store(job, &record);
  record.set_request_id(job.request_id);
  if (job.origin.ByteSizeLong() > 0) *record.mutable_origin() = job.origin;
  record.set_crashes_in_row(job.crashes_in_row);
  record.set_crashed_since_checkpoint(job.crashed_since_checkpoint);
  *record.mutable_crashed_on() = {job.crashed_on.begin(), job.crashed_on.end()};
  record.set_keep_on_cancel(job.keep_on_cancel);
  if (job.end_age != absl::InfinitePast()) *record.mutable_end_age() = ToProto(job.end_age);
  if (job.model.has_blob()) *record.mutable_model() = job.model;
  return record;
}

absl::Status FromRecord(const internal::JobRecord& record, Job* job) {
  const v1::Job& proto = record.job();
  const std::string name = JobName(job->key);
  const std::optional<JobKind> kind = KindOfSpec(proto);
  if (!kind.has_value()) return CorruptRecord(name, "it has no spec");
  job->kind = *kind;
  job->display_name = proto.display_name();
  job->labels = JobLabels(proto.labels().begin(), proto.labels().end());
  job->priority = proto.priority();
  if (proto.has_start_by_time()) job->start_by = ToTime(proto.start_by_time());
  if (proto.has_end_by_time()) job->end_by = ToTime(proto.end_by_time());
  NERF_RETURN_IF_ERROR(ReadQueueReason(name, proto.queue_reason(), &job->queue_reason));
  job->queue_message = proto.queue_message();
  job->attempt = proto.attempt();
  if (proto.has_error()) job->error = ToJobError(proto.error());
  job->error.problems = {proto.problems().begin(), proto.problems().end()};
  if (proto.has_create_time()) job->create_time = ToTime(proto.create_time());
  if (proto.has_start_time()) job->start_time = ToTime(proto.start_time());
  if (proto.has_end_time()) job->end_time = ToTime(proto.end_time());
  job->last_event_sequence = WholeNumber(proto.last_event_sequence());
  job->request_id = record.request_id();
  job->origin = record.origin();
  job->crashes_in_row = record.crashes_in_row();
  job->crashed_since_checkpoint = record.crashed_since_checkpoint();
  job->crashed_on.assign(record.crashed_on().begin(), record.crashed_on().end());
  job->keep_on_cancel = record.keep_on_cancel();
  if (record.has_end_age()) job->end_age = ToTime(record.end_age());
  job->model = record.model();
  return RecordOf(*kind).load(record, job);
}

internal::EventRecord ToRecord(const JobEvent& event) {
  internal::EventRecord record;
  *record.mutable_time() = ToProto(event.time);
  record.set_state(ToProto(event.state));
  record.set_queue_reason(std::string(QueueReasonName(event.queue_reason)));
  record.set_attempt(event.attempt);
  record.set_worker(event.worker);
  *record.mutable_progress() = event.progress;
  record.set_checkpoint_step(event.checkpoint_step);
  return record;
}

absl::Status FromRecord(const internal::EventRecord& record, JobEvent* event) {
  const auto state = std::find_if(kAllJobStates.begin(), kAllJobStates.end(),
                                  [&](JobState each) { return ToProto(each) == record.state(); });
  if (state == kAllJobStates.end()) return CorruptRecord("an event", "state");
  event->state = *state;
  NERF_RETURN_IF_ERROR(ReadQueueReason("an event", record.queue_reason(), &event->queue_reason));
  event->time = ToTime(record.time());
  event->attempt = record.attempt();
  event->worker = record.worker();
  event->progress = record.progress();
  event->checkpoint_step = record.checkpoint_step();
  return absl::OkStatus();
}

}  // namespace nerf
