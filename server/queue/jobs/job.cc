#include "server/queue/jobs/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

bool JobLease::Has(std::string_view worker) const {
  return std::find(members.begin(), members.end(), worker) != members.end();
}

std::string_view JobLease::holder() const {
  return members.empty() ? "" : std::string_view(members.front());
}

absl::Status Transition(Job& job, JobState to, absl::Time now, QueueReason reason) {
  if (!IsLegalTransition(job.state, to)) {
    return absl::InternalError(fmt::format("{} cannot go from {} to {}", JobName(job.key),
                                           JobStateName(job.state), JobStateName(to)));
  }
  job.state = to;
  job.queue_reason = to == JobState::kQueued ? reason : QueueReason::kNone;
  job.queue_message.clear();
  if (to == JobState::kRunning && job.start_time == absl::InfinitePast()) job.start_time = now;
  if (IsFinal(to)) job.end_time = now;
  return absl::OkStatus();
}

void LeaveFilesInStore(Job* job) {
  PoseSpec& pose = job->pose;
  if (!IsFinal(job->state) || pose.files.empty()) return;
  pose.n_stored_files = static_cast<uint32_t>(pose.files.size());
  pose.stored_file_bytes = BytesOf(pose.files);
  std::vector<SceneFileRecord>().swap(pose.files);
}

uint64_t BytesOf(const std::vector<TensorRecord>& tensors) {
  uint64_t bytes = 0;
  for (const TensorRecord& tensor : tensors) {
    bytes += sizeof(tensor) + tensor.name.size() + 4 * tensor.shape.size() + 2 * kHeapBlockBytes;
  }
  return bytes;
}

uint64_t BytesOf(const Job& job) {
  constexpr uint64_t kBlobBytes = sizeof(BlobRef) + 64 + kHeapBlockBytes;
  // A few short strings, and the nodes of the maps that lead to the job.
  constexpr uint64_t kOthers = 1024;
  uint64_t bytes = sizeof(Job) + kOthers + BytesOf(job.pose.files) + job.pose.stored_file_bytes;
  bytes += job.training.config.ByteSizeLong() + job.training.requested_config.ByteSizeLong();
  bytes += job.render.bytes() + job.exporting.bytes() + job.crop.ByteSizeLong();
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    bytes += sizeof(checkpoint) + 2 * kBlobBytes + BytesOf(checkpoint.tensors);
  }
  bytes += job.previews.size() * (sizeof(v1::TrainingPreview) + kBlobBytes);
  bytes += job.part_models.size() * kBlobBytes + job.parts.size() * sizeof(std::string);
  bytes += job.render_work.parts.size() * sizeof(RenderPart);
  for (const FrameRecord& frame : job.render_work.frames) {
    bytes += sizeof(frame) + frame.images.size() * kBlobBytes;
  }
  if (job.export_result.has_value()) bytes += job.export_result->SpaceUsedLong();
  if (job.pose_report.has_value()) bytes += job.pose_report->SpaceUsedLong();
  for (const v1::SceneProblem& problem : job.error.problems) bytes += problem.SpaceUsedLong();
  return bytes;
}

std::string EtagOf(const Job& job) {
  constexpr size_t kLength = 16;  // digits
  Fingerprint fingerprint;
  fingerprint.Add(JobStateName(job.state)).Add(job.display_name);
  fingerprint.Add(std::to_string(job.priority));
  for (const auto& [key, value] : job.labels) fingerprint.Add(key).Add(value);
  for (const absl::Time deadline : {job.start_by, job.end_by}) {
    if (deadline != absl::InfiniteFuture()) fingerprint.Add(absl::FormatTime(deadline));
  }
  if (HasBox(job.crop)) fingerprint.Add("crop").Add(DeterministicBytes(job.crop));
  return fingerprint.Hex().substr(0, kLength);
}

std::vector<CheckpointRecord> RetireCheckpoints(std::vector<CheckpointRecord>& checkpoints,
                                                size_t n_kept) {
  size_t best = checkpoints.size();
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    if (!checkpoints[i].preview_psnr.has_value()) continue;
    if (best == checkpoints.size() ||
        *checkpoints[i].preview_psnr >= *checkpoints[best].preview_psnr) {
      best = i;
    }
  }
  std::vector<CheckpointRecord> kept, retired;
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const bool keep = i + n_kept >= checkpoints.size() || i == best || checkpoints[i].promoted;
    (keep ? kept : retired).push_back(std::move(checkpoints[i]));
  }
  checkpoints = std::move(kept);
  return retired;
}

}  // namespace nerf
