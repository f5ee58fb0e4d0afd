#include "server/queue/upkeep/job_upkeep.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "server/queue/jobs/stop_cause.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/leases/grant_policy.h"
#include "server/queue/state/part_jobs.h"
#include "server/queue/state/pose_jobs.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

constexpr absl::Duration kRetry = absl::Seconds(1);
constexpr absl::Duration kMeterInterval = absl::Minutes(1);  // a crash forgets up to this much
constexpr size_t kMaxDueDeadlines = 1000;                    // examined per call
constexpr absl::Duration kPreemptionMemory = absl::Hours(1);

bool CanTake(const WorkerRecord& worker, const Job& job) {
  return worker.connected && !worker.avoids.contains(job.key.project) &&
         worker.Offers(CapabilityOf(job));
}

// Used by jobs that start over up to this multiple of the day.
constexpr double kMostDaysOfOthers = 2;

// A job whose workers are at it and were not asked to stop. A part with a lease of its own is
// small.
bool IsStoppable(const Job& job) {
  return !TraitsOf(job).has_part_leases && job.stop == StopCause::kNone &&
         (job.state == JobState::kRunning || job.state == JobState::kPreparing);
}

// The order in which jobs are preempted: that of the lowest priority first, of equals the youngest.
bool GoesBefore(const Job& job, const Job& other) {
  const auto rank = [](const Job& of) { return std::pair(-of.priority, of.create_sequence); };
  return rank(job) > rank(other);
}

// Workers that could make a gang if some jobs gave theirs up.
struct GangPool {
  std::vector<std::string> free;
  std::map<JobEntry*, std::vector<std::string>> busy;  // with jobs that may be preempted

  void Add(JobEntry* job, const std::string& worker) {
    (job == nullptr ? free : busy[job]).push_back(worker);
  }

  // Jobs whose workers make `n_wanted` with the free ones, as few as their order allows, at least
  // one. Empty where there are not enough.
  std::vector<JobEntry*> Victims(size_t n_wanted) const {
    std::vector<JobEntry*> jobs;
    for (const auto& [job, workers] : busy) jobs.push_back(job);
    std::sort(jobs.begin(), jobs.end(),
              [](const JobEntry* a, const JobEntry* b) { return GoesBefore(a->job, b->job); });
    size_t n = free.size();
    std::vector<JobEntry*> victims;
    for (JobEntry* const job : jobs) {
      if (!victims.empty() && n >= n_wanted) break;
      victims.push_back(job);
      n += busy.at(job).size();
    }
    if (victims.empty() || n < n_wanted) return {};
    // Those that were chosen before a job with more workers may not be needed.
    for (size_t i = 0; i + 1 < victims.size();) {
      const size_t gives = busy.at(victims[i]).size();
      if (n - gives < n_wanted) {
        ++i;
        continue;
      }
      n -= gives;
      victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return victims;
  }
};

}  // namespace

JobUpkeep::JobUpkeep(QueueState* state, WorkerTable* workers)
    : state_(*state),
      workers_(*workers),
      parts_(state),
      metered_at_(state->clock.Now()),
      meters_stored_at_(metered_at_) {}

void JobUpkeep::Tick() {
  parts_.Tick();
  const WorkerList workers = workers_.List();
  QueueLock lock(state_);
  FollowPoses();
  EnforceDeadlines();
  Meter();
  StopHeldJobs();
  Preempt(*workers);
}

void JobUpkeep::FollowPoses() {
  const std::set<ResourceKey> waiting = state_.jobs_awaiting_poses();  // changes meanwhile
  for (const ResourceKey& key : waiting) {
    if (state_.IsClaimed({ClaimKey::Kind::kJob, key})) continue;
    JobEntry& entry = state_.EntryOf(key);
    if (std::optional<JobChange> change = AfterPoses(state_, entry)) {
      state_.ApplyLater(entry, *std::move(change));
    }
  }
}

