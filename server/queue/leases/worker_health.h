#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// Judges workers by the deaths of their engines. A worker whose engine has died on several jobs
// without a checkpoint in between is unhealthy: it gets no job for a while and then one as a trial.
// A checkpoint makes it healthy again, another death doubles the pause. Not thread-safe.
class WorkerHealth {
 public:
  static constexpr size_t kMaxJobs = 3;  // different jobs, so that one bad job condemns nobody
  static constexpr absl::Duration kFirstPause = absl::Minutes(1);
  static constexpr absl::Duration kMaxPause = absl::Minutes(16);

  void EngineDied(const std::string& worker, const ResourceKey& job, SteadyTime now);
  // A checkpoint was committed.
  void EngineWorked(const std::string& worker) { records_.erase(worker); }
  // The worker is no longer known.
  void Forget(const std::string& worker) { records_.erase(worker); }

  bool IsUnhealthy(const std::string& worker) const;
  // True when it is healthy, or when it is time for a trial.
  bool MayTakeJob(const std::string& worker, SteadyTime now) const;
  // Why it is unhealthy, for people; empty when it is healthy.
  std::string Explain(const std::string& worker, SteadyTime now) const;

 private:
  struct Record {
    std::set<ResourceKey> died_on;
    absl::Duration pause = absl::ZeroDuration();  // zero while it is healthy
    SteadyTime paused_until;
  };
  std::map<std::string, Record> records_;
};

}  // namespace nerf
