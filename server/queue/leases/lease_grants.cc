// The part of LeaseTable that chooses the next job of a worker.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/state/part_jobs.h"
#include "server/queue/state/quota.h"

namespace nerf {

LeaseGrant LeaseTable::MakeGrant(const JobEntry& entry, const std::string& worker) {
  LeaseGrant grant;
  grant.lease = {entry.job.key, worker, entry.job.lease.epoch, 0};
  const std::vector<std::string>& members = entry.job.lease.members;
  grant.n_ranks = static_cast<uint32_t>(members.size());
  for (uint32_t rank = 0; rank < grant.n_ranks; ++rank) {
    if (members[rank] == worker) grant.lease.part = rank;
    grant.one_host =
        grant.one_host && gangs_.HostOf(members[rank]) == gangs_.HostOf(members.front());
  }
  grant.job = entry.job;
  if (!SceneReadBy(entry.job).empty()) {
    grant.scene = state_.scenes().at({entry.job.key.project, SceneReadBy(entry.job)});
  }
  if (!entry.job.checkpoints.empty()) grant.resume = entry.job.checkpoints.back();
  grant.ttl = state_.options.lease_ttl;
  grant.alone = entry.job.crashed_since_checkpoint;
  return grant;
}

bool LeaseTable::GoesElsewhere(const JobEntry& entry, const std::string& worker) {
  if (workers_ == nullptr) return false;
  const Job& job = entry.job;
  const bool crashed_here =
      std::find(job.crashed_on.begin(), job.crashed_on.end(), worker) != job.crashed_on.end();
  if (!crashed_here && !entry.aside.no_room_on.contains(worker)) return false;
  std::set<std::string> tried = entry.aside.no_room_on;
  tried.insert(job.crashed_on.begin(), job.crashed_on.end());
  if (!workers_->AnotherOffers(job.key.project, CapabilityOf(job), tried)) return false;
  // The others may be busy for long. The last attempt is never made where the job has crashed.
  const bool is_last_attempt =
      job.crashes_in_row + 1 >= static_cast<uint32_t>(state_.options.max_attempts);
  return (crashed_here && is_last_attempt) ||
         state_.clock.Now() - entry.queued_at < kElsewherePause;
}

void LeaseTable::PutAside(JobEntry& entry, const std::string& worker) {
  entry.aside.no_room_on.insert(worker);
  // A gang may need the same worker again, and waits for room in any case.
  const bool is_gang = WantsGang(entry.job);
  if (!is_gang && workers_ != nullptr &&
      workers_->AnotherOffers(entry.job.key.project, CapabilityOf(entry.job),
                              entry.aside.no_room_on)) {
    return;
  }
  if (!is_gang) entry.aside.no_room_on.clear();
  absl::Duration pause = kFirstNoRoomPause;
  for (int i = 0; i < entry.aside.n_rounds && pause < kMaxNoRoomPause; ++i) pause *= 2;
  ++entry.aside.n_rounds;
  state_.SetAside(entry, state_.clock.Now() + std::min(pause, kMaxNoRoomPause));
}

std::optional<LeaseTable::NextJob> LeaseTable::FirstOfProject(const std::string& project,
                                                              const GrantRequest& request,
                                                              std::optional<WaitingGang>* ahead) {
  const SteadyTime now = state_.clock.Now();
  for (const auto& [rank, capability] : state_.index().queues().at(project)) {
    if (!OffersCapability(request.capabilities, capability)) continue;
    JobEntry& entry = state_.EntryAt(rank.create_sequence);
    const ResourceKey& key = entry.job.key;
    if (state_.IsClaimed({ClaimKey::Kind::kJob, key})) continue;
    if (now < entry.aside.until || state_.lacking_jobs().contains(key)) continue;
    if (!PartMayStart(state_, entry.job)) continue;
    NextJob next{&entry, std::nullopt};
    if (WantsGang(entry.job)) {
      const std::vector<GangCandidate> candidates = CandidatesFor(entry, request);
      const WorkerCount& wanted = entry.job.training.workers;
      next.gang = ChooseGang(wanted, request.worker, candidates);
      if (!next.gang.has_value()) {
        if (!ahead->has_value()) {
          *ahead = WaitFor(entry, OutlookOf(wanted, request.worker, candidates));
        }
        continue;
      }
    } else if (GoesElsewhere(entry, request.worker)) {
      continue;
    }
    if (ahead->has_value() && !MayStartBefore(**ahead, entry.job)) continue;
    return next;
  }
  return std::nullopt;
}

// Fair shares do not apply: the job takes the place of one of its own project.
JobEntry* LeaseTable::TakeReserved(const GrantRequest& request) {
  const ReservedWorker* const reserved = state_.ReservationOf(request.worker);
  if (reserved == nullptr) return nullptr;
  const auto [job, until] = *reserved;
  JobEntry* const found = state_.FindEntry(job);
  const bool is_claimed = state_.IsClaimed({ClaimKey::Kind::kJob, job});
  const bool may_start = found != nullptr && state_.clock.Now() < until && !is_claimed &&
                         found->waits && !state_.lacking_jobs().contains(job) &&
                         PartMayStart(state_, found->job) &&
                         OffersCapability(request.capabilities, CapabilityOf(found->job));
  if (may_start && WantsGang(found->job)) return found;  // until all are free
  state_.FreeWorker(request.worker);
  return may_start && WhyNoMoreLeases(state_, job.project).empty() ? found : nullptr;
}

std::optional<LeaseTable::NextJob> LeaseTable::NextFor(const GrantRequest& request) {
  if (workers_ != nullptr && !workers_->MayTakeJob(request.worker)) return std::nullopt;
  std::map<std::string, size_t> at_work;
  for (const auto& [project, queue] : state_.index().queues()) at_work[project] = 0;
  for (const auto& [project_and_state, n] : state_.index().counts()) {
    const auto found = at_work.find(project_and_state.first);
    if (found != at_work.end() && HoldsLease(project_and_state.second)) found->second += n;
  }
  if (JobEntry* const entry = TakeReserved(request)) {
    if (!WantsGang(entry->job)) return NextJob{entry, std::nullopt};
    std::optional<GangChoice> gang =
        ChooseGang(entry->job.training.workers, request.worker, CandidatesFor(*entry, request));
    const bool may_start = WhyNoMoreLeases(state_, entry->job.key.project).empty();
    if (!gang.has_value() || !may_start) return std::nullopt;
    return NextJob{entry, std::move(gang)};
  }
  std::optional<WaitingGang> ahead;
  for (const std::string& project : fair_share_.Order(at_work)) {
    if (!WhyNoMoreLeases(state_, project).empty()) continue;
    if (workers_ != nullptr && !workers_->MayTakeJob(request.worker, project)) continue;
    const std::optional<NextJob> next = FirstOfProject(project, request, &ahead);
    if (next.has_value()) return next;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<LeaseGrant>> LeaseTable::Acquire(const GrantRequest& request) {
  RequestCheck check;
  check.RequireId("worker", request.worker);
  NERF_RETURN_IF_ERROR(check.Result());
  QueueLock lock(state_);
  std::optional<LeaseGrant> promised = TakePromised(request.worker);
  if (promised.has_value() || gangs_.promised.contains(request.worker)) return promised;
  NoteAsker(request);
  const std::optional<NextJob> next = NextFor(request);
  if (!next.has_value()) return std::optional<LeaseGrant>();
  JobEntry* const entry = next->entry;
  gangs_.askers[request.worker].waits = false;
  fair_share_.Granted(entry->job.key.project);
  const GrantInProgress counted(state_, entry->job.key.project);
  if (TraitsOf(entry->job).has_part_leases) return AcquirePart(*entry, request.worker);
  if (next->gang.has_value()) return GrantGang(*entry, request.worker, *next->gang);
  JobChange change(*entry, state_.clock.WallNow());
  ++change.job.lease.epoch;
  ++change.job.attempt;
  change.job.lease.members = {request.worker};
  NERF_RETURN_IF_ERROR(change.Move(JobState::kPreparing));
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return std::optional(MakeGrant(*entry, request.worker));
}

}  // namespace nerf
