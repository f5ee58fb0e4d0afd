#include "server/queue/upkeep/retention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace nerf {
namespace {
constexpr absl::Duration kSweepInterval = absl::Hours(1);
constexpr size_t kRecordsPerLock = 1000;  // records examined per acquisition of the lock
}  // namespace

Retention::Retention(QueueState* state, size_t max_requests)
    : state_(*state), max_requests_(max_requests), swept_at_(state->clock.Now()) {}

absl::Status Retention::Sweep() {
  NERF_RETURN_IF_ERROR(ForgetSurplusRequests());
  const SteadyTime now = state_.clock.Now();
  if (now - swept_at_ < kSweepInterval) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(ForgetRequests());
  ResourceKey from;
  bool more = true;
  while (more) {
    NERF_ASSIGN_OR_RETURN(more, TrimEvents(&from));
  }
  swept_at_ = now;
  return absl::OkStatus();
}

absl::StatusOr<bool> Retention::TrimEvents(ResourceKey* from) {
  QueueLock lock(state_);
  const SteadyTime long_ago = state_.clock.Now() + -state_.options.final_events_retention;
  const auto is_due = [&](const JobEntry& entry) {
    // By then watchers have read the end. The last event is kept.
    return IsFinal(entry.job.state) && entry.log.size() > 1 && entry.ended_at <= long_ago;
  };
  StoreWrite write;
  auto it = state_.jobs().upper_bound(*from);
  for (size_t n = 0; n < kRecordsPerLock && it != state_.jobs().end(); ++n, ++it) {
    *from = it->first;
    if (!is_due(it->second)) continue;
    write.trimmed_events.emplace_back(it->first, it->second.job.last_event_sequence - 1);
  }
  const bool more = it != state_.jobs().end();
  if (write.trimmed_events.empty()) return more;
  const std::vector<std::pair<ResourceKey, uint64_t>> trimmed = write.trimmed_events;
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  for (const auto& [key, sequence] : trimmed) {
    // It may have been deleted meanwhile, and another job created under its id.
    JobEntry* const found = state_.FindEntry(key);
    if (found != nullptr && found->job.last_event_sequence == sequence + 1) {
      found->log.Trim(1);
    }
  }
  return more;
}

absl::Status Retention::ForgetSurplusRequests() {
  {
    MutexLock lock(state_.mu);
    if (state_.requests().size() <= max_requests_) return absl::OkStatus();
  }
  for (auto& [project, times] : SurplusTimes()) {
    const auto oldest_kept = times.end() - static_cast<std::ptrdiff_t>(max_requests_);
    std::nth_element(times.begin(), oldest_kept, times.end());
    NERF_RETURN_IF_ERROR(ForgetRequestsOf(project, *oldest_kept));
  }
  return absl::OkStatus();
}

std::map<std::string, std::vector<absl::Time>> Retention::SurplusTimes() {
  std::map<std::string, std::vector<absl::Time>> times;
  RequestLog::Key from;
  bool more = true;
  while (more) {
    MutexLock lock(state_.mu);
    more = state_.requests().VisitSlice(kRecordsPerLock, &from, [&](const RequestRecord& record) {
      times[record.project].push_back(record.create_time);
    });
  }
  std::erase_if(times, [this](const auto& item) { return item.second.size() <= max_requests_; });
  return times;
}

absl::Status Retention::ForgetRequestsOf(const std::string& project, absl::Time before) {
  {
    QueueLock lock(state_);
    StoreWrite write;
    write.forget_requests_of.emplace_back(project, before);
    NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  }
  RequestLog::Key from(project, "");
  bool more = true;
  while (more) {
    QueueLock lock(state_);
    more = state_.requests().ForgetSliceOf(kRecordsPerLock, &from, before);
  }
  return absl::OkStatus();
}

absl::Status Retention::ForgetRequests() {
  const absl::Time before = state_.Age() - state_.options.request_retention;
  {
    QueueLock lock(state_);
    StoreWrite write;
    write.forget_requests_before = before;
    write.age = state_.Age();
    NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  }
  bool more = true;
  while (more) {
    QueueLock lock(state_);
    more = state_.requests().ForgetSlice(kRecordsPerLock, before);
  }
  return absl::OkStatus();
}

}  // namespace nerf
