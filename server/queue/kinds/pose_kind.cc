#include "server/queue/kinds/pose_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/queue/jobs/pose_spec.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/resources/scene_manifest.h"

namespace nerf {
namespace {

class PosePolicy : public KindPolicy {
 public:
  PosePolicy()
      : KindPolicy({.kind = JobKind::kPose,
                    .name = "POSE",
                    .id_prefix = "p",
                    .starts_over = true,
                    .makes_scene = true}) {}

  absl::Status CheckSpec(const JobSpec& spec, bool /*validate_only*/) const override {
    return CheckPoseSpec(spec);
  }

  // Without ids that the queue draws.
  std::string FingerprintOf(const JobSpec& spec) const override {
    Fingerprint fingerprint = FingerprintOfNames("pose", spec);
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

  std::string_view CapabilityOf(const Job& job) const override {
    if (job.pose.n_masks > 0)
      return job.pose.has_films ? kFilmPoseMasksCapability : kPoseMasksCapability;
    if (job.pose.HasOptions())
      return job.pose.has_films ? kFilmPoseOptionsCapability : kPoseOptionsCapability;
    return job.pose.has_films ? kFilmPoseCapability : kPoseCapability;
  }

  std::string WhyNoWorker(const Job& job, const Workers& workers) const override {
    const bool any_poses = std::any_of(workers.begin(), workers.end(), [&](const auto* worker) {
      return worker->Has(kPoseCapability) &&
             (!job.pose.has_films || !worker->ffmpeg_version.empty());
    });
    if (any_poses && (job.pose.HasOptions() || job.pose.n_masks > 0)) {
      return "no connected worker adds photographs to scenes, is told their camera or reads their "
             "masks; older versions do not";
    }
    return job.pose.has_films ? "no connected worker has COLMAP, and ffmpeg for the films"
                              : "no connected worker has COLMAP";
  }

  // LeaseTable::CommitPoses ends a job that has found poses.
  absl::Status TakeResult(const JobOutcome& /*outcome*/, Job& job) const override {
    return StateConflict(fmt::format("no scene of {} was committed", JobName(job.key)));
  }

  const std::string& SceneReadBy(const Job& job) const override { return job.pose.into; }

  void AddBlobs(const Job& job, std::vector<BlobRef>* blobs) const override {
    if (!IsFinal(job.state)) {
      for (const SceneFileRecord& file : job.pose.files) blobs->push_back(file.blob);
    }
    if (job.pose_report.has_value()) nerf::AddBlobs(*job.pose_report, blobs);
  }
};

}  // namespace

void AddBlobs(const v1::PoseReport& report, std::vector<BlobRef>* blobs) {
  if (report.has_json()) blobs->push_back(ToBlobRef(report.json()));
  if (report.has_text()) blobs->push_back(ToBlobRef(report.text()));
  if (report.has_picture()) blobs->push_back(ToBlobRef(report.picture()));
}

absl::Status CheckPoseSpec(const JobSpec& spec, bool with_files) {
  RequestCheck check;
  check.RequireId("job.pose.scene", spec.pose.scene, /*may_be_empty=*/true);
  check.RequireId("job.pose.into", spec.pose.into, /*may_be_empty=*/true);
  if (!with_files) return check.Result();
  const size_t n_masks = spec.pose.n_masks, n_files = spec.pose.files.size() - n_masks;
  const bool fits = n_files > 0 && n_files <= kMaxPoseFiles && n_masks <= kMaxPoseFiles;
  check.Require(fits, "job.pose.files",
                fmt::format("must be 1 to {} photographs and films", kMaxPoseFiles));
  if (fits) check.Add(CheckManifest(spec.pose.files));
  return check.Result();
}

const KindPolicy& KindPolicy::Pose() {
  static const PosePolicy policy;
  return policy;
}

}  // namespace nerf
