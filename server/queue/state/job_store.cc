#include "server/queue/state/job_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error_reason.h"

namespace nerf {

absl::Status StaleEpochError(const JobWrite& write, const std::string& current) {
  return WithReason(absl::FailedPreconditionError(fmt::format("{} is at lease epoch {}, not {}",
                                                              JobName(write.job.key), current,
                                                              write.expected_epoch.value_or(0))),
                    reason::kLeaseFenced, {{"current_epoch", current}});
}

bool StoreWrite::MayUseReserve() const {
  const bool makes_something = !new_scenes.empty() || !models.empty() ||
                               std::any_of(jobs.begin(), jobs.end(), [](const JobWrite& job) {
                                 return !job.expected_epoch.has_value();
                               });
  const bool ends_something = !deleted_jobs.empty() || !deleted_scenes.empty() ||
                              !deleted_models.empty() ||
                              std::any_of(events.begin(), events.end(), [](const auto& event) {
                                return event.second.kind == JobEventKind::kStateChanged;
                              });
  return ends_something && !makes_something;
}

std::vector<absl::Status> JobStore::CommitAll(std::span<const StoreWrite* const> writes) {
  std::vector<absl::Status> statuses;
  for (const StoreWrite* write : writes) statuses.push_back(Commit(*write));
  return statuses;
}

}  // namespace nerf
