#include "server/queue/job_kind.h"

#include <fmt/format.h>

#include "server/queue/job.h"

namespace nerf {

std::string_view JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kTraining:
      return "TRAINING";
  }
  return "";
}

absl::StatusOr<JobKind> ParseJobKind(std::string_view name) {
  if (name.empty() || name == JobKindName(JobKind::kTraining)) return JobKind::kTraining;
  return absl::InvalidArgumentError(fmt::format("no kind of job is called {}", name));
}

uint32_t PartsOf(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return 1;
  }
  return 1;
}

std::string_view CapabilityOf(const Job& job) {
  switch (job.kind) {
    case JobKind::kTraining:
      return job.training.config.method;
  }
  return "";
}

std::vector<BlobRef> BlobsOf(const Job& job) {
  std::vector<BlobRef> blobs;
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    blobs.push_back(checkpoint.checkpoint_blob);
    blobs.push_back(checkpoint.model_blob);
  }
  if (job.progress.preview_image.has_value()) blobs.push_back(*job.progress.preview_image);
  for (const PreviewRecord& preview : job.previews) blobs.push_back(preview.image);
  const auto& init = job.training.init;
  if (init.has_value() && !IsFinal(job.state)) blobs.push_back(init->blob);
  return blobs;
}

}  // namespace nerf
