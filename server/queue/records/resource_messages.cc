#include "server/queue/records/resource_messages.h"

#include "common/status_macros.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/records/kind_record.h"

namespace nerf {
namespace {

using Retention = v1::Project::Retention;

void SetAge(absl::Duration age, google::protobuf::Duration* (Retention::*set)(), Retention* proto) {
  if (age != absl::InfiniteDuration()) *(proto->*set)() = ToProto(age);
}

absl::Duration AgeOf(bool is_set, const google::protobuf::Duration& age) {
  return is_set ? ToDuration(age) : absl::InfiniteDuration();
}

}  // namespace

v1::Scene ToProto(const SceneRecord& scene) {
  v1::Scene proto;
  proto.set_name(SceneName(scene.key));
  proto.set_display_name(scene.display_name);
  for (const SceneFileRecord& file : scene.files) *proto.add_files() = ToProto(file);
  proto.set_size_bytes(static_cast<double>(scene.byte_size));
  if (scene.create_time != absl::InfinitePast())
    *proto.mutable_create_time() = ToProto(scene.create_time);
  return proto;
}

v1::Model ToProto(const ModelRecord& model) {
  const ResourceKey job = {model.key.project, model.job};
  v1::Model proto;
  proto.set_name(ModelName(model.key));
  proto.set_display_name(model.display_name);
  proto.set_checkpoint(CheckpointName(job, model.step));
  proto.set_training_job(JobName(job));
  *proto.mutable_blob() = ToProto(model.blob);
  proto.set_step(model.step);
  if (model.preview_psnr.has_value()) proto.set_psnr(*model.preview_psnr);
  if (model.create_time != absl::InfinitePast())
    *proto.mutable_create_time() = ToProto(model.create_time);
  for (const TensorRecord& tensor : model.tensors) *proto.add_tensors() = ToProto(tensor);
  if (HasBox(model.crop)) *proto.mutable_crop() = model.crop;
  return proto;
}

v1::Project ToProto(const ProjectRecord& project) {
  v1::Project proto;
  proto.set_name("projects/" + project.project);
  const ProjectQuota& quota = project.quota;
  proto.mutable_quota()->set_max_queued_jobs(static_cast<double>(quota.max_queued_jobs));
  proto.mutable_quota()->set_max_running_jobs(static_cast<double>(quota.max_running_jobs));
  proto.mutable_quota()->set_max_stored_bytes(static_cast<double>(quota.max_stored_bytes));
  proto.mutable_quota()->set_max_device_seconds_per_day(quota.max_device_seconds_per_day);
  proto.mutable_quota()->set_max_renders(static_cast<double>(quota.max_renders));
  const ProjectRetention& retention = project.retention;
  Retention* kept = proto.mutable_retention();
  SetAge(retention.ended_job_age, &Retention::mutable_ended_job_age, kept);
  kept->set_max_ended_jobs(static_cast<double>(retention.max_ended_jobs));
  SetAge(retention.unused_scene_age, &Retention::mutable_unused_scene_age, kept);
  SetAge(retention.model_age, &Retention::mutable_model_age, kept);
  return proto;
}

internal::SceneRecord ToRecord(const SceneRecord& scene) {
  internal::SceneRecord record;
  *record.mutable_scene() = ToProto(scene);
  record.mutable_scene()->clear_name();
  record.set_request_id(scene.request_id);
  return record;
}

internal::ModelRecord ToRecord(const ModelRecord& model) {
  internal::ModelRecord record;
  *record.mutable_model() = ToProto(model);
  record.mutable_model()->clear_name();
  record.set_request_id(model.request_id);
  record.set_method(model.method);
  if (model.create_age != absl::InfinitePast())
    *record.mutable_create_age() = ToProto(model.create_age);
  return record;
}

internal::ProjectRecord ToRecord(const ProjectRecord& project) {
  internal::ProjectRecord record;
  *record.mutable_project() = ToProto(project);
  record.mutable_project()->clear_name();
  record.set_day(project.day);
  record.set_device_seconds(project.device_seconds);
  return record;
}

absl::Status FromRecord(const internal::SceneRecord& record, SceneRecord* scene) {
  scene->display_name = record.scene().display_name();
  scene->request_id = record.request_id();
  if (record.scene().has_create_time()) scene->create_time = ToTime(record.scene().create_time());
  for (const v1::SceneFile& file : record.scene().files()) {
    scene->files.push_back({file.path(), ToBlobRef(file.blob())});
    scene->byte_size += scene->files.back().blob.byte_size;
  }
  return absl::OkStatus();
}

absl::Status FromRecord(const internal::ModelRecord& record, ModelRecord* model) {
  const v1::Model& proto = record.model();
  model->display_name = proto.display_name();
  model->request_id = record.request_id();
  NERF_ASSIGN_OR_RETURN(model->job, IdOf("training_job", proto.training_job(), ParseJobName));
  if (model->job.empty()) return CorruptRecord(ModelName(model->key), "training_job");
  model->step = proto.step();
  model->method = record.method();
  model->blob = ToBlobRef(proto.blob());
  if (proto.has_psnr()) model->preview_psnr = proto.psnr();
  for (const v1::TensorSpec& tensor : proto.tensors()) model->tensors.push_back(FromProto(tensor));
  model->crop = proto.crop();
  if (proto.has_create_time()) model->create_time = ToTime(proto.create_time());
  if (record.has_create_age()) model->create_age = ToTime(record.create_age());
  return absl::OkStatus();
}

absl::Status FromRecord(const internal::ProjectRecord& record, ProjectRecord* project) {
  const v1::Project::Quota& quota = record.project().quota();
  project->quota = {.max_queued_jobs = WholeNumber(quota.max_queued_jobs()),
                    .max_running_jobs = WholeNumber(quota.max_running_jobs()),
                    .max_stored_bytes = WholeNumber(quota.max_stored_bytes()),
                    .max_device_seconds_per_day = quota.max_device_seconds_per_day(),
                    .max_renders = WholeNumber(quota.max_renders())};
  const Retention& kept = record.project().retention();
  project->retention = {
      .ended_job_age = AgeOf(kept.has_ended_job_age(), kept.ended_job_age()),
      .max_ended_jobs = WholeNumber(kept.max_ended_jobs()),
      .unused_scene_age = AgeOf(kept.has_unused_scene_age(), kept.unused_scene_age()),
      .model_age = AgeOf(kept.has_model_age(), kept.model_age())};
  project->day = record.day();
  project->device_seconds = record.device_seconds();
  return absl::OkStatus();
}

}  // namespace nerf
