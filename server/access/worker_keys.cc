#include "server/access/worker_keys.h"

#include <fmt/format.h>

#include <utility>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/logging.h"

namespace nerf {
namespace {

absl::Status Mismatch(std::string_view worker) {
  return WithReason(
      absl::PermissionDeniedError(fmt::format(
          "{} belongs to a worker with another key; give this one another --cache-dir", worker)),
      reason::kWorkerKeyMismatch);
}

absl::Status TooMany(const WorkerKeyOptions& options) {
  return WithReason(
      absl::ResourceExhaustedError(fmt::format(
          "{} workers have been here in the last {}, as many as are remembered; keep the "
          "--cache-dir of workers that come back",
          options.max_keys, absl::FormatDuration(options.min_life))),
      reason::kQuotaExceeded, {{"limit", "workers"}, {"max", std::to_string(options.max_keys)}});
}

}  // namespace

WorkerKeys::WorkerKeys(AccessStore* store, const std::vector<WorkerKeyRecord>& keys,
                       const Clock* clock, WorkerKeyOptions options)
    : store_(*store), clock_(*clock), options_(options) {
  MutexLock lock(mu_);
  for (const WorkerKeyRecord& key : keys) entries_[key.worker] = {key.digest, clock_.Now()};
}

WorkerKeys::Entries::iterator WorkerKeys::LeastUsed(const IsConnected& is_connected) {
  const SteadyTime now = clock_.Now();
  auto least = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (now - it->second.last_use < options_.min_life) continue;
    if (least != entries_.end() && it->second.last_use >= least->second.last_use) continue;
    if (!is_connected(it->first)) least = it;
  }
  return least;
}

absl::Status WorkerKeys::CheckOrBind(const std::string& worker, std::string_view key,
                                     const IsConnected& is_connected, const Later& later) {
  if (key.empty()) return Mismatch(worker);
  const std::string digest = Sha256Hex(key);
  std::string forgotten;
  {
    MutexLock lock(mu_);
    if (const auto found = entries_.find(worker); found != entries_.end()) {
      if (found->second.digest != digest) return Mismatch(worker);
      found->second.last_use = clock_.Now();
      return absl::OkStatus();
    }
    if (entries_.size() >= options_.max_keys) {
      const auto least = LeastUsed(is_connected);
      if (least == entries_.end()) return TooMany(options_);
      forgotten = least->first;
      entries_.erase(least);
    }
    entries_[worker] = {digest, clock_.Now()};
  }
  // Lost in a crash before it is stored, the worker's next hello binds it again.
  later([this, worker, digest, forgotten] {
    absl::Status status = store_.PutWorkerKey({worker, digest});
    if (status.ok() && !forgotten.empty()) status = store_.DeleteWorkerKey(forgotten);
    if (status.ok()) return;
    LogError("a worker's key could not be stored",
             {{"worker", worker}, {"error", status.ToString()}});
  });
  return absl::OkStatus();
}

absl::Status WorkerKeys::Check(std::string_view worker, std::string_view key) {
  const std::string digest = Sha256Hex(key);
  MutexLock lock(mu_);
  const auto found = entries_.find(worker);
  if (found == entries_.end() || found->second.digest != digest) return Mismatch(worker);
  found->second.last_use = clock_.Now();
  return absl::OkStatus();
}

}  // namespace nerf
