#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "server/queue/jobs/lease.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/leases/grant_policy.h"

namespace nerf {

// What LeaseTable knows about workers and gangs beside the jobs. Nothing of it is stored: after a
// restart workers ask again.
struct GangState {
  // A worker by its last Acquire.
  struct Asker {
    GrantRequest request;
    SteadyTime heard_at;
    bool waits = true;       // it got nothing
    bool takes_jobs = true;  // false after Withdraw
  };
  // What the ranks of one lease have told, by number and rank.
  struct Meeting {
    uint64_t epoch = 0;
    std::map<uint32_t, std::vector<std::optional<std::string>>> texts;
  };

  std::map<std::string, Asker> askers;
  // Grants that another worker's Acquire has made or is about to store, by worker.
  std::map<std::string, LeaseRef> promised;
  std::map<ResourceKey, Meeting> meetings;
  // When the gang of a queued job was first expected to start. Never moved later.
  std::map<ResourceKey, SteadyTime> due;
  TrainingRates rates;

  void Heard(const std::string& worker, SteadyTime now) {
    const auto found = askers.find(worker);
    if (found != askers.end()) found->second.heard_at = now;
  }
  // Empty where it is not known.
  std::string HostOf(const std::string& worker) const {
    const auto found = askers.find(worker);
    return found == askers.end() ? "" : found->second.request.host;
  }
};

// A gang that waits for workers, as seen by a worker that asks for a job.
struct WaitingGang {
  uint32_t n_wanted = 0;
  std::vector<absl::Duration> others_free_in;  // of its workers other than the asker
  SteadyTime due;
};

}  // namespace nerf
