#include "server/queue/kinds/kind_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"
#include "common/error_reason.h"

namespace nerf {

std::span<const KindPolicy* const> KindPolicy::All() {
  static const std::array kinds = {&Training(), &Render(), &Pose(), &Export()};
  return kinds;
}

const KindPolicy& PolicyOf(JobKind kind) { return *KindPolicy::All()[static_cast<size_t>(kind)]; }

bool KindPolicy::WantsWorker(const Job& job) const {
  return job.state == JobState::kQueued && !WaitsForJobs(job);
}

uint32_t KindPolicy::PartsOf(const Job& job) const {
  return std::max(1u, static_cast<uint32_t>(job.lease.members.size()));
}

PartLease KindPolicy::LeaseOf(const Job& job, uint32_t part) const {
  const std::vector<std::string>& members = job.lease.members;
  return {part < members.size() ? std::string_view(members[part]) : "", job.lease.epoch};
}

std::vector<JobInput> KindPolicy::InputsOf(const Job& /*job*/, const SceneRecord* scene) const {
  std::vector<JobInput> inputs;
  if (scene == nullptr) return inputs;
  for (const SceneFileRecord& file : scene->files) inputs.push_back({file.blob, file.path});
  return inputs;
}

absl::StatusOr<JobKind> ParseJobKind(std::string_view name) {
  if (name.empty()) return kDefaultJobKind;
  for (const KindPolicy* policy : KindPolicy::All()) {
    if (name == policy->traits().name) return policy->traits().kind;
  }
  return absl::InvalidArgumentError(fmt::format("no kind of job is called {}", name));
}

std::string JobKindWord(JobKind kind) {
  return absl::AsciiStrToLower(std::string(JobKindName(kind)));
}

absl::Status KindCannot(const Job& job, std::string_view cannot) {
  const std::string kind = JobKindWord(job.kind);
  return WithReason(absl::FailedPreconditionError(
                        fmt::format("{} is {} {} job: it {}", JobName(job.key),
                                    kind.find_first_of("aeiou") == 0 ? "an" : "a", kind, cannot)),
                    reason::kKindCannot, {{"kind", kind}});
}

void CheckDeadline(std::string_view field, const Job& job, absl::Time deadline, absl::Time now,
                   RequestCheck& check) {
  check.Require(TraitsOf(job).has_checkpoints || deadline == absl::InfiniteFuture(), field,
                "is for training jobs alone");
  RequireFuture(field, deadline, now, check);
}

std::vector<BlobRef> BlobsOf(const Job& job) {
  std::vector<BlobRef> blobs;
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    blobs.push_back(checkpoint.checkpoint_blob);
    blobs.push_back(checkpoint.model_blob);
  }
  if (const v1::Progress& progress = job.progress.training(); progress.has_preview_image())
    blobs.push_back(ToBlobRef(progress.preview_image()));
  for (const v1::TrainingPreview& preview : job.previews)
    blobs.push_back(ToBlobRef(preview.image()));
  PolicyOf(job).AddBlobs(job, &blobs);
  return blobs;
}

}  // namespace nerf
