#include <string>

#include "common/status_macros.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/records/kind_record.h"

namespace nerf {
namespace {

void FillPose(const Job& job, bool whole, v1::Job* proto) {
  const PoseSpec& pose = job.pose;
  v1::PoseSpec& spec = *proto->mutable_pose();
  if (whole) {
    for (const SceneFileRecord& file : pose.files) *spec.add_files() = ToProto(file);
  }
  if (!pose.scene.empty()) spec.set_scene(SceneName({job.key.project, pose.scene}));
  spec.set_min_posed(pose.min_posed);
  spec.set_film_frames(pose.film_frames);
  if (!pose.into.empty()) spec.set_into(SceneName({job.key.project, pose.into}));
  spec.set_camera(static_cast<v1::PoseSpec::Camera>(pose.camera));
  spec.set_mask_below_degrees(pose.mask_below);
  v1::PoseStatus& status = *proto->mutable_pose_status();
  status.set_file_count(static_cast<uint32_t>(pose.files.size()) + pose.n_stored_files -
                        pose.n_masks);
  if (job.progress.has_pose()) *status.mutable_progress() = job.progress.pose();
  if (job.pose_report.has_value()) *status.mutable_report() = *job.pose_report;
}

void StorePose(const Job& job, internal::JobRecord* record) {
  record->mutable_pose()->set_mask_count(job.pose.n_masks);
  record->mutable_pose()->set_has_films(job.pose.has_films);
}

absl::Status LoadPose(const internal::JobRecord& stored, Job* job) {
  const v1::PoseSpec& spec = stored.job().pose();
  const v1::PoseStatus& status = stored.job().pose_status();
  PoseSpec& pose = job->pose;
  for (const v1::SceneFile& file : spec.files())
    pose.files.push_back({file.path(), ToBlobRef(file.blob())});
  NERF_ASSIGN_OR_RETURN(pose.scene, IdOf("scene", spec.scene(), ParseSceneName));
  pose.min_posed = spec.min_posed();
  pose.film_frames = spec.film_frames();
  NERF_ASSIGN_OR_RETURN(pose.into, IdOf("into", spec.into(), ParseSceneName));
  if (!v1::PoseSpec::Camera_IsValid(spec.camera()))
    return CorruptRecord(JobName(job->key), "camera");
  pose.camera = static_cast<PoseCamera>(spec.camera());
  pose.mask_below = spec.mask_below_degrees();
  pose.n_masks = stored.pose().mask_count();
  if (pose.n_masks > pose.files.size()) return CorruptRecord(JobName(job->key), "mask_count");
  pose.has_films = stored.pose().has_films();
  if (status.has_progress()) *job->progress.mutable_pose() = status.progress();
  if (status.has_report()) job->pose_report = status.report();
  return absl::OkStatus();
}

}  // namespace

const KindRecord kPoseRecord = {v1::Job::kPose, FillPose, StorePose, LoadPose};

}  // namespace nerf
