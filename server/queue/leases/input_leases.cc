// The part of LeaseTable that is about jobs whose files are damaged or missing in the blob store.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/lease_table.h"

namespace nerf {

std::vector<JobInput> LeaseTable::CurrentInputs(const Job& job) {
  return PolicyOf(job).InputsOf(job, state_.FindScene({job.key.project, SceneReadBy(job)}));
}

std::vector<JobInput> LeaseTable::LackingOf(std::vector<JobInput> inputs) {
  std::vector<BlobRef> blobs;
  for (const JobInput& input : inputs) blobs.push_back(input.blob);
  const std::vector<BlobRef> found = state_.blobs.FindMissing(blobs);
  const std::set<BlobRef> missing(found.begin(), found.end());
  std::erase_if(inputs, [&](const JobInput& input) { return !missing.contains(input.blob); });
  return inputs;
}

std::optional<std::vector<JobInput>> LeaseTable::LackOf(const LeaseRef& lease,
                                                        const JobOutcome& outcome) {
  if (outcome.kind != JobOutcome::Kind::kFailed) return std::nullopt;
  const JobError& error = outcome.error;
  const bool is_damage = error.reason == reason::kBlobDamaged;
  const bool may_be_missing =
      error.code == absl::StatusCode::kDataLoss || error.code == absl::StatusCode::kNotFound;
  if (!is_damage && !may_be_missing) return std::nullopt;
  std::vector<JobInput> inputs;
  {
    MutexLock lock(state_.mu);
    const JobEntry* const found = state_.FindEntry(lease.job);
    if (found != nullptr) inputs = CurrentInputs(found->job);
  }
  inputs = LackingOf(std::move(inputs));
  // Of damage nothing may be left: somebody has uploaded it meanwhile.
  if (inputs.empty() && !is_damage) return std::nullopt;
  return inputs;
}

absl::StatusOr<Job> LeaseTable::AwaitInputs(LeasedChange leased, uint32_t part,
                                            std::vector<JobInput> lacking) {
  JobEntry& entry = *leased.entry;
  const std::string text = LackText(lacking);
  NERF_RETURN_IF_ERROR(
      EndLease(leased.change, part, QueueReason::kBlobsMissing, /*keep_holder=*/false));
  // Before it is queued: whoever is woken by that sees that it waits.
  if (!lacking.empty()) state_.SetLacking(entry.job.key, std::move(lacking));
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(leased.change)));
  state_.observer.OnAttemptEnded(entry.job, "blobs_missing");
  LogWarning("a job waits for an upload",
             {{"project", entry.job.key.project}, {"job", entry.job.key.id}, {"message", text}});
  return entry.job;
}

void LeaseTable::LookForInputs() {
  std::vector<std::pair<ResourceKey, std::vector<JobInput>>> jobs;
  {
    MutexLock lock(state_.mu);
    const std::set<ResourceKey>& lacking = state_.lacking_jobs();
    for (auto it = lacking.begin(); it != lacking.end();) {
      const ResourceKey key = *it++;
      const JobEntry* const found = state_.FindEntry(key);
      if (found != nullptr && state_.IsClaimed({ClaimKey::Kind::kJob, key})) continue;
      if (found == nullptr || !found->waits) {
        state_.SetLacking(key, {});
        continue;
      }
      // After a restart nobody knows yet what is missing.
      jobs.emplace_back(key, found->lacking.empty() ? CurrentInputs(found->job) : found->lacking);
    }
  }
  if (jobs.empty()) return;
  // Without the lock, because it reads the file system.
  for (auto& [key, inputs] : jobs) inputs = LackingOf(std::move(inputs));
  QueueLock lock(state_);
  bool any_ready = false;
  for (auto& [key, inputs] : jobs) {
    if (state_.FindEntry(key) == nullptr || !state_.lacking_jobs().contains(key)) continue;
    const bool is_ready = inputs.empty();
    state_.SetLacking(key, std::move(inputs));
    if (!is_ready) continue;
    any_ready = true;
    LogInfo("a job has its files again", {{"project", key.project}, {"job", key.id}});
  }
  if (!any_ready) return;
  state_.WakeAllWorkers();
}

}  // namespace nerf
