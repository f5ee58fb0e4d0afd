#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// Liveness of a worker, for probes of containers: its event loop writes <cache-dir>/alive every few
// seconds, and `nerf-worker --alive` reads it. Times come from the machine's boot clock, which all
// processes share and nobody sets.
class Liveness {
 public:
  // clock outlives this.
  Liveness(std::string cache_dir, const Clock* clock);

  // Call in every turn of the loop. Writes at most every five seconds. Ignores errors of the disk,
  // because they need not stop the worker; the probe then finds an old beat.
  void Beat(absl::Duration boot_time);

  // OK if the last beat is at most a minute older than boot_time. Errors: NotFound if no worker
  // ever ran in cache_dir, Unavailable for an old beat, DataLoss for an unreadable one.
  static absl::Status Check(const std::string& cache_dir, absl::Duration boot_time);

  // Time since the machine started.
  static absl::Duration BootTime();

 private:
  const std::string path_;
  const Clock* const clock_;
  SteadyTime next_beat_;
};

// Measures whether a worker has had nothing to do for `limit`, for --exit-when-idle.
class IdleLimit {
 public:
  // clock outlives this. A limit of zero is never reached.
  IdleLimit(absl::Duration limit, const Clock* clock);

  // `idle`: the current state. True once the worker has been idle for the limit without a break.
  bool Reached(bool idle);

 private:
  const absl::Duration limit_;
  const Clock* const clock_;
  SteadyTime busy_until_;
};

}  // namespace nerf