void JobUpkeep::EnforceDeadlines() {
  const SteadyTime now = state_.clock.Now();
  for (size_t n = 0; n < kMaxDueDeadlines; ++n) {
    const std::optional<ResourceKey> key = state_.TakeDueDeadline();
    if (!key.has_value()) return;
    JobEntry* const found = state_.FindEntry(*key);
    if (found == nullptr || IsFinal(found->job.state)) continue;
    const std::optional<SteadyTime> again = state_.IsClaimed({ClaimKey::Kind::kJob, *key})
                                                ? std::optional(now + kRetry)
                                                : EnforceDeadlinesOf(*found);
    if (again.has_value()) state_.LookAtDeadlines(*key, *again);
  }
}

std::optional<SteadyTime> JobUpkeep::EnforceDeadlinesOf(JobEntry& entry) {
  const SteadyTime now = state_.clock.Now();
  const Job& job = entry.job;
  const auto is_past = [&](const JobEntry::Deadline& deadline) {
    return deadline.wall != absl::InfiniteFuture() && deadline.steady <= now;
  };
  const bool waits = job.state == JobState::kQueued || job.state == JobState::kPaused;
  JobChange change(entry, state_.clock.WallNow());
  if (is_past(entry.end_by)) {
    // Whoever cancels or pauses is served first. A paused job is then looked at again.
    if (job.state == JobState::kCancelling) return std::nullopt;
    if (job.state == JobState::kPausing) return now + kRetry;
    if (!waits && job.stop != StopCause::kDeadline) {
      state_.RequestStop(entry, StopCause::kDeadline);
      return now + state_.options.lease_ttl;
    }
    if (FailAtEndDeadline(change).ok()) FailLater(entry, std::move(change));
    return std::nullopt;
  }
  if (!is_past(entry.start_by) || !waits || HasStarted(job)) return std::nullopt;
  if (FailAtStartDeadline(change).ok()) FailLater(entry, std::move(change));
  return std::nullopt;
}

bool JobUpkeep::HasStarted(const Job& job) {
  const std::vector<JobEntry*> parts = PartsOfJob(state_, job);
  return job.attempt > 0 || std::any_of(parts.begin(), parts.end(),
                                        [](const JobEntry* part) { return part->job.attempt > 0; });
}

void JobUpkeep::FailLater(JobEntry& entry, JobChange change) {
  const bool was_held = HoldsLease(entry.job.state);
  state_.ApplyLater(
      entry, std::move(change),
      [&state = state_, &entry, was_held, key = entry.job.key](const absl::Status& status) {
        state.mu.AssertHeld();
        if (!status.ok()) {
          state.LookAtDeadlines(key, state.clock.Now() + kRetry);
        } else if (was_held) {
          state.observer.OnAttemptEnded(entry.job, "failed");
        }
      });
}

void JobUpkeep::Meter() {
  constexpr absl::Duration kMostBetweenTicks = absl::Seconds(5);  // a longer gap was a stall
  const SteadyTime now = state_.clock.Now();
  const double seconds = absl::ToDoubleSeconds(std::min(now - metered_at_, kMostBetweenTicks));
  metered_at_ = now;
  const int64_t today = DayOf(state_.clock.WallNow());
  for (const auto& [lease, deadline] : state_.lease_deadlines()) {
    const std::string& project = lease.job.project;
    if (state_.Meter(project, today, seconds)) changed_meters_.insert(project);
  }
  if (now - meters_stored_at_ < kMeterInterval) return;
  meters_stored_at_ = now;
  StoreMeters();
  // Meters of earlier days, of projects without settings. The store may keep its rows: there is at
  // most one of each project, which its next use replaces.
  state_.ForgetMeters(today, changed_meters_);
}

void JobUpkeep::StoreMeters() {
  StoreWrite write;
  std::set<std::string> later;
  for (const std::string& project : changed_meters_) {
    // A change that is being stored would be overwritten.
    if (state_.IsClaimed({ClaimKey::Kind::kProject, {project, ""}})) {
      later.insert(project);
    } else {
      write.projects.push_back(state_.projects().at(project));
    }
  }
  changed_meters_ = std::move(later);
  if (write.projects.empty()) return;
  state_.Submit(std::move(write), [](const absl::Status&) {});
}

