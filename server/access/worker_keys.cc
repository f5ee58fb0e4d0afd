#include "server/access/worker_keys.h"

#include <fmt/format.h>

#include <utility>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/sha256.h"

namespace nerf {
namespace {

absl::Status Mismatch(std::string_view worker) {
  return WithReason(
      absl::PermissionDeniedError(fmt::format(
          "{} belongs to a worker with another key; give this one another --cache-dir", worker)),
      reason::kWorkerKeyMismatch);
}

}  // namespace

WorkerKeys::WorkerKeys(AccessStore* store, const std::vector<WorkerKeyRecord>& keys)
    : store_(*store) {
  MutexLock lock(mu_);
  for (const WorkerKeyRecord& key : keys) digests_[key.worker] = key.digest;
}

absl::Status WorkerKeys::CheckOrBind(const std::string& worker, std::string_view key,
                                     const std::function<void(std::function<void()>)>& later) {
  if (key.empty()) return Mismatch(worker);
  const std::string digest = Sha256Hex(key);
  {
    MutexLock lock(mu_);
    const auto [found, is_new] = digests_.emplace(worker, digest);
    if (!is_new) return found->second == digest ? absl::OkStatus() : Mismatch(worker);
  }
  // Lost in a crash before it is stored, the worker's next hello binds it again.
  later([this, worker, digest] {
    const absl::Status status = store_.PutWorkerKey({worker, digest});
    if (status.ok()) return;
    LogError("a worker's key could not be stored",
             {{"worker", worker}, {"error", status.ToString()}});
  });
  return absl::OkStatus();
}

absl::Status WorkerKeys::Check(std::string_view worker, std::string_view key) const {
  const std::string digest = Sha256Hex(key);
  MutexLock lock(mu_);
  const auto found = digests_.find(worker);
  return found != digests_.end() && found->second == digest ? absl::OkStatus() : Mismatch(worker);
}

}  // namespace nerf
