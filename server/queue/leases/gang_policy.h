#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "server/queue/jobs/job.h"
#include "server/queue/leases/worker_table.h"

namespace nerf {

// Features of workers that can train together with others: on CPUs, on CUDA devices; with workers
// of other hosts, too.
inline constexpr std::string_view kRanksFeature = "ranks";
inline constexpr std::string_view kRanksCudaFeature = "ranks-cuda";
inline constexpr std::string_view kRanksNetworkFeature = "ranks-network";

// What the worker trains on together with others; nullopt where it does not, also if its features
// do not fit its device.
std::optional<GangDevice> GangDeviceOf(const WorkerDescription& worker);
// Whether the worker has a device of that kind, and could train on it together with others if its
// engine had the library for that (libnerf_gloo).
bool LacksGangLibrary(const WorkerDescription& worker, GangDevice device);
// The hardware that all members of its gangs have; empty where any will do, as for CPUs.
std::string GangHardwareOf(const WorkerDescription& worker);

// Whether the job asks for more than one worker at the same time.
inline bool WantsGang(const Job& job) { return job.training.workers.max > 1 && job.parts.empty(); }

// For people: "worker w", of a gang "rank 1 (worker w)".
std::string NameOfMember(const Job& job, uint32_t part);

// A connected worker that could be a member of a gang: with the device that the job asks for.
struct GangCandidate {
  std::string worker, host;
  bool network = false;  // also with workers of other hosts
  std::string hardware;
  bool tried = false;  // the job crashed on it or it had no room: taken last
  // When it is free: 0 now, InfiniteDuration when that is not known.
  absl::Duration free_in = absl::InfiniteDuration();
};

// Members of a gang that starts now, by rank.
struct GangChoice {
  std::vector<std::string> members;
  bool one_host = true;
};

// The gang that `asker`, which is free, starts with others of its hardware that are free: on its
// own host where `min` are, otherwise by network. As many as there are, up to `max`. nullopt where
// too few are.
std::optional<GangChoice> ChooseGang(const WorkerCount& wanted, const std::string& asker,
                                     std::span<const GangCandidate> candidates);

// Of the workers with which `asker` could make a gang: how many there are, and when `min` of them
// are free if nothing else begins. InfiniteDuration when that is not known.
struct GangOutlook {
  size_t n_workers = 0;
  absl::Duration free_in = absl::InfiniteDuration();
  std::vector<absl::Duration> others_free_in;  // of the workers other than the asker
};
GangOutlook OutlookOf(const WorkerCount& wanted, const std::string& asker,
                      std::span<const GangCandidate> candidates);

// How long trainings take, from what running ones report. Not thread-safe.
class TrainingRates {
 public:
  // Learns the rate of the job's method.
  void Note(const std::string& method, const v1::Progress& progress);
  // What is left of the job: by its own ETA, by its budget in seconds, or by the rate of its
  // method. nullopt when none is known.
  std::optional<absl::Duration> TimeLeft(const Job& job) const;

 private:
  struct Rate {
    double seconds_per_step = 0, seconds_per_sample = 0;  // 0: not known
  };
  std::map<std::string, Rate> rates_;
};

}  // namespace nerf
