#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/kind_record.h"

namespace nerf {
namespace {

void FillTraining(const Job& job, bool /*whole*/, v1::Job* proto) {
  const TrainingSpec& training = job.training;
  const auto job_name = [&](const std::string& id) { return JobName({job.key.project, id}); };
  v1::TrainingSpec& spec = *proto->mutable_training();
  if (!training.scene.empty()) spec.set_scene(SceneName({job.key.project, training.scene}));
  if (!training.pose_job.empty()) spec.set_pose_job(job_name(training.pose_job));
  *spec.mutable_config() = training.requested_config;
  if (const WorkerCount& workers = training.workers; workers != WorkerCount()) {
    spec.mutable_workers()->set_min(workers.min);
    spec.mutable_workers()->set_max(workers.max);
  }
  if (HasBox(job.crop)) *spec.mutable_crop() = job.crop;

  v1::TrainingStatus& status = *proto->mutable_training_status();
  *status.mutable_effective_config() = EffectiveConfigOf(training);
  status.set_init_reason(training.init_reason);
  if (job.progress.has_training()) *status.mutable_progress() = job.progress.training();
  for (const CheckpointRecord& checkpoint : job.checkpoints)
    *status.add_checkpoints() = ToProto(job.key, checkpoint);
  if (job.final_psnr.has_value()) status.set_final_psnr(*job.final_psnr);
  const std::vector<std::string>& members = job.lease.members;
  if (HoldsLease(job.state) && job.lease.IsGang()) {
    for (uint32_t rank = 0; rank < members.size(); ++rank) {
      v1::Member* const member = status.add_members();
      member->set_rank(rank);
      member->set_worker(WorkerName(members[rank]));
    }
  }
  if (!job.retry_of.empty()) status.set_retry_of(job_name(job.retry_of));
  if (!job.extension_of.empty()) status.set_extension_of(job_name(job.extension_of));
  for (const std::string& part : job.parts) status.add_parts(job_name(part));
  if (!job.part_of.empty()) status.set_part_of(job_name(job.part_of));
}

void StoreTraining(const Job& job, internal::JobRecord* record) {
  internal::TrainingRecord& training = *record->mutable_training();
  if (const auto& init = job.training.init; init.has_value())
    *training.mutable_init_blob() = ToProto(init->blob);
  training.set_awaits_poses(job.awaits_poses);
  training.set_on_cuda(job.training.gang_device == GangDevice::kCuda);
  training.set_extend_capability(job.training.extend_capability);
  training.set_merge_capability(job.merge_capability);
  for (const BlobRef& model : job.part_models) *training.add_part_models() = ToProto(model);
  training.set_part_seconds(job.part_seconds);
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    internal::CheckpointRecord& stored = *training.add_checkpoints();
    for (const TensorRecord& tensor : checkpoint.tensors) *stored.add_tensors() = ToProto(tensor);
    stored.set_promoted(checkpoint.promoted);
  }
  *training.mutable_previews() = {job.previews.begin(), job.previews.end()};
  if (job.best_preview_psnr.has_value()) training.set_best_preview_psnr(*job.best_preview_psnr);
  // The lease has columns.
  record->mutable_job()->mutable_training_status()->clear_members();
}

// The model or checkpoint that effective_config names.
absl::StatusOr<InitReference> LoadInit(const v1::Init& init, const v1::BlobRef& blob) {
  InitReference reference;
  if (init.has_model()) {
    const absl::StatusOr<ResourceKey> model = ParseModelName("init.model", init.model());
    if (!model.ok()) return CorruptRecord(init.model(), "init.model");
    reference.source = *model;
  } else {
    const auto checkpoint = ParseCheckpointName("init.checkpoint", init.checkpoint());
    if (!checkpoint.ok()) return CorruptRecord(init.checkpoint(), "init.checkpoint");
    reference.kind = InitReference::Kind::kCheckpoint;
    reference.source = checkpoint->job;
    reference.step = checkpoint->step.value_or(0);
  }
  reference.scope = init.scope();
  reference.blob = ToBlobRef(blob);
  return reference;
}

absl::Status LoadCheckpoints(const v1::TrainingStatus& status,
                             const internal::TrainingRecord& record, Job* job) {
  if (status.checkpoints_size() != record.checkpoints_size())
    return CorruptRecord(JobName(job->key), "checkpoints");
  for (int i = 0; i < status.checkpoints_size(); ++i) {
    const v1::Checkpoint& proto = status.checkpoints(i);
    CheckpointRecord& checkpoint = job->checkpoints.emplace_back();
    checkpoint.step = proto.step();
    checkpoint.checkpoint_blob = ToBlobRef(proto.checkpoint_blob());
    checkpoint.model_blob = ToBlobRef(proto.model_blob());
    if (proto.has_psnr()) checkpoint.preview_psnr = proto.psnr();
    checkpoint.seconds = proto.seconds();
    checkpoint.create_time = ToTime(proto.create_time());
    for (const v1::TensorSpec& tensor : record.checkpoints(i).tensors())
      checkpoint.tensors.push_back(FromProto(tensor));
    checkpoint.promoted = record.checkpoints(i).promoted();
  }
  return absl::OkStatus();
}

absl::Status LoadTraining(const internal::JobRecord& stored, Job* job) {
  const v1::TrainingSpec& spec = stored.job().training();
  const v1::TrainingStatus& status = stored.job().training_status();
  const internal::TrainingRecord& record = stored.training();
  TrainingSpec& training = job->training;
  NERF_ASSIGN_OR_RETURN(training.scene, IdOf("scene", spec.scene(), ParseSceneName));
  NERF_ASSIGN_OR_RETURN(training.pose_job, IdOf("pose_job", spec.pose_job(), ParseJobName));
  training.requested_config = spec.config();
  if (spec.has_workers()) training.workers = {spec.workers().min(), spec.workers().max()};
  job->crop = spec.crop();
  training.config = status.effective_config();
  if (training.config.has_init()) {
    NERF_ASSIGN_OR_RETURN(training.init, LoadInit(training.config.init(), record.init_blob()));
    training.config.clear_init();
  }
  training.init_reason = status.init_reason();
  training.gang_device = record.on_cuda() ? GangDevice::kCuda : GangDevice::kCpu;
  training.extend_capability = record.extend_capability();
  job->awaits_poses = record.awaits_poses();
  if (status.has_progress()) *job->progress.mutable_training() = status.progress();
  NERF_RETURN_IF_ERROR(LoadCheckpoints(status, record, job));
  job->previews.assign(record.previews().begin(), record.previews().end());
  if (record.has_best_preview_psnr()) job->best_preview_psnr = record.best_preview_psnr();
  if (status.has_final_psnr()) job->final_psnr = status.final_psnr();
  NERF_ASSIGN_OR_RETURN(job->retry_of, IdOf("retry_of", status.retry_of(), ParseJobName));
  NERF_ASSIGN_OR_RETURN(job->extension_of,
                        IdOf("extension_of", status.extension_of(), ParseJobName));
  NERF_ASSIGN_OR_RETURN(job->part_of, IdOf("part_of", status.part_of(), ParseJobName));
  for (const std::string& name : status.parts()) {
    NERF_ASSIGN_OR_RETURN(std::string part, IdOf("parts", name, ParseJobName));
    job->parts.push_back(std::move(part));
  }
  for (const v1::BlobRef& model : record.part_models())
    job->part_models.push_back(ToBlobRef(model));
  job->part_seconds = record.part_seconds();
  job->merge_capability = record.merge_capability();
  return absl::OkStatus();
}

}  // namespace

const KindRecord kTrainingRecord = {v1::Job::kTraining, FillTraining, StoreTraining, LoadTraining};

}  // namespace nerf
