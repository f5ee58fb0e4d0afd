#include "server/queue/kinds/render_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/status_macros.h"

namespace nerf {
namespace {

uint32_t FrameParts(const v1::RenderSpec& spec) {
  return (FramesOf(spec.path()) + kFramesPerPart - 1) / kFramesPerPart;
}

// Makes the workers that hold a part the job's members.
void UpdateMembers(Job& job) {
  job.lease.members.clear();
  for (const RenderPart& part : job.render_work.parts) {
    if (!part.worker.empty() && !job.lease.Has(part.worker)) {
      job.lease.members.push_back(part.worker);
    }
  }
}

}  // namespace

uint32_t PartsOf(const v1::RenderSpec& spec) { return FrameParts(spec) + (spec.movie() ? 1 : 0); }

RenderWork NewRenderWork(const v1::RenderSpec& spec) {
  RenderWork work;
  work.parts.resize(PartsOf(spec));
  work.frames.resize(FramesOf(spec.path()));
  return work;
}

FrameSpan FramesOfPart(const Job& job, uint32_t part) {
  const uint32_t n_frames = FramesOf(job.render->path());
  const uint32_t begin = std::min(part * kFramesPerPart, n_frames);
  return {begin, std::min(begin + kFramesPerPart, n_frames)};
}

bool IsMoviePart(const Job& job, uint32_t part) { return part >= FrameParts(*job.render); }

std::optional<uint32_t> NextPart(const Job& job) {
  const bool may_begin = job.state == JobState::kQueued || job.state == JobState::kPreparing ||
                         job.state == JobState::kRunning;
  if (!may_begin) return std::nullopt;
  const std::vector<RenderPart>& parts = job.render_work.parts;
  bool are_frames_done = true;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const bool is_movie = IsMoviePart(job, i);
    if (is_movie && !are_frames_done) return std::nullopt;
    if (!parts[i].done && parts[i].worker.empty()) return i;
    if (!is_movie) are_frames_done = are_frames_done && parts[i].done;
  }
  return std::nullopt;
}

bool IsComplete(const Job& job, uint32_t part) {
  if (IsMoviePart(job, part)) return job.render_work.movie.has_value();
  const FrameSpan span = FramesOfPart(job, part);
  for (uint32_t i = span.begin; i < span.end; ++i) {
    if (job.render_work.frames[i].images.empty()) return false;
  }
  return true;
}

uint32_t CountFrames(const Job& job) {
  const auto& frames = job.render_work.frames;
  return static_cast<uint32_t>(
      std::count_if(frames.begin(), frames.end(),
                    [](const FrameRecord& frame) { return !frame.images.empty(); }));
}

bool IsAnyPartHeld(const Job& job) {
  const auto& parts = job.render_work.parts;
  return HoldsLease(job.state) && std::any_of(parts.begin(), parts.end(), [](const auto& part) {
           return !part.worker.empty();
         });
}

absl::Status GrantPart(JobChange& change, uint32_t part, const std::string& worker) {
  Job& job = change.job;
  ++job.lease.epoch;
  job.render_work.parts[part].worker = worker;
  job.render_work.parts[part].epoch = job.lease.epoch;
  UpdateMembers(job);
  if (job.state == JobState::kQueued) {
    ++job.attempt;
    return change.Move(JobState::kPreparing);
  }
  change.Record(JobEventKind::kProgress);
  return absl::OkStatus();
}

absl::Status FreePart(JobChange& change, uint32_t part, QueueReason reason) {
  Job& job = change.job;
  job.render_work.parts[part].worker.clear();
  UpdateMembers(job);
  if (!IsAnyPartHeld(job)) {
    return job.state == JobState::kCancelling ? change.Move(JobState::kCancelled)
                                              : change.Move(JobState::kQueued, reason);
  }
  change.Record(JobEventKind::kProgress);
  return absl::OkStatus();
}

absl::Status CompletePart(JobChange& change, uint32_t part) {
  Job& job = change.job;
  if (job.state == JobState::kCancelling) return FreePart(change, part, QueueReason::kNone);
  job.render_work.parts[part].done = true;
  job.render_work.parts[part].worker.clear();
  UpdateMembers(job);
  if (job.state == JobState::kPreparing) NERF_RETURN_IF_ERROR(change.Move(JobState::kRunning));
  const auto& parts = job.render_work.parts;
  if (std::all_of(parts.begin(), parts.end(), [](const RenderPart& each) { return each.done; })) {
    if (!job.render->images()) job.render_work.frames.clear();
    return change.Move(JobState::kSucceeded);
  }
  change.Record(JobEventKind::kProgress);
  return absl::OkStatus();
}

}  // namespace nerf
