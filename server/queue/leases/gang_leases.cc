// The part of LeaseTable that is about gangs: several workers that train one job.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/messages/worker_limits.h"
#include "common/status_macros.h"
#include "server/queue/jobs/stop_cause.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

// Estimates are of training alone: reading the scene, evaluating and uploading come on top.
constexpr double kEstimateFactor = 1.2;
constexpr absl::Duration kEstimateExtra = absl::Seconds(10);
// Added to the time at which a gang is expected to start.
constexpr absl::Duration kDueExtra = absl::Seconds(5);
// A connected worker that neither holds a lease nor waits is between two jobs.
constexpr absl::Duration kBetweenJobs = absl::Seconds(1);

absl::Status WrongText(std::string_view what) {
  return InvalidFieldsError({{"rank_text", std::string(what)}});
}

}  // namespace

void LeaseTable::Withdraw(const std::string& worker) {
  MutexLock lock(state_.mu);
  const auto found = gangs_.askers.find(worker);
  if (found == gangs_.askers.end()) return;
  found->second.waits = found->second.takes_jobs = false;
}

void LeaseTable::LeaveGang(const LeaseRef& lease) {
  QueueLock lock(state_);
  const absl::StatusOr<JobEntry*> entry = state_.FindJob(lease.job);
  if (!entry.ok() || !HoldsLease((*entry)->job.state) || IsLeaseOver((*entry)->job, lease)) return;
  if ((*entry)->job.stop == StopCause::kNone) state_.RequestStop(**entry, StopCause::kDrained);
}

void LeaseTable::NoteAsker(const GrantRequest& request) {
  gangs_.askers[request.worker] = {request, state_.clock.Now()};
}

std::map<std::string, absl::Duration> LeaseTable::BusyWorkers() {
  std::map<std::string, absl::Duration> busy;
  for (const auto& [lease, deadline] : state_.lease_deadlines()) {
    const Job& job = state_.EntryOf(lease.job).job;
    const std::string worker(PolicyOf(job).LeaseOf(job, lease.part).worker);
    if (worker.empty()) continue;
    busy[worker] = gangs_.rates.TimeLeft(job).value_or(absl::InfiniteDuration());
  }
  return busy;
}

