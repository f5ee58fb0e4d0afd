#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// Judges workers by the deaths of their engines. A worker whose engine has died on several jobs of
// a project, without a success in between, gets no job of that project for a while and then one as
// a trial: the project's jobs may be what kills engines. One that avoids several projects so is
// unhealthy itself and gets no job at all for a while. Any job that gets on makes it healthy again,
// another death doubles the pause. Not thread-safe.
class WorkerHealth {
 public:
  static constexpr size_t kMaxJobs = 3;  // different jobs, so that one bad job condemns nobody
  static constexpr size_t kMaxProjects = 2;
  static constexpr absl::Duration kFirstPause = absl::Minutes(1);
  static constexpr absl::Duration kMaxPause = absl::Minutes(16);

  void EngineDied(const std::string& worker, const ResourceKey& job, SteadyTime now);
  // A job has succeeded, or has a new checkpoint or frame.
  void Worked(const std::string& worker) { records_.erase(worker); }
  // The worker is no longer known.
  void Forget(const std::string& worker) { records_.erase(worker); }

  bool IsUnhealthy(const std::string& worker) const { return IsPaused(worker, kAll); }
  // Projects whose jobs it gets as a trial alone, without those of others.
  std::set<std::string> Avoids(const std::string& worker) const;
  // True when it is healthy, or when it is time for a trial; without a project, of any.
  bool MayTakeJob(const std::string& worker, const std::string& project, SteadyTime now) const;
  // Why it is unhealthy or avoids a project, for people; empty when it does not.
  std::string Explain(const std::string& worker, SteadyTime now) const;

 private:
  static constexpr char kAll[] = "";
  struct Pause {
    absl::Duration length = absl::ZeroDuration();
    SteadyTime until;
  };
  struct Record {
    std::set<ResourceKey> died_on;
    std::map<std::string, Pause> pauses;  // by project, or kAll
  };
  bool IsPaused(const std::string& worker, const std::string& project) const;

  std::map<std::string, Record> records_;
};

}  // namespace nerf
