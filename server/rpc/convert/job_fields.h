#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/queue/jobs/job.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/watcher.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_job.h"

namespace nerf {

// What the messages of render, pose and export jobs have in common: `Proto` is one of them.

template <typename Proto>
typename Proto::State ToProtoState(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return Proto::QUEUED;
    case JobState::kPreparing:
      return Proto::PREPARING;
    case JobState::kRunning:
      return Proto::RUNNING;
    case JobState::kCancelling:
      return Proto::CANCELLING;
    case JobState::kSucceeded:
      return Proto::SUCCEEDED;
    case JobState::kFailed:
      return Proto::FAILED;
    case JobState::kCancelled:
      return Proto::CANCELLED;
    case JobState::kPausing:
    case JobState::kPaused:
      break;  // only trainings are paused
  }
  return Proto::STATE_UNSPECIFIED;
}

// name, state, queue_reason, error, times and last_event_sequence.
template <typename Proto>
void SetJobFields(const Job& job, Proto* proto) {
  proto->set_name(JobName(job.key, job.kind));
  proto->set_state(ToProtoState<Proto>(job.state));
  proto->set_queue_reason(std::string(QueueReasonName(job.queue_reason)));
  if (job.state == JobState::kFailed) *proto->mutable_error() = ToProtoError(job.error);
  *proto->mutable_create_time() = ToProto(job.create_time);
  if (job.start_time != absl::InfinitePast()) {
    *proto->mutable_start_time() = ToProto(job.start_time);
  }
  if (job.end_time != absl::InfinitePast()) *proto->mutable_end_time() = ToProto(job.end_time);
  proto->set_last_event_sequence(static_cast<double>(job.last_event_sequence));
}

// The same and, of jobs that one worker does: display_name, labels, priority, queue_message, worker
// and attempt.
template <typename Proto>
void SetOneWorkerFields(const Job& job, Proto* proto) {
  SetJobFields(job, proto);
  proto->set_display_name(job.display_name);
  proto->mutable_labels()->insert(job.labels.begin(), job.labels.end());
  proto->set_priority(job.priority);
  proto->set_queue_message(job.queue_message);
  if (HoldsLease(job.state)) proto->set_worker(WorkerName(job.lease.holder()));
  proto->set_attempt(job.attempt);
}

// A message of a watch without the job.
template <typename Response>
Response ToJobWatch(const WatchEvent& event) {
  Response proto;
  proto.set_kind(event.kind == WatchEventKind::kSnapshot       ? Response::SNAPSHOT
                 : event.kind == WatchEventKind::kStateChanged ? Response::STATE_CHANGED
                                                               : Response::PROGRESS);
  proto.set_resume_token(event.token);
  proto.set_sequence(static_cast<double>(event.sequence));
  proto.set_gap(event.gap);
  return proto;
}

// The beginning of a spec: all of a request to create a job that CheckJobNames (job_spec.h) looks
// at. `id` is the request's id of the new job.
template <typename Request, typename Proto>
JobSpec JobSpecOf(JobKind kind, const Request& request, const std::string& id, const Proto& job,
                  RequestCheck& check) {
  JobSpec spec;
  spec.kind = kind;
  spec.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  spec.id = id;
  spec.request_id = request.request_id();
  spec.display_name = job.display_name();
  spec.priority = job.priority();
  spec.labels = JobLabels(job.labels().begin(), job.labels().end());
  return spec;
}

// The model or checkpoint that a render or export job names in `noun`.source.
template <typename Proto>
void ParseModelSource(std::string_view noun, const Proto& job, ModelSource* source,
                      RequestCheck& check) {
  if (job.has_model()) {
    source->source = TakeOr(ParseModelName(std::string(noun) + ".model", job.model()), check);
  } else if (job.has_checkpoint()) {
    const CheckpointKey key =
        TakeOr(ParseCheckpointName(std::string(noun) + ".checkpoint", job.checkpoint()), check);
    source->from_checkpoint = true;
    source->source = key.job;
    source->step = key.step;
  } else {
    check.Require(false, std::string(noun) + ".source", "must be one of model and checkpoint");
  }
}

}  // namespace nerf
