#include "server/queue/records/job_message.h"

#include <string>

#include "server/queue/records/basic_messages.h"
#include "server/queue/records/kind_record.h"

namespace nerf {

void FillJob(const Job& job, v1::Job* proto) {
  proto->set_display_name(job.display_name);
  proto->mutable_labels()->insert(job.labels.begin(), job.labels.end());
  proto->set_priority(job.priority);
  if (job.start_by != absl::InfiniteFuture())
    *proto->mutable_start_by_time() = ToProto(job.start_by);
  if (job.end_by != absl::InfiniteFuture()) *proto->mutable_end_by_time() = ToProto(job.end_by);
  proto->set_queue_reason(std::string(QueueReasonName(job.queue_reason)));
  proto->set_queue_message(job.queue_message);
  proto->set_attempt(job.attempt);
  if (job.error.code != absl::StatusCode::kOk) *proto->mutable_error() = ToProto(job.error);
  *proto->mutable_problems() = {job.error.problems.begin(), job.error.problems.end()};
  if (job.create_time != absl::InfinitePast())
    *proto->mutable_create_time() = ToProto(job.create_time);
  if (job.start_time != absl::InfinitePast())
    *proto->mutable_start_time() = ToProto(job.start_time);
  if (job.end_time != absl::InfinitePast()) *proto->mutable_end_time() = ToProto(job.end_time);
  proto->set_last_event_sequence(static_cast<double>(job.last_event_sequence));
}

v1::Job JobMessage(const Job& job, bool whole) {
  v1::Job proto;
  FillJob(job, &proto);
  RecordOf(job.kind).fill(job, whole, &proto);
  proto.set_name(JobName(job.key));
  proto.set_etag(EtagOf(job));
  proto.set_state(ToProto(job.state));
  if (HoldsLease(job.state)) {
    for (const std::string& worker : job.lease.members) proto.add_workers(WorkerName(worker));
  }
  return proto;
}

v1::TrainingConfig EffectiveConfigOf(const TrainingSpec& training) {
  v1::TrainingConfig config = training.config;
  if (training.init.has_value()) *config.mutable_init() = ToProto(*training.init);
  return config;
}

v1::Checkpoint ToProto(const ResourceKey& job, const CheckpointRecord& checkpoint) {
  v1::Checkpoint proto;
  proto.set_name(CheckpointName(job, checkpoint.step));
  proto.set_step(checkpoint.step);
  *proto.mutable_checkpoint_blob() = ToProto(checkpoint.checkpoint_blob);
  *proto.mutable_model_blob() = ToProto(checkpoint.model_blob);
  if (checkpoint.preview_psnr.has_value()) proto.set_psnr(*checkpoint.preview_psnr);
  *proto.mutable_create_time() = ToProto(checkpoint.create_time);
  proto.set_seconds(checkpoint.seconds);
  return proto;
}

}  // namespace nerf
