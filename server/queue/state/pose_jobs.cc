#include "server/queue/state/pose_jobs.h"

#include <fmt/format.h>

#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/jobs/pose_spec.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/resources/scene_manifest.h"

namespace nerf {
namespace {

// Why a training fails whose pose job makes no scene. `poses`: null if it was deleted.
JobError ErrorOfPoses(const Job* poses, const ResourceKey& key) {
  JobError error;
  error.code = absl::StatusCode::kAborted;
  error.reason = std::string(reason::kPosesMissing);
  error.message = "was deleted";
  if (poses != nullptr && poses->state == JobState::kFailed) {
    error = poses->error;
  } else if (poses != nullptr) {
    error.message = poses->state == JobState::kCancelled ? "was cancelled" : "its scene is gone";
  }
  error.message = fmt::format("{}: {}", PoseJobName(key), error.message);
  error.metadata["pose_job"] = PoseJobName(key);
  return error;
}

}  // namespace

absl::Status CheckPoseSpec(const JobSpec& spec, bool with_files) {
  RequestCheck check;
  CheckJobNames(spec, "pose_job", check);
  check.RequireId("pose_job.scene", spec.pose.scene, /*may_be_empty=*/true);
  check.Require(spec.pose.min_posed > 0 && spec.pose.min_posed <= 1, "pose_job.min_posed",
                "must be above 0 and at most 1");
  check.Require(spec.pose.film_frames >= kMinFilmFrames && spec.pose.film_frames <= kMaxFilmFrames,
                "pose_job.film_frames",
                fmt::format("must be {} to {}", kMinFilmFrames, kMaxFilmFrames));
  check.RequireId("pose_job.into", spec.pose.into, /*may_be_empty=*/true);
  const bool is_panoramic = spec.pose.camera == PoseCamera::kEquirectangular;
  check.Require(spec.pose.into.empty() || !is_panoramic, "pose_job.camera",
                "must not be EQUIRECTANGULAR: panoramas cannot be added to a scene");
  check.Require(spec.pose.mask_below >= 0 && spec.pose.mask_below <= 90,
                "pose_job.mask_below_degrees", "must be 0 to 90");
  const bool may_mask = spec.pose.into.empty() && spec.pose.camera != PoseCamera::kPerspective;
  check.Require(!(spec.pose.mask_below > 0) || may_mask, "pose_job.mask_below_degrees",
                "is of panoramas alone");
  if (!with_files) return check.Result();
  const size_t n_masks = spec.pose.n_masks, n_files = spec.pose.files.size() - n_masks;
  const bool fits = n_files > 0 && n_files <= kMaxPoseFiles && n_masks <= kMaxPoseFiles;
  check.Require(fits, "pose_job.files",
                fmt::format("must be 1 to {} photographs and films", kMaxPoseFiles));
  if (fits) check.Add(CheckManifest(spec.pose.files));
  return check.Result();
}

std::string FingerprintOfPoses(const JobSpec& spec) {
  Fingerprint fingerprint;
  fingerprint.Add("pose").Add(spec.id).Add(spec.display_name).Add(std::to_string(spec.priority));
  for (const auto& [key, value] : spec.labels) fingerprint.Add("label").Add(key).Add(value);
  fingerprint.Add(spec.pose.scene)
      .Add(fmt::format("{}", spec.pose.min_posed))
      .Add(uint64_t{spec.pose.film_frames});
  if (spec.pose.HasOptions()) {
    fingerprint.Add(spec.pose.into)
        .Add(static_cast<uint64_t>(spec.pose.camera))
        .Add(fmt::format("{}", spec.pose.mask_below));
  }
  for (const SceneFileRecord& file : spec.pose.files) {
    fingerprint.Add(file.path).Add(file.blob.sha256).Add(file.blob.byte_size);
  }
  return fingerprint.Hex();
}

absl::Status ReserveScene(QueueState& state, Job& job) {
  const auto key = [&] { return ResourceKey{job.key.project, job.pose.scene}; };
  if (!job.pose.scene.empty()) {
    return state.IsSceneTaken(key()) ? ResourceExists(SceneName(key())) : absl::OkStatus();
  }
  do {
    job.pose.scene = NewShortId("s", state.random);
  } while (state.IsSceneTaken(key()));
  return absl::OkStatus();
}

const Job* PosesOf(const QueueState& state, const Job& training) {
  const auto found = state.jobs.find({training.key.project, training.training.pose_job});
  const bool is_pose_job = found != state.jobs.end() && found->second.job.kind == JobKind::kPose;
  return is_pose_job ? &found->second.job : nullptr;
}

absl::Status AwaitPoses(const QueueState& state, Job& training) {
  const ResourceKey key = {training.key.project, training.training.pose_job};
  const Job* const poses = PosesOf(state, training);
  if (poses == nullptr) return ResourceNotFound(PoseJobName(key));
  if (poses->state == JobState::kFailed || poses->state == JobState::kCancelled) {
    return StateConflict(
        fmt::format("{} is {}: it makes no scene", PoseJobName(key), JobStateName(poses->state)),
        {{"state", std::string(JobStateName(poses->state))}});
  }
  training.training.scene = poses->pose.scene;
  training.awaits_poses = poses->state != JobState::kSucceeded;
  const ResourceKey scene = {key.project, poses->pose.scene};
  // A scene that is claimed is being deleted: it exists, so it is not being created.
  const bool is_there =
      state.scenes.contains(scene) && !state.IsClaimed({ClaimKey::Kind::kScene, scene});
  if (!training.awaits_poses && !is_there) return ResourceNotFound(SceneName(scene));
  return absl::OkStatus();
}

std::optional<JobChange> AfterPoses(const QueueState& state, const JobEntry& training) {
  const Job& job = training.job;
  const Job* const poses = PosesOf(state, job);
  if (poses != nullptr && !IsFinal(poses->state)) return std::nullopt;
  JobChange change(training, state.clock.WallNow());
  const ResourceKey scene = {job.key.project, job.training.scene};
  if (poses != nullptr && poses->state == JobState::kSucceeded && state.scenes.contains(scene)) {
    change.job.awaits_poses = false;
    change.Record(job.state == JobState::kQueued ? JobEventKind::kStateChanged
                                                 : JobEventKind::kUpdated);
    return change;
  }
  change.job.error = ErrorOfPoses(poses, {job.key.project, job.training.pose_job});
  if (!change.Move(JobState::kFailed).ok()) return std::nullopt;
  return change;
}

std::optional<ResourceKey> TrainingAwaiting(const QueueState& state, const ResourceKey& pose_job) {
  const auto awaits = [&](const Job& job) {
    return job.awaits_poses && job.key.project == pose_job.project &&
           job.training.pose_job == pose_job.id;
  };
  for (const ResourceKey& key : state.jobs_awaiting_poses) {
    if (awaits(state.jobs.at(key).job)) return key;
  }
  for (const auto& [key, job] : state.jobs_in_creation) {
    if (awaits(job)) return key;
  }
  return std::nullopt;
}

absl::Status ReleaseTrainings(QueueState& state, const ResourceKey& pose_job) {
  while (const std::optional<ResourceKey> key = TrainingAwaiting(state, pose_job)) {
    state.AwaitUnclaimed({{ClaimKey::Kind::kJob, *key}});
    // The lock was free.
    const auto found = state.jobs.find(*key);
    if (found == state.jobs.end() || !state.jobs_awaiting_poses.contains(*key)) continue;
    std::optional<JobChange> change = AfterPoses(state, found->second);
    if (!change.has_value()) {
      return StateConflict(fmt::format("{} waits for {}", JobName(*key), PoseJobName(pose_job)));
    }
    NERF_RETURN_IF_ERROR(state.Apply(found->second, *std::move(change)));
  }
  return absl::OkStatus();
}

}  // namespace nerf
