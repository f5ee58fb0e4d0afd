#include "server/queue/state/pose_jobs.h"

#include <fmt/format.h>

#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

// Why a training fails whose pose job makes no scene. `poses`: null if it was deleted.
JobError ErrorOfPoses(const Job* poses, const ResourceKey& key) {
  JobError error;
  error.code = absl::StatusCode::kAborted;
  error.reason = std::string(reason::kPosesMissing);
  error.message = "the job that places its photographs was deleted";
  if (poses != nullptr && poses->state == JobState::kFailed) {
    error = poses->error;
  } else if (poses != nullptr) {
    error.message = poses->state == JobState::kCancelled
                        ? "the job that places its photographs was cancelled"
                        : "the scene of its photographs is gone";
  }
  error.message = fmt::format("{} (pose job {})", error.message, key.id);
  error.metadata["pose_job"] = JobName(key);
  return error;
}

}  // namespace

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
  const JobEntry* const found = state.FindEntry({training.key.project, training.training.pose_job});
  if (found == nullptr || !TraitsOf(found->job).makes_scene) return nullptr;
  return &found->job;
}

absl::Status AwaitPoses(const QueueState& state, Job& training) {
  const ResourceKey key = {training.key.project, training.training.pose_job};
  const Job* const poses = PosesOf(state, training);
  if (poses == nullptr) {
    const JobEntry* const other = state.FindEntry(key);
    return other == nullptr ? ResourceNotFound(JobName(key))
                            : KindCannot(other->job, "makes no scene");
  }
  if (poses->state == JobState::kFailed || poses->state == JobState::kCancelled) {
    return StateConflict(
        fmt::format("{} is {}: it makes no scene", JobName(key), JobStateName(poses->state)),
        {{"state", std::string(JobStateName(poses->state))}});
  }
  training.training.scene = poses->pose.scene;
  training.awaits_poses = poses->state != JobState::kSucceeded;
  const ResourceKey scene = {key.project, poses->pose.scene};
  // A scene that is claimed is being deleted: it exists, so it is not being created.
  const bool is_there =
      state.FindScene(scene) != nullptr && !state.IsClaimed({ClaimKey::Kind::kScene, scene});
  if (!training.awaits_poses && !is_there) return ResourceNotFound(SceneName(scene));
  return absl::OkStatus();
}

std::optional<JobChange> AfterPoses(const QueueState& state, const JobEntry& training) {
  const Job& job = training.job;
  const Job* const poses = PosesOf(state, job);
  if (poses != nullptr && !IsFinal(poses->state)) return std::nullopt;
  JobChange change(training, state.clock.WallNow());
  const ResourceKey scene = {job.key.project, job.training.scene};
  if (poses != nullptr && poses->state == JobState::kSucceeded &&
      state.FindScene(scene) != nullptr) {
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
  for (const ResourceKey& key : state.jobs_awaiting_poses()) {
    if (awaits(state.FindEntry(key)->job)) return key;
  }
  for (const auto& [key, job] : state.jobs_in_creation()) {
    if (awaits(job)) return key;
  }
  return std::nullopt;
}

absl::Status ReleaseTrainings(QueueState& state, const ResourceKey& pose_job) {
  while (const std::optional<ResourceKey> key = TrainingAwaiting(state, pose_job)) {
    state.AwaitUnclaimed({{ClaimKey::Kind::kJob, *key}});
    // The lock was free.
    JobEntry* const found = state.FindEntry(*key);
    if (found == nullptr || !state.jobs_awaiting_poses().contains(*key)) continue;
    std::optional<JobChange> change = AfterPoses(state, *found);
    if (!change.has_value()) {
      return StateConflict(fmt::format("{} waits for {}", JobName(*key), JobName(pose_job)));
    }
    NERF_RETURN_IF_ERROR(state.Apply(*found, *std::move(change)));
  }
  return absl::OkStatus();
}

}  // namespace nerf
