#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// A worker whose event loop turns writes <cache-dir>/alive every few seconds; `nerf-worker --alive`
// reads it, as the liveness probe of a container. Times are of the machine's boot clock, which is
// the same for all processes and which nobody sets.
class Liveness {
 public:
  // clock outlives this.
  Liveness(std::string cache_dir, const Clock* clock);

  // Says that the loop turned. Cheap: writes at most every five seconds. A disk that refuses is no
  // reason to stop working, so errors are ignored; the probe then finds an old beat.
  void Beat(absl::Duration boot_time);

  // OK where the last beat is at most a minute older than boot_time. Errors: NotFound where no
  // worker ever ran in cache_dir, Unavailable for an old beat, DataLoss for an unreadable one.
  static absl::Status Check(const std::string& cache_dir, absl::Duration boot_time);

  // Time since the machine started.
  static absl::Duration BootTime();

 private:
  const std::string path_;
  const Clock* const clock_;
  SteadyTime next_beat_;
};

// Tells when a worker that should end once there is nothing to do has had nothing to do for
// `limit`.
class IdleLimit {
 public:
  // clock outlives this. A limit of zero is never reached.
  IdleLimit(absl::Duration limit, const Clock* clock);

  // `idle` is the state of this moment. True once it has been idle for the limit without a break.
  bool Reached(bool idle);

 private:
  const absl::Duration limit_;
  const Clock* const clock_;
  SteadyTime busy_until_;
};

}  // namespace nerf
