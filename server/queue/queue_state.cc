#include "server/queue/queue_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/packed_strings.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

QueueObserver& NullObserver() {
  static QueueObserver observer;
  return observer;
}

absl::Status Inconsistent(std::string_view what) {
  return WithReason(absl::DataLossError(fmt::format("the store contradicts itself: {}", what)),
                    reason::kStoreCorrupt);
}

}  // namespace

QueueState::QueueState(const QueueOptions& queue_options, const Dependencies& dependencies)
    : options(queue_options),
      clock(*dependencies.clock),
      random(*dependencies.random),
      store(*dependencies.store),
      blobs(*dependencies.blobs),
      observer(dependencies.observer != nullptr ? *dependencies.observer : NullObserver()) {}

absl::StatusOr<std::unique_ptr<QueueState>> QueueState::Open(const QueueOptions& options,
                                                             const Dependencies& dependencies) {
  auto state = std::unique_ptr<QueueState>(new QueueState(options, dependencies));
  NERF_ASSIGN_OR_RETURN(StoredState stored, state->store.Load());
  NERF_RETURN_IF_ERROR(state->Restore(std::move(stored)));
  return state;
}

absl::Status QueueState::Restore(StoredState stored) {
  MutexLock lock(mu);
  const SteadyTime now = clock.Now();
  store_epoch = std::move(stored.store_epoch);
  requests_swept_at = now;
  for (Job& job : stored.jobs) {
    const ResourceKey key = job.key;
    next_sequence = std::max(next_sequence, job.create_sequence + 1);
    if (!job_order.emplace(job.create_sequence, key).second) {
      return Inconsistent(fmt::format("two jobs have sequence {}", job.create_sequence));
    }
    JobEntry& entry = jobs[key];
    entry.job = std::move(job);
    // The recovery window: a holder that outlived the last server has one TTL to find back.
    entry.lease_deadline = now + options.lease_ttl;
    entry.progress_stored_at = now;
    Reindex(entry, std::nullopt);
  }
  for (auto& [key, event] : stored.events) {
    const auto found = jobs.find(key);
    if (found == jobs.end()) return Inconsistent(fmt::format("event of no job {}", JobName(key)));
    WatchLog& log = found->second.log;
    if (log.size() > 0 && log.After(event.sequence - 1) != nullptr) {
      return Inconsistent(fmt::format("event {} of {} twice", event.sequence, JobName(key)));
    }
    if (event.sequence > found->second.job.last_event_sequence ||
        (log.size() > 0 && event.sequence != log.first_sequence() + log.size())) {
      return Inconsistent(fmt::format("event {} of {} out of order", event.sequence, JobName(key)));
    }
    log.Append(std::move(event));
  }
  for (SceneRecord& scene : stored.scenes) {
    next_sequence = std::max(next_sequence, scene.create_sequence + 1);
    scene_order.emplace(scene.create_sequence, scene.key);
    scenes.emplace(scene.key, std::move(scene));
  }
  for (ModelRecord& model : stored.models) {
    next_sequence = std::max(next_sequence, model.create_sequence + 1);
    model_order.emplace(model.create_sequence, model.key);
    models.emplace(model.key, std::move(model));
  }
  for (const RequestRecord& request : stored.requests) RememberRequest(request);
  for (const auto& [key, entry] : jobs) {
    if (entry.log.At(entry.job.last_event_sequence) == nullptr) {
      return Inconsistent(fmt::format("the last event of {} is missing", JobName(key)));
    }
    if (!IsFinal(entry.job.state) && !scenes.contains({key.project, entry.job.scene})) {
      return Inconsistent(fmt::format("{} has no scene {}", JobName(key), entry.job.scene));
    }
  }
  return absl::OkStatus();
}

std::set<std::string> QueueState::ReachableBlobs() {
  MutexLock lock(mu);
  std::set<std::string> reachable;
  for (const auto& [key, scene] : scenes) {
    for (const SceneFileRecord& file : scene.files) reachable.insert(file.blob.sha256);
  }
  for (const auto& [key, model] : models) reachable.insert(model.blob.sha256);
  for (const auto& [key, entry] : jobs) {
    const Job& job = entry.job;
    for (const CheckpointRecord& checkpoint : job.checkpoints) {
      reachable.insert(checkpoint.checkpoint_blob.sha256);
      reachable.insert(checkpoint.model_blob.sha256);
    }
    if (job.progress.preview_image.has_value()) {
      reachable.insert(job.progress.preview_image->sha256);
    }
    if (job.init.has_value() && !IsFinal(job.state)) reachable.insert(job.init->blob.sha256);
  }
  return reachable;
}

absl::Status QueueState::Commit(const StoreWrite& write) {
  const SteadyTime start = clock.Now();
  absl::Status status = store.Commit(write);
  observer.OnCommit(clock.Now() - start, status.ok());
  if (!status.ok()) LogError("commit failed", {{"error", std::string(status.message())}});
  return status;
}

absl::StatusOr<std::optional<std::string>> QueueState::FindRequest(
    const RequestRecord& request) const {
  if (request.request_id.empty()) return std::optional<std::string>();
  const auto found = requests.find({request.project, request.request_id});
  if (found == requests.end()) return std::optional<std::string>();
  const RequestRecord& earlier = found->second;
  if (earlier.kind != request.kind || earlier.fingerprint != request.fingerprint) {
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "request_id {} was used for another request", request.request_id)),
                      reason::kRequestIdReused);
  }
  return std::optional<std::string>(earlier.resource_id);
}

void QueueState::RememberRequest(const RequestRecord& request) {
  if (!request.request_id.empty()) requests[{request.project, request.request_id}] = request;
}

RequestRecord QueueState::RecordOfDeletedJob(const Job& job, absl::Time now) {
  // No request id of a client is of this form.
  return {RequestRecord::Kind::kDeletedJob,
          job.key.project,
          "deleted/" + job.key.id,
          job.key.id,
          PackStrings({std::to_string(job.lease.epoch), std::to_string(job.last_event_sequence)}),
          now};
}

void QueueState::CountOnFromDeletedJob(Job& job) const {
  const auto found = requests.find({job.key.project, "deleted/" + job.key.id});
  if (found == requests.end()) return;
  const auto counts = UnpackStrings(found->second.fingerprint);
  uint64_t epoch = 0, sequence = 0;
  if (!counts.has_value() || counts->size() != 2 || !absl::SimpleAtoi((*counts)[0], &epoch) ||
      !absl::SimpleAtoi((*counts)[1], &sequence)) {
    return;
  }
  job.lease.epoch = epoch;
  job.last_event_sequence += sequence;
}

void QueueState::Reindex(const JobEntry& entry, std::optional<JobState> old_state) {
  const Job& job = entry.job;
  if (old_state.has_value()) {
    if (*old_state == JobState::kQueued) queued_jobs.erase(job.create_sequence);
    if (HoldsLease(*old_state)) leased_jobs.erase(job.key);
  }
  if (job.state == JobState::kQueued) queued_jobs.emplace(job.create_sequence, job.config.method);
  if (HoldsLease(job.state)) leased_jobs.insert(job.key);
}

absl::Status QueueState::RequireBlobs(const std::vector<BlobRef>& needed) {
  std::vector<std::string> names;
  for (const BlobRef& blob : blobs.FindMissing(needed)) names.push_back(BlobName(blob));
  return names.empty() ? absl::OkStatus() : BlobsMissingError(names);
}

}  // namespace nerf
