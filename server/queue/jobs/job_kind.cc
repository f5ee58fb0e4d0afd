#include "server/queue/jobs/job_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/queue/jobs/job.h"
#include "server/queue/jobs/render_work.h"

namespace nerf {
namespace {

constexpr std::array kKinds = {JobKind::kTraining, JobKind::kRender, JobKind::kPose,
                               JobKind::kExport};

std::string_view CollectionOf(JobKind kind) {
  switch (kind) {
    case JobKind::kTraining:
      return "trainingJobs";
    case JobKind::kRender:
      return "renderJobs";
    case JobKind::kPose:
      return "poseJobs";
    case JobKind::kExport:
      return "exportJobs";
  }
  return "";
}

}  // namespace

std::string_view JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kTraining:
      return "TRAINING";
    case JobKind::kRender:
      return "RENDER";
    case JobKind::kPose:
      return "POSE";
    case JobKind::kExport:
      return "EXPORT";
  }
  return "";
}

absl::StatusOr<JobKind> ParseJobKind(std::string_view name) {
  if (name.empty()) return JobKind::kTraining;
  for (const JobKind kind : kKinds) {
    if (name == JobKindName(kind)) return kind;
  }
  return absl::InvalidArgumentError(fmt::format("no kind of job is called {}", name));
}

std::string JobName(const ResourceKey& key, JobKind kind) {
  return fmt::format("projects/{}/{}/{}", key.project, CollectionOf(kind), key.id);
}

absl::StatusOr<ResourceKey> ParseJobName(std::string_view field, std::string_view name,
                                         JobKind kind) {
  return ParseResourceName(field, name, CollectionOf(kind));
}

JobKind KindOfJobName(std::string_view name) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(), [&](JobKind kind) {
    return name.find(fmt::format("/{}/", CollectionOf(kind))) != std::string_view::npos;
  });
  return found == kKinds.end() ? JobKind::kTraining : *found;
}

bool StartsOver(JobKind kind) { return kind == JobKind::kPose || kind == JobKind::kExport; }

uint32_t PartsOf(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return std::max(1u, static_cast<uint32_t>(job.lease.members.size()));
    case JobKind::kRender:
      return static_cast<uint32_t>(job.render_work.parts.size());
    case JobKind::kPose:
    case JobKind::kExport:
      return 1;
  }
  return 1;
}

std::string_view CapabilityOf(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      if (WantsMerge(job) || !job.part_of.empty()) return job.merge_capability;
      return job.training.extend_capability.empty() ? job.training.config.method
                                                    : job.training.extend_capability;
    case JobKind::kRender: {
      const std::optional<uint32_t> part = NextPart(job);
      if (!part.has_value() || !IsMoviePart(job, *part)) return job.render.capability;
      return job.render.feature == kStyleFeature ? kStyledMovieCapability : kMovieCapability;
    }
    case JobKind::kPose:
      if (job.pose.n_masks > 0)
        return job.pose.has_films ? kFilmPoseMasksCapability : kPoseMasksCapability;
      if (job.pose.HasOptions())
        return job.pose.has_films ? kFilmPoseOptionsCapability : kPoseOptionsCapability;
      return job.pose.has_films ? kFilmPoseCapability : kPoseCapability;
    case JobKind::kExport:
      return job.exporting.capability;
  }
  return "";
}

bool WantsWorker(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return job.state == JobState::kQueued && !WaitsForJobs(job);
    case JobKind::kRender:
      return NextPart(job).has_value();
    case JobKind::kPose:
    case JobKind::kExport:
      return job.state == JobState::kQueued;
  }
  return false;
}

std::vector<BlobRef> BlobsOf(const Job& job) {
  std::vector<BlobRef> blobs;
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    blobs.push_back(checkpoint.checkpoint_blob);
    blobs.push_back(checkpoint.model_blob);
  }
  if (job.progress.preview_image.has_value()) blobs.push_back(*job.progress.preview_image);
  for (const PreviewRecord& preview : job.previews) blobs.push_back(preview.image);
  if (job.kind == JobKind::kRender) {
    if (!IsFinal(job.state)) blobs.push_back(job.render.model_blob);
    for (const FrameRecord& frame : job.render_work.frames) {
      blobs.insert(blobs.end(), frame.images.begin(), frame.images.end());
    }
    if (job.render_work.movie.has_value()) blobs.push_back(*job.render_work.movie);
  }
  if (!IsFinal(job.state)) {
    for (const SceneFileRecord& file : job.pose.files) blobs.push_back(file.blob);
  }
  if (job.pose_result.has_value()) {
    const PoseResult& found = *job.pose_result;
    for (const auto& blob : {found.json, found.text, found.picture}) {
      if (blob.has_value()) blobs.push_back(*blob);
    }
  }
  if (job.kind == JobKind::kExport && !IsFinal(job.state)) {
    blobs.push_back(job.exporting.model_blob);
  }
  if (job.export_result.has_value()) {
    for (const SceneFileRecord& file : job.export_result->files) blobs.push_back(file.blob);
  }
  if (!IsFinal(job.state))
    blobs.insert(blobs.end(), job.part_models.begin(), job.part_models.end());
  const auto& init = job.training.init;
  if (init.has_value() && !IsFinal(job.state)) blobs.push_back(init->blob);
  return blobs;
}

}  // namespace nerf
