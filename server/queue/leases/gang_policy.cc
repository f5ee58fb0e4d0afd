#include "server/queue/leases/gang_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/queue/kinds/kind_policy.h"

namespace nerf {
namespace {

// The candidates that can train with `asker`: those of its hardware on its host or, by network, on
// any.
std::vector<GangCandidate> PoolOf(const std::string& asker, bool network,
                                  std::span<const GangCandidate> candidates) {
  const auto self =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const GangCandidate& candidate) { return candidate.worker == asker; });
  std::vector<GangCandidate> pool;
  if (self == candidates.end() || (network && !self->network)) return pool;
  for (const GangCandidate& candidate : candidates) {
    if (candidate.hardware != self->hardware) continue;
    if (network ? candidate.network : candidate.host == self->host) pool.push_back(candidate);
  }
  return pool;
}

}  // namespace

std::optional<GangDevice> GangDeviceOf(const WorkerDescription& worker) {
  if (worker.device == "cpu" && worker.Has(kRanksFeature)) return GangDevice::kCpu;
  if (worker.device.starts_with("cuda:") && worker.Has(kRanksCudaFeature)) return GangDevice::kCuda;
  return std::nullopt;
}

bool LacksGangLibrary(const WorkerDescription& worker, GangDevice device) {
  const bool has_device =
      device == GangDevice::kCuda ? worker.device.starts_with("cuda:") : worker.device == "cpu";
  return has_device && !GangDeviceOf(worker).has_value();
}

std::string GangHardwareOf(const WorkerDescription& worker) {
  return GangDeviceOf(worker) == GangDevice::kCuda ? worker.device_description : "";
}

std::string NameOfMember(const Job& job, uint32_t part) {
  const std::vector<std::string>& members = job.lease.members;
  if (part >= members.size()) return fmt::format("rank {}", part);
  if (members.size() == 1) return fmt::format("worker {}", members.front());
  return fmt::format("rank {} (worker {})", part, members[part]);
}

std::optional<GangChoice> ChooseGang(const WorkerCount& wanted, const std::string& asker,
                                     std::span<const GangCandidate> candidates) {
  for (const bool network : {false, true}) {
    std::vector<GangCandidate> pool = PoolOf(asker, network, candidates);
    std::erase_if(pool, [](const GangCandidate& candidate) {
      return candidate.free_in > absl::ZeroDuration();
    });
    if (pool.empty() || pool.size() < wanted.min) continue;
    const auto self = std::find_if(pool.begin(), pool.end(), [&](const GangCandidate& candidate) {
      return candidate.worker == asker;
    });
    if (self == pool.end()) continue;
    const std::string host = self->host;
    // The asker is always a member; those of its host come before others.
    const auto before = [&](const GangCandidate& a, const GangCandidate& b) {
      const auto order_of = [&](const GangCandidate& each) {
        return std::tuple(each.worker != asker, each.tried, each.host != host, each.host,
                          each.worker);
      };
      return order_of(a) < order_of(b);
    };
    std::sort(pool.begin(), pool.end(), before);
    if (pool.size() > wanted.max) pool.resize(wanted.max);
    GangChoice choice;
    for (const GangCandidate& each : pool) {
      choice.members.push_back(each.worker);
      choice.one_host = choice.one_host && each.host == host;
    }
    return choice;
  }
  return std::nullopt;
}

GangOutlook OutlookOf(const WorkerCount& wanted, const std::string& asker,
                      std::span<const GangCandidate> candidates) {
  GangOutlook best;
  for (const bool network : {false, true}) {
    const std::vector<GangCandidate> pool = PoolOf(asker, network, candidates);
    if (pool.size() < wanted.min && best.n_workers >= pool.size()) continue;
    GangOutlook outlook;
    outlook.n_workers = pool.size();
    std::vector<absl::Duration> times;
    for (const GangCandidate& each : pool) {
      times.push_back(each.free_in);
      if (each.worker != asker) outlook.others_free_in.push_back(each.free_in);
    }
    std::sort(times.begin(), times.end());
    if (times.size() >= wanted.min) outlook.free_in = times[wanted.min - 1];
    if (best.n_workers < wanted.min || outlook.free_in < best.free_in) best = std::move(outlook);
  }
  return best;
}

void TrainingRates::Note(const std::string& method, const v1::Progress& progress) {
  const double seconds = progress.seconds(), samples = progress.samples();
  if (seconds <= 0 || progress.step() == 0) return;
  Rate& rate = rates_[method];
  rate.seconds_per_step = seconds / progress.step();
  if (samples > 0) rate.seconds_per_sample = seconds / samples;
}

std::optional<absl::Duration> TrainingRates::TimeLeft(const Job& job) const {
  if (!TraitsOf(job.kind).has_budget) return std::nullopt;
  const v1::TrainingConfig& config = job.training.config;
  const v1::Progress& progress = job.progress.training();
  if (progress.eta_seconds() > 0) return absl::Seconds(progress.eta_seconds());
  const auto left = [](double budget, double done) { return std::max(0.0, budget - done); };
  if (config.has_seconds()) return absl::Seconds(left(config.seconds(), progress.seconds()));
  const auto found = rates_.find(config.method());
  if (found == rates_.end()) return std::nullopt;
  const Rate& rate = found->second;
  if (config.has_steps() && rate.seconds_per_step > 0) {
    return absl::Seconds(left(config.steps(), progress.step()) * rate.seconds_per_step);
  }
  if (config.has_samples() && rate.seconds_per_sample > 0) {
    return absl::Seconds(left(config.samples(), progress.samples()) * rate.seconds_per_sample);
  }
  return std::nullopt;
}

}  // namespace nerf