std::vector<GangCandidate> LeaseTable::CandidatesFor(const JobEntry& entry,
                                                     const GrantRequest& request) {
  const Job& job = entry.job;
  const SteadyTime now = state_.clock.Now();
  const std::map<std::string, absl::Duration> busy = BusyWorkers();
  std::vector<GangCandidate> candidates;
  for (const auto& [worker, asker] : gangs_.askers) {
    const bool is_asker = worker == request.worker;
    const bool is_here =
        is_asker || (asker.takes_jobs && state_.IsSubscribed(worker) &&
                     now - asker.heard_at <= state_.options.lease_ttl &&
                     (workers_ == nullptr || workers_->MayTakeJob(worker, job.key.project)));
    if (!is_here || asker.request.gang_device != job.training.gang_device ||
        !OffersCapability(asker.request.capabilities, CapabilityOf(job))) {
      continue;
    }
    GangCandidate candidate{worker, asker.request.host, asker.request.ranks_network,
                            asker.request.hardware};
    candidate.tried =
        entry.aside.no_room_on.contains(worker) ||
        std::find(job.crashed_on.begin(), job.crashed_on.end(), worker) != job.crashed_on.end();
    const auto found = busy.find(worker);
    const ReservedWorker* const kept = state_.ReservationOf(worker);
    const bool is_kept = kept != nullptr && now < kept->until;
    if (!is_asker && is_kept && kept->job != job.key) {
      candidates.push_back(std::move(candidate));  // for the job that preempted one there
      continue;
    }
    if (is_asker || (asker.waits && found == busy.end() && !gangs_.promised.contains(worker))) {
      candidate.free_in = absl::ZeroDuration();
    } else if (found != busy.end()) {
      candidate.free_in = std::max(kBetweenJobs, found->second);
    } else if (!gangs_.promised.contains(worker)) {
      candidate.free_in = kBetweenJobs;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::optional<WaitingGang> LeaseTable::WaitFor(const JobEntry& entry, const GangOutlook& outlook) {
  const uint32_t n_wanted = entry.job.training.workers.min;
  if (outlook.n_workers < n_wanted) return std::nullopt;
  WaitingGang waiting{n_wanted, outlook.others_free_in, state_.clock.Now()};
  const auto found = gangs_.due.find(entry.job.key);
  if (found != gangs_.due.end()) {
    waiting.due = found->second;
  } else if (outlook.free_in != absl::InfiniteDuration()) {
    waiting.due = waiting.due + outlook.free_in + kDueExtra;
    gangs_.due[entry.job.key] = waiting.due;
  }
  return waiting;
}

bool LeaseTable::MayStartBefore(const WaitingGang& gang, const Job& job) {
  const SteadyTime now = state_.clock.Now();
  if (now >= gang.due) return false;
  const std::optional<absl::Duration> left = gangs_.rates.TimeLeft(job);
  if (left.has_value() && now + *left * kEstimateFactor + kEstimateExtra <= gang.due) return true;
  const auto in_time = [&](absl::Duration free_in) {
    return free_in != absl::InfiniteDuration() && now + free_in <= gang.due;
  };
  const auto n_others =
      std::count_if(gang.others_free_in.begin(), gang.others_free_in.end(), in_time);
  return static_cast<size_t>(n_others) >= gang.n_wanted;
}

absl::StatusOr<std::optional<LeaseGrant>> LeaseTable::GrantGang(JobEntry& entry,
                                                                const std::string& asker,
                                                                const GangChoice& gang) {
  JobChange change(entry, state_.clock.WallNow());
  ++change.job.lease.epoch;
  ++change.job.attempt;
  change.job.lease.members = gang.members;
  NERF_RETURN_IF_ERROR(change.Move(JobState::kPreparing));
  // Promised before the commit, in which the lock is free: nobody else may grant them anything.
  for (uint32_t rank = 0; rank < gang.members.size(); ++rank) {
    const std::string& member = gang.members[rank];
    gangs_.promised[member] = {entry.job.key, member, change.job.lease.epoch, rank};
    gangs_.askers[member].waits = false;
  }
  const absl::Status stored = state_.Apply(entry, std::move(change));
  gangs_.promised.erase(asker);
  if (!stored.ok()) {
    for (const std::string& member : gang.members) {
      gangs_.promised.erase(member);
      gangs_.askers[member].waits = true;
    }
    return stored;
  }
  gangs_.due.erase(entry.job.key);
  state_.FreeWorkersOf(entry.job.key);
  for (const std::string& member : gang.members) {
    if (member != asker) state_.Wake(member);
  }
  LogInfo("gang granted", {{"project", entry.job.key.project},
                           {"job", entry.job.key.id},
                           {"lease_epoch", entry.job.lease.epoch},
                           {"workers", gang.members.size()},
                           {"one_host", gang.one_host}});
  return std::optional(MakeGrant(entry, asker));
}

std::optional<LeaseGrant> LeaseTable::TakePromised(const std::string& worker) {
  const auto promised = gangs_.promised.find(worker);
  if (promised == gangs_.promised.end()) return std::nullopt;
  const LeaseRef lease = promised->second;
  const JobEntry* const found = state_.FindEntry(lease.job);
  // While the grant is stored; the worker is woken then.
  const bool is_stored = found != nullptr && found->job.lease.epoch >= lease.epoch;
  if (found != nullptr && !is_stored) return std::nullopt;
  gangs_.promised.erase(promised);
  if (!is_stored || !HoldsLease(found->job.state) || found->job.lease.epoch != lease.epoch ||
      PolicyOf(found->job).LeaseOf(found->job, lease.part).worker != worker) {
    return std::nullopt;
  }
  return MakeGrant(*found, worker);
}

void LeaseTable::SweepGangs() {
  const auto is_over = [&](const ResourceKey& job, uint64_t epoch) {
    state_.mu.AssertHeld();
    const JobEntry* const found = state_.FindEntry(job);
    return found == nullptr || found->job.lease.epoch > epoch ||
           (found->job.lease.epoch == epoch && !HoldsLease(found->job.state));
  };
  std::erase_if(gangs_.promised,
                [&](const auto& entry) { return is_over(entry.second.job, entry.second.epoch); });
  std::erase_if(gangs_.meetings,
                [&](const auto& entry) { return is_over(entry.first, entry.second.epoch); });
  std::erase_if(gangs_.due, [&](const auto& entry) {
    state_.mu.AssertHeld();
    const JobEntry* const found = state_.FindEntry(entry.first);
    return found == nullptr || found->job.state != JobState::kQueued;
  });
  std::erase_if(gangs_.askers, [&](const auto& entry) {
    state_.mu.AssertHeld();
    return !state_.IsSubscribed(entry.first) &&
           state_.clock.Now() - entry.second.heard_at > state_.options.lease_ttl;
  });
}

std::optional<uint32_t> LeaseTable::LostRank(const Job& job, uint32_t reporter,
                                             std::optional<uint32_t> lost_rank) {
  const std::vector<std::string>& members = job.lease.members;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (rank != reporter && !state_.IsSubscribed(members[rank])) return rank;
  }
  if (!lost_rank.has_value() || *lost_rank >= members.size()) return std::nullopt;
  return lost_rank;
}

absl::StatusOr<Job> LeaseTable::ReleaseBrokenGang(LeasedChange leased, uint32_t reporter,
                                                  std::optional<uint32_t> lost_rank) {
  Job& job = leased.change.job;
  const std::optional<uint32_t> lost = LostRank(job, reporter, lost_rank);
  const std::string who =
      lost.has_value() ? NameOfMember(job, *lost) + " was lost"
                       : NameOfMember(job, reporter) + " lost the connection to another rank";
  const std::string worker = lost.has_value() ? job.lease.members[*lost] : "";
  const bool is_connected = !lost.has_value() || state_.IsSubscribed(worker);
  if (is_connected) {
    // Workers that cannot reach each other would try for ever.
    ++job.crashes_in_row;
    if (lost.has_value() &&
        std::find(job.crashed_on.begin(), job.crashed_on.end(), worker) == job.crashed_on.end()) {
      job.crashed_on.push_back(worker);
    }
  }
  if (job.crashes_in_row >= static_cast<uint32_t>(state_.options.max_attempts) &&
      job.state != JobState::kCancelling) {
    job.error.code = absl::StatusCode::kUnavailable;
    job.error.reason = std::string(reason::kWorkerLost);
    job.error.message = fmt::format("the gang broke {} times in a row without a new checkpoint: {}",
                                    job.crashes_in_row, who);
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  } else {
    NERF_RETURN_IF_ERROR(
        EndPlacement(leased.change, QueueReason::kWorkerLost, /*keep_holder=*/false, who));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*leased.entry, std::move(leased.change)));
  state_.observer.OnAttemptEnded(leased.entry->job, "lease_expired");
  LogWarning("a gang is broken", {{"project", leased.entry->job.key.project},
                                  {"job", leased.entry->job.key.id},
                                  {"why", who}});
  return leased.entry->job;
}

absl::StatusOr<JobEntry*> LeaseTable::FindRanked(const LeaseRef& lease) {
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindJob(lease.job));
  NERF_RETURN_IF_ERROR(RequireHolder(entry->job, lease, "TellRanks"));
  // Only parts that share one lease are its members, by rank.
  NERF_RETURN_IF_ERROR(
      RequireKind(entry->job, !TraitsOf(entry->job).has_part_leases, "has no ranks"));
  return entry;
}

