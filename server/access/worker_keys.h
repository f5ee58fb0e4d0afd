#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "server/access/access_store.h"

namespace nerf {

struct WorkerKeyOptions {
  size_t max_keys = 10'000;
  // A key that was used within this time is never forgotten, so whoever has the shared token cannot
  // take over a worker's id by making up others.
  absl::Duration min_life = absl::Hours(24);
};

// Binds each worker's id to the key of its first hello, so that the shared worker token alone does
// not let one worker write in another's name. At max_keys a new worker takes the place of the one
// that was not used for the longest time, at least min_life. Thread-safe.
class WorkerKeys {
 public:
  // Store and clock outlive it. Loaded keys count as used now.
  WorkerKeys(AccessStore* store, const std::vector<WorkerKeyRecord>& keys, const Clock* clock,
             WorkerKeyOptions options = {});

  using Later = std::function<void(std::function<void()>)>;
  using IsConnected = std::function<bool(const std::string& worker)>;
  // Checks a worker's key, or binds it if the worker has none. `later` runs a task that may wait
  // for the disk: the key is stored there, and valid at once. Keys of connected workers are in use.
  // Errors: PermissionDenied WORKER_KEY_MISMATCH; ResourceExhausted QUOTA_EXCEEDED.
  absl::Status CheckOrBind(const std::string& worker, std::string_view key,
                           const IsConnected& is_connected, const Later& later);

  // Errors: PermissionDenied WORKER_KEY_MISMATCH, also for a worker that is not known.
  absl::Status Check(std::string_view worker, std::string_view key);

 private:
  struct Entry {
    std::string digest;
    SteadyTime last_use;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  // The key to forget for a new one; end() if all are in use.
  Entries::iterator LeastUsed(const IsConnected& is_connected) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  AccessStore& store_;
  const Clock& clock_;
  const WorkerKeyOptions options_;
  Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
