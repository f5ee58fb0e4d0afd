#include "server/queue/jobs/job_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/queue/jobs/job.h"
#include "server/queue/jobs/render_work.h"

namespace nerf {

std::string_view JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kTraining:
      return "TRAINING";
    case JobKind::kRender:
      return "RENDER";
  }
  return "";
}

absl::StatusOr<JobKind> ParseJobKind(std::string_view name) {
  if (name.empty() || name == JobKindName(JobKind::kTraining)) return JobKind::kTraining;
  if (name == JobKindName(JobKind::kRender)) return JobKind::kRender;
  return absl::InvalidArgumentError(fmt::format("no kind of job is called {}", name));
}

std::string JobName(const ResourceKey& key, JobKind kind) {
  return kind == JobKind::kRender ? RenderJobName(key) : JobName(key);
}

uint32_t PartsOf(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return std::max(1u, static_cast<uint32_t>(job.lease.members.size()));
    case JobKind::kRender:
      return static_cast<uint32_t>(job.render_work.parts.size());
  }
  return 1;
}

std::string_view CapabilityOf(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return WantsMerge(job) || !job.part_of.empty() ? job.merge_capability
                                                     : job.training.config.method;
    case JobKind::kRender: {
      const std::optional<uint32_t> part = NextPart(job);
      return part.has_value() && IsMoviePart(job, *part) ? kMovieCapability
                                                         : std::string_view(job.render.capability);
    }
  }
  return "";
}

bool WantsWorker(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return job.state == JobState::kQueued && !WaitsForParts(job);
    case JobKind::kRender:
      return NextPart(job).has_value();
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
  if (!IsFinal(job.state))
    blobs.insert(blobs.end(), job.part_models.begin(), job.part_models.end());
  const auto& init = job.training.init;
  if (init.has_value() && !IsFinal(job.state)) blobs.push_back(init->blob);
  return blobs;
}

}  // namespace nerf
