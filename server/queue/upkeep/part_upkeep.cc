#include "server/queue/upkeep/part_upkeep.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <utility>

#include "common/logging.h"
#include "server/queue/resources/resource_key.h"
#include "server/queue/state/part_jobs.h"

namespace nerf {
namespace {

// The state of a part whose job waits for it, is paused or is merged.
std::optional<JobState> WantedState(JobState part, bool paused) {
  using enum JobState;
  if (paused) {
    if (part == kQueued) return kPaused;
    if (part == kPreparing || part == kRunning) return kPausing;
    return std::nullopt;
  }
  if (part == kPaused) return kQueued;
  if (part == kPausing) return kPreparing;
  return std::nullopt;
}

// The error of a job whose part has ended without a result.
JobError ErrorOfPart(const Job& part) {
  JobError error = part.error;
  if (part.state != JobState::kFailed) {
    error.code = absl::StatusCode::kAborted;
    error.message = "a part was cancelled";
  }
  error.message = fmt::format("{} (part {})", error.message, part.key.id);
  return error;
}

}  // namespace

void PartUpkeep::Tick() {
  QueueLock lock(state_);
  const std::set<ResourceKey>& split = state_.split_jobs();
  for (auto it = split.begin(); it != split.end();) {
    const ResourceKey key = *it++;
    JobEntry* const entry = state_.FindEntry(key);
    if (entry == nullptr || KeepUp(*entry)) state_.ForgetSplit(key);
  }
}

bool PartUpkeep::KeepUp(JobEntry& entry) {
  if (state_.IsClaimed({ClaimKey::Kind::kJob, entry.job.key})) return false;
  const std::vector<JobEntry*> parts = PartsOfJob(state_, entry.job);
  const bool ended = IsFinal(entry.job.state);
  bool settled = ended;
  for (JobEntry* part : parts) {
    if (state_.IsClaimed({ClaimKey::Kind::kJob, part->job.key})) {
      settled = false;
    } else if (ended) {
      settled = End(entry.job, *part) && settled;
    } else {
      Follow(entry.job, *part);
    }
  }
  if (!ended && WaitsForParts(entry.job)) MoveOn(entry, parts);
  return settled;
}

void PartUpkeep::Follow(const Job& whole, JobEntry& part) {
  if (IsFinal(part.job.state)) return;
  JobChange change(part, state_.clock.WallNow());
  if (const auto to = WantedState(part.job.state, whole.state == JobState::kPaused)) {
    if (*to == JobState::kPreparing && part.job.stop == StopCause::kNone)
      state_.RequestStop(part, StopCause::kResumed);
    if (!change.Move(*to).ok()) return;
  }
  // start_by is the whole job's alone: parts may wait for one another.
  if (part.job.priority != whole.priority || part.job.end_by != whole.end_by ||
      part.job.start_by != absl::InfiniteFuture()) {
    change.job.priority = whole.priority;
    change.job.end_by = whole.end_by;
    change.job.start_by = absl::InfiniteFuture();
    change.Record(JobEventKind::kUpdated);
  }
  state_.ApplyLater(part, std::move(change));
}

bool PartUpkeep::End(const Job& whole, JobEntry& part) {
  JobChange change(part, state_.clock.WallNow());
  if (!IsFinal(part.job.state)) {
    if (part.job.state == JobState::kCancelling) return false;
    const bool held = HoldsLease(part.job.state);
    // What it has trained is of use to a retry.
    change.job.keep_on_cancel = held && whole.state != JobState::kSucceeded;
    if (change.Move(held ? JobState::kCancelling : JobState::kCancelled).ok())
      state_.ApplyLater(part, std::move(change));
    return false;
  }
  if (whole.state != JobState::kSucceeded || part.job.checkpoints.empty()) return true;
  const std::vector<CheckpointRecord> dropped = std::exchange(change.job.checkpoints, {});
  change.Record(JobEventKind::kUpdated);
  state_.ApplyLater(part, std::move(change),
                    [&state = state_, dropped](const absl::Status& status) {
                      if (!status.ok()) return;
                      for (const CheckpointRecord& checkpoint : dropped) {
                        state.blobs.Release(checkpoint.checkpoint_blob);
                        state.blobs.Release(checkpoint.model_blob);
                      }
                    });
  return false;
}

void PartUpkeep::MoveOn(JobEntry& entry, const std::vector<JobEntry*>& parts) {
  JobChange change(entry, state_.clock.WallNow());
  const auto fail = [&](JobError error) {
    state_.mu.AssertHeld();
    change.job.error = std::move(error);
    if (change.Move(JobState::kFailed).ok()) state_.ApplyLater(entry, std::move(change));
  };
  if (parts.size() < entry.job.parts.size()) {
    return fail({absl::StatusCode::kDataLoss, "", "a job of its parts is missing", {}, {}});
  }
  std::vector<BlobRef> models;
  double seconds = 0;
  for (const JobEntry* part : parts) {
    const Job& job = part->job;
    if (job.state == JobState::kFailed || job.state == JobState::kCancelled)
      return fail(ErrorOfPart(job));
    if (job.state == JobState::kSucceeded && job.checkpoints.empty()) {
      return fail({absl::StatusCode::kDataLoss,
                   "",
                   fmt::format("a part has no model ({})", job.key.id),
                   {},
                   {}});
    }
    if (job.state != JobState::kSucceeded) continue;
    models.push_back(job.checkpoints.back().model_blob);
    seconds += job.checkpoints.back().seconds;
  }
  internal::JobProgress progress;
  if (v1::Progress sum = ProgressOfParts(parts); sum.ByteSizeLong() > 0)
    *progress.mutable_training() = std::move(sum);
  if (models.size() == parts.size() && entry.job.state == JobState::kQueued) {
    change.job.part_models = std::move(models);
    change.job.part_seconds = seconds;
    change.job.progress = progress;
    change.Record(JobEventKind::kStateChanged);
    LogInfo("parts are trained", {{"project", entry.job.key.project}, {"job", entry.job.key.id}});
    return state_.ApplyLater(entry, std::move(change));
  }
  state_.ShowProgress(entry, progress);
}

}  // namespace nerf