void JobUpkeep::StopHeldJobs() {
  for (const auto& [lease, deadline] : state_.lease_deadlines()) {
    JobEntry& entry = state_.EntryOf(lease.job);
    if (!IsStoppable(entry.job)) continue;
    const auto& members = entry.job.lease.members;
    const bool drained =
        std::any_of(members.begin(), members.end(), [this](const std::string& worker) {
          state_.mu.AssertHeld();
          return state_.drained_workers().contains(worker);
        });
    if (drained) {
      state_.RequestStop(entry, StopCause::kDrained);
    } else if (DayIsUsed(state_, lease.job.project,
                         TraitsOf(entry.job).starts_over ? kMostDaysOfOthers : 1)) {
      state_.RequestStop(entry, StopCause::kQuota);
    }
  }
}

JobEntry* JobUpkeep::FirstWaiting(const std::string& project) {
  const SteadyTime now = state_.clock.Now();
  for (const auto& [rank, capability] : state_.index().queues().at(project)) {
    JobEntry& entry = state_.EntryAt(rank.create_sequence);
    const ResourceKey& key = entry.job.key;
    if (!TraitsOf(entry.job).preempts || now < entry.aside.until) continue;
    if (state_.lacking_jobs().contains(key) || !PartMayStart(state_, entry.job)) continue;
    if (state_.IsClaimed({ClaimKey::Kind::kJob, key})) return nullptr;
    return &entry;
  }
  return nullptr;
}

bool JobUpkeep::IsPreempting(const std::string& project) {
  for (auto it = state_.lease_deadlines().lower_bound({{project, ""}, 0});
       it != state_.lease_deadlines().end() && it->first.job.project == project; ++it) {
    if (state_.EntryOf(it->first.job).job.stop == StopCause::kPreempted) return true;
  }
  return false;
}

bool JobUpkeep::GivesWay(JobEntry& entry, const Job& waiting) {
  const Job& job = entry.job;
  if (!TraitsOf(job).preempts || job.key.project != waiting.key.project) return false;
  if (!IsStoppable(job)) return false;
  if (job.priority >= waiting.priority) return false;
  const SteadyTime now = state_.clock.Now();
  std::erase_if(entry.preempted_at,
                [&](SteadyTime time) { return now - time >= kPreemptionMemory; });
  return entry.preempted_at.size() < kMaxPreemptionsPerHour;
}

void JobUpkeep::PreemptOne(const JobEntry& waiting, std::span<const WorkerRecord> workers) {
  JobEntry* victim = nullptr;
  std::string gives;
  for (const WorkerRecord& worker : workers) {
    JobEntry* const entry = JobOf(worker);
    if (entry == nullptr || !CanTake(worker, waiting.job) || !GivesWay(*entry, waiting.job))
      continue;
    if (victim != nullptr && (entry == victim || !GoesBefore(entry->job, victim->job))) continue;
    victim = entry;
    gives = worker.description.id;
  }
  if (victim != nullptr) Stop(*victim, waiting, {gives});
}

