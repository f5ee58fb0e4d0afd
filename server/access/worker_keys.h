#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "server/access/access_store.h"

namespace nerf {

// Binds each worker's id to the key of its first hello, so that the shared worker token alone does
// not let one worker write in another's name. Thread-safe.
class WorkerKeys {
 public:
  // The store outlives it.
  WorkerKeys(AccessStore* store, const std::vector<WorkerKeyRecord>& keys);

  // Checks a worker's key, or binds it if the worker has none. `later` runs a task that may wait
  // for the disk: the key is stored there, and valid at once. Errors: PermissionDenied
  // WORKER_KEY_MISMATCH.
  absl::Status CheckOrBind(const std::string& worker, std::string_view key,
                           const std::function<void(std::function<void()>)>& later);

  // Errors: PermissionDenied WORKER_KEY_MISMATCH, also for a worker that is not known.
  absl::Status Check(std::string_view worker, std::string_view key) const;

 private:
  AccessStore& store_;
  mutable Mutex mu_;
  std::map<std::string, std::string, std::less<>> digests_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
