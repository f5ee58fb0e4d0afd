// The queue as the store has it, when the server starts.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error_reason.h"
#include "common/log_options.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/named_blobs.h"
#include "server/queue/state/queue_state.h"

namespace nerf {
namespace {

absl::Status Inconsistent(std::string_view what) {
  return WithReason(absl::DataLossError(fmt::format("the store contradicts itself: {}", what)),
                    reason::kStoreCorrupt);
}

}  // namespace

absl::Status QueueState::Restore(StoredState stored) {
  MutexLock lock(mu);
  const SteadyTime now = clock.Now();
  store_epoch = std::move(stored.store_epoch);
  if (stored.token_secret.empty()) return Inconsistent("there is no secret for tokens");
  token_sealer.emplace(std::move(stored.token_secret));
  if (stored.age.has_value()) age_at_open_ = *stored.age;
  for (Job& job : stored.jobs) {
    const ResourceKey key = job.key;
    next_sequence_ = std::max(next_sequence_, job.create_sequence + 1);
    if (!job_order_.emplace(job.create_sequence, key).second) {
      return Inconsistent(fmt::format("two jobs have sequence {}", job.create_sequence));
    }
    JobEntry& entry = jobs_[key];
    entry.job = std::move(job);
    entry.progress_stored_at = now;
  }
  for (auto& [key, event] : stored.events) {
    const auto found = jobs_.find(key);
    if (found == jobs_.end()) return Inconsistent(fmt::format("event of no job {}", JobName(key)));
    WatchLog& log = found->second.log;
    if (log.size() > 0 && log.After(event.sequence - 1) != nullptr) {
      return Inconsistent(fmt::format("event {} of {} twice", event.sequence, JobName(key)));
    }
    if (event.sequence > found->second.job.last_event_sequence ||
        (log.size() > 0 && event.sequence != log.first_sequence() + log.size())) {
      return Inconsistent(fmt::format("event {} of {} out of order", event.sequence, JobName(key)));
    }
    log.Append(std::move(event), MachineNow());
  }
  for (SceneRecord& scene : stored.scenes) {
    next_sequence_ = std::max(next_sequence_, scene.create_sequence + 1);
    AddScene(std::move(scene));
  }
  for (ModelRecord& model : stored.models) {
    next_sequence_ = std::max(next_sequence_, model.create_sequence + 1);
    if (model.create_age == absl::InfinitePast()) model.create_age = age_at_open_;
    AddModel(std::move(model));
  }
  for (const RequestRecord& request : stored.requests) requests_.Remember(request);
  for (ProjectRecord& project : stored.projects) projects_.emplace(project.project, project);
  drained_workers_.insert(stored.drained_workers.begin(), stored.drained_workers.end());
  for (const UploadRecord& upload : stored.uploads) {
    stored_use_.Count(upload.project, upload.blob.sha256, {upload.blob.byte_size, upload.time});
  }
  const absl::Time wall_now = clock.WallNow();
  for (auto& [key, entry] : jobs_) {
    if (!IsFinal(entry.job.state)) {
      NoteJobOrigin(key.project, key.id, entry.job.origin.request_id(),
                    entry.job.origin.traceparent());
    }
    const JobEvent* const last = entry.log.At(entry.job.last_event_sequence);
    if (last == nullptr) {
      return Inconsistent(fmt::format("the last event of {} is missing", JobName(key)));
    }
    if (!IsFinal(entry.job.state)) {
      NERF_ASSIGN_OR_RETURN(entry.curve, store.LoadCurve(key));
    }
    // A job that an older version ended has no end age.
    if (IsFinal(entry.job.state) && entry.job.end_age == absl::InfinitePast()) {
      entry.job.end_age = age_at_open_;
    }
    // Held leases get a full TTL from now, for their holders to reconnect.
    Reindex(entry, std::nullopt);
    if (!entry.job.parts.empty()) split_jobs_.insert(key);
    if (entry.waits) {
      // A queued job has waited since its last event, which queued it.
      index_.EndWait(entry);
      index_.BeginWait(entry, now + -std::max(absl::ZeroDuration(), wall_now - last->time));
      if (entry.job.queue_reason == QueueReason::kBlobsMissing) lacking_jobs_.insert(key);
    }
    const std::string& scene = SceneReadBy(entry.job);
    const bool reads_scene = TraitsOf(entry.job).needs_scene || !scene.empty();
    if (reads_scene && !IsFinal(entry.job.state) && !entry.job.awaits_poses &&
        !scenes_.contains({key.project, scene})) {
      return Inconsistent(fmt::format("{} has no scene {}", JobName(key), scene));
    }
  }
  return absl::OkStatus();
}

}  // namespace nerf