absl::StatusOr<std::vector<std::string>> LeaseTable::TellRanks(const LeaseRef& lease,
                                                               uint32_t sequence,
                                                               const std::string& text) {
  if (sequence >= kMaxRankTexts) return WrongText("too many texts");
  if (text.size() > kMaxRankTextBytes) return WrongText("the text is too long");
  {
    QueueLock lock(state_);
    NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindRanked(lease));
    const std::vector<std::string>& members = entry->job.lease.members;
    GangState::Meeting& meeting = gangs_.meetings[lease.job];
    if (meeting.epoch != lease.epoch) meeting = {lease.epoch, {}};
    auto& texts = meeting.texts[sequence];
    texts.resize(members.size());
    if (!texts[lease.part].has_value()) {
      texts[lease.part] = text;
      const bool is_complete = std::all_of(texts.begin(), texts.end(),
                                           [](const auto& each) { return each.has_value(); });
      for (const std::string& member : members) {
        if (is_complete) state_.Wake(member);
      }
    }
  }
  return RankTexts(lease, sequence);
}

absl::StatusOr<std::vector<std::string>> LeaseTable::RankTexts(const LeaseRef& lease,
                                                               uint32_t sequence) {
  QueueLock lock(state_);
  NERF_RETURN_IF_ERROR(FindRanked(lease).status());
  std::vector<std::string> result;
  const auto meeting = gangs_.meetings.find(lease.job);
  if (meeting == gangs_.meetings.end() || meeting->second.epoch != lease.epoch) return result;
  const auto texts = meeting->second.texts.find(sequence);
  if (texts == meeting->second.texts.end()) return result;
  for (const std::optional<std::string>& text : texts->second) {
    if (!text.has_value()) return std::vector<std::string>();
    result.push_back(*text);
  }
  return result;
}

}  // namespace nerf
