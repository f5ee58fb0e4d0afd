#include "server/queue/state/pose_jobs.h"

#include <fmt/format.h>

#include "server/queue/jobs/pose_spec.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/resources/scene_manifest.h"

namespace nerf {

absl::Status CheckPoseSpec(const JobSpec& spec, bool with_files) {
  RequestCheck check;
  check.RequireId("parent", spec.project);
  check.RequireId("pose_job_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("pose_job.display_name", spec.display_name);
  check.Add(CheckPriority("pose_job.priority", spec.priority));
  check.Add(CheckLabels("pose_job.labels", spec.labels));
  check.RequireId("pose_job.scene", spec.pose.scene, /*may_be_empty=*/true);
  check.Require(spec.pose.min_posed > 0 && spec.pose.min_posed <= 1, "pose_job.min_posed",
                "must be above 0 and at most 1");
  check.Require(spec.pose.film_frames >= kMinFilmFrames && spec.pose.film_frames <= kMaxFilmFrames,
                "pose_job.film_frames",
                fmt::format("must be {} to {}", kMinFilmFrames, kMaxFilmFrames));
  if (!with_files) return check.Result();
  const bool fits = !spec.pose.files.empty() && spec.pose.files.size() <= kMaxPoseFiles;
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

}  // namespace nerf