void JobUpkeep::PreemptForGang(const JobEntry& waiting, std::span<const WorkerRecord> workers) {
  const Job& job = waiting.job;
  const SteadyTime now = state_.clock.Now();
  // Workers that can train together: by host, or by network, and hardware. Hosts come first.
  std::map<std::tuple<bool, std::string, std::string>, GangPool> pools;
  for (const WorkerRecord& worker : workers) {
    const WorkerDescription& description = worker.description;
    if (!CanTake(worker, job) || GangDeviceOf(description) != job.training.gang_device) continue;
    JobEntry* victim = JobOf(worker);
    if (victim != nullptr && !GivesWay(*victim, job)) continue;
    if (victim == nullptr && worker.state != WorkerState::kIdle) continue;
    const ReservedWorker* const kept = state_.ReservationOf(description.id);
    if (kept != nullptr && now < kept->until) continue;
    const auto add = [&](bool network, const std::string& host) {
      pools[{network, host, GangHardwareOf(description)}].Add(victim, description.id);
    };
    add(/*network=*/false, description.host);
    if (description.Has(kRanksNetworkFeature)) add(/*network=*/true, "");
  }
  const bool may_start = WhyNoMoreLeases(state_, job.key.project).empty();
  const size_t n_wanted = job.training.workers.min;
  const GangPool* best = nullptr;
  std::vector<JobEntry*> victims;  // of `best`
  for (const auto& [place, pool] : pools) {
    if (may_start && pool.free.size() >= n_wanted) return;  // it is about to start
    std::vector<JobEntry*> chosen = pool.Victims(n_wanted);
    if (chosen.empty() || (best != nullptr && chosen.size() >= victims.size())) continue;
    best = &pool;
    victims = std::move(chosen);
  }
  if (best == nullptr) return;
  size_t n_kept = 0;
  for (JobEntry* const victim : victims) {
    const std::vector<std::string>& gives = best->busy.at(victim);
    n_kept += gives.size();
    Stop(*victim, waiting, gives);
  }
  for (size_t i = 0; i < best->free.size() && n_kept < n_wanted; ++i, ++n_kept) {
    state_.ReserveWorker(best->free[i], job.key);
  }
}

void JobUpkeep::Stop(JobEntry& victim, const JobEntry& waiting, std::vector<std::string> workers) {
  state_.RequestStop(victim, StopCause::kPreempted);
  victim.preempted_for = waiting.job.key;
  victim.kept_workers = std::move(workers);
  victim.preempted_at.push_back(state_.clock.Now());
  LogInfo("job preempted", {{"project", victim.job.key.project},
                            {"job", victim.job.key.id},
                            {"priority", victim.job.priority},
                            {"for", waiting.job.key.id},
                            {"its_priority", waiting.job.priority}});
}

void JobUpkeep::KeepReserved() {
  for (const auto& [lease, deadline] : state_.lease_deadlines()) {
    const JobEntry& entry = state_.EntryOf(lease.job);
    if (entry.job.stop == StopCause::kPreempted) state_.KeepReserved(entry.preempted_for);
  }
}

JobEntry* JobUpkeep::JobOf(const WorkerRecord& worker) {
  if (worker.state != WorkerState::kBusy || !worker.job.has_value()) return nullptr;
  JobEntry* const found = state_.FindEntry(*worker.job);
  if (found == nullptr || !HoldsLease(found->job.state)) return nullptr;
  return found->job.lease.Has(worker.description.id) ? found : nullptr;
}

void JobUpkeep::Preempt(std::span<const WorkerRecord> workers) {
  const SteadyTime now = state_.clock.Now();
  KeepReserved();
  for (const auto& [project, queue] : state_.index().queues()) {
    JobEntry* const waiting = FirstWaiting(project);
    if (waiting == nullptr || now - waiting->queued_at < kPreemptAfter) continue;
    if (DayIsUsed(state_, project) || IsPreempting(project)) continue;
    const bool has_worker =
        std::any_of(state_.reserved_workers().begin(), state_.reserved_workers().end(),
                    [&](const auto& reserved) {
                      return reserved.second.job == waiting->job.key && now < reserved.second.until;
                    });
    if (has_worker) continue;
    if (WantsGang(waiting->job)) {
      PreemptForGang(*waiting, workers);
      continue;
    }
    const auto is_free = [&](const WorkerRecord& worker) {
      return worker.state == WorkerState::kIdle && CanTake(worker, waiting->job);
    };
    const bool may_start = WhyNoMoreLeases(state_, project).empty();
    if (may_start && std::any_of(workers.begin(), workers.end(), is_free)) continue;
    PreemptOne(*waiting, workers);
  }
}

}  // namespace nerf
