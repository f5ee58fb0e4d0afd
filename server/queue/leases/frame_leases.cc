// The part of LeaseTable that is about jobs with leases of parts: render jobs.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/problems.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

// InvalidArgument for a frame that is not of the part or has another number of images.
absl::Status CheckFrames(const Job& job, uint32_t part,
                         const std::vector<std::pair<uint32_t, FrameRecord>>& frames,
                         bool has_movie) {
  Problems problems;
  const FrameSpan span = FramesOfPart(job, part);
  for (const auto& [index, frame] : frames) {
    if (index < span.begin || index >= span.end) {
      problems.Add("frames.index", fmt::format("{} is not of part {}", index, part));
    }
    if (frame.images.size() != static_cast<size_t>(job.render->channels_size())) {
      problems.Add("frames.images", fmt::format("must be {}", job.render->channels_size()));
    }
  }
  if (has_movie && !IsMoviePart(job, part)) problems.Add("movie", "is not of the part");
  return problems.Result();
}

}  // namespace

absl::StatusOr<std::optional<LeaseGrant>> LeaseTable::AcquirePart(JobEntry& entry,
                                                                  const std::string& worker) {
  const std::optional<uint32_t> part = NextPart(entry.job);
  if (!part.has_value()) return std::optional<LeaseGrant>();
  JobChange change(entry, state_.clock.WallNow());
  NERF_RETURN_IF_ERROR(GrantPart(change, *part, worker));
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(change)));
  LeaseGrant grant;
  grant.lease = {entry.job.key, worker, entry.job.lease.epoch, *part};
  grant.job = entry.job;
  grant.ttl = state_.options.lease_ttl;
  return std::optional(std::move(grant));
}

absl::Status LeaseTable::CommitFrames(const LeaseRef& lease,
                                      const std::vector<std::pair<uint32_t, FrameRecord>>& frames,
                                      const std::optional<BlobRef>& movie) {
  std::vector<BlobRef> needed;
  for (const auto& [index, frame] : frames) {
    needed.insert(needed.end(), frame.images.begin(), frame.images.end());
  }
  if (movie.has_value()) needed.push_back(*movie);
  // Without the lock, because it reads the file system.
  const absl::Status present = state_.RequireBlobs(needed);
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(LeasedChange leased,
                        BeginLeased(lease, "CommitFrames", JobState::kRunning));
  Job& job = leased.change.job;
  if (absl::Status can = RequireKind(job, TraitsOf(job).has_part_leases, "has no frames");
      !can.ok()) {
    return Refuse(std::move(leased), std::move(can));
  }
  if (absl::Status status = CheckFrames(job, lease.part, frames, movie.has_value()); !status.ok()) {
    return Refuse(std::move(leased), std::move(status));
  }
  if (!present.ok()) return Refuse(std::move(leased), present);
  bool is_new = false;
  for (const auto& [index, frame] : frames) {
    FrameRecord& stored = job.render_work.frames[index];
    if (!stored.images.empty()) continue;
    stored = frame;
    is_new = true;
  }
  if (movie.has_value() && !job.render_work.movie.has_value()) {
    job.render_work.movie = movie;
    is_new = true;
  }
  if (!is_new) return Refuse(std::move(leased), absl::OkStatus());
  job.crashes_in_row = 0;
  leased.entry->aside.no_room_on.clear();
  leased.entry->aside.n_rounds = 0;
  NoteWorked(lease.worker);
  job.progress.set_frames_done(CountFrames(job));
  if (job.state == JobState::kPreparing) {
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kRunning));
  } else {
    leased.change.Record(JobEventKind::kProgress);
  }
  return state_.Apply(*leased.entry, std::move(leased.change));
}

absl::StatusOr<Job> LeaseTable::FinishPart(const LeaseRef& lease, const JobOutcome& outcome,
                                           std::optional<std::vector<JobInput>> lack) {
  const JobEntry& existing = state_.EntryOf(lease.job);
  const auto& parts = existing.job.render_work.parts;
  // The reply to an earlier call was lost. Give it again.
  if (lease.part < parts.size() && parts[lease.part].done &&
      parts[lease.part].epoch == lease.epoch) {
    return existing.job;
  }
  NERF_ASSIGN_OR_RETURN(LeasedChange leased, BeginLeased(lease, "Finish", JobState::kRunning));
  if (lack.has_value()) return AwaitInputs(std::move(leased), lease.part, *std::move(lack));
  JobEntry& entry = *leased.entry;
  Job& job = leased.change.job;
  std::string_view result = "completed";
  std::vector<BlobRef> before = BlobsOf(entry.job);
  if (outcome.kind == JobOutcome::Kind::kFailed) {
    result = "failed";
    job.error = outcome.error;
    if (job.error.code == absl::StatusCode::kOk) job.error.code = absl::StatusCode::kUnknown;
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  } else if (job.state == JobState::kCancelling) {
    result = "cancelled";
    NERF_RETURN_IF_ERROR(FreePart(leased.change, lease.part, QueueReason::kNone));
  } else if (outcome.kind != JobOutcome::Kind::kSucceeded) {
    return Refuse(std::move(leased),
                  StateConflict(fmt::format("nobody asked to stop {}", JobName(lease.job))));
  } else if (!IsComplete(job, lease.part)) {
    return Refuse(std::move(leased), StateConflict(fmt::format("part {} of {} is not complete",
                                                               lease.part, JobName(lease.job))));
  } else {
    NERF_RETURN_IF_ERROR(CompletePart(leased.change, lease.part));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(leased.change)));
  // Frames of a job that wanted a movie alone are dropped with its end.
  if (IsFinal(entry.job.state) && entry.job.render_work.frames.empty()) {
    for (const BlobRef& blob : before) {
      if (blob != entry.job.render_work.movie) state_.blobs.Release(blob);
    }
  }
  state_.observer.OnAttemptEnded(entry.job, result);
  return entry.job;
}

absl::StatusOr<Job> LeaseTable::CrashPart(LeasedChange leased, uint32_t part,
                                          std::string_view message, bool shared_engine) {
  Job& job = leased.change.job;
  if (!shared_engine) ++job.crashes_in_row;
  if (job.crashes_in_row >= static_cast<uint32_t>(state_.options.max_attempts) &&
      job.state != JobState::kCancelling) {
    job.error.code = absl::StatusCode::kInternal;
    job.error.reason = std::string(reason::kEngineCrashed);
    job.error.message = fmt::format("the engine died {} times in a row without a new frame: {}",
                                    job.crashes_in_row, message);
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  } else {
    NERF_RETURN_IF_ERROR(FreePart(leased.change, part, QueueReason::kEngineCrashed));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*leased.entry, std::move(leased.change)));
  state_.observer.OnAttemptEnded(leased.entry->job, "engine_crash");
  const ResourceKey& key = leased.entry->job.key;
  LogWarning("engine crashed in a render job",
             {{"project", key.project}, {"job", key.id}, {"part", part}, {"message", message}});
  return leased.entry->job;
}

}  // namespace nerf
