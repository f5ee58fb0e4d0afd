#include "server/queue/retention.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace nerf {
namespace {
constexpr absl::Duration kSweepInterval = absl::Hours(1);
constexpr size_t kSlice = 1000;  // records examined per acquisition of the lock
}  // namespace

Retention::Retention(QueueState* state) : state_(*state), swept_at_(state->clock.Now()) {}

absl::Status Retention::Sweep() {
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
  auto it = state_.jobs.upper_bound(*from);
  for (size_t n = 0; n < kSlice && it != state_.jobs.end(); ++n, ++it) {
    *from = it->first;
    if (!is_due(it->second)) continue;
    write.trimmed_events.emplace_back(it->first, it->second.job.last_event_sequence - 1);
  }
  const bool more = it != state_.jobs.end();
  if (write.trimmed_events.empty()) return more;
  const std::vector<std::pair<ResourceKey, uint64_t>> trimmed = write.trimmed_events;
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  for (const auto& [key, sequence] : trimmed) {
    // It may have been deleted meanwhile, and another job created under its id.
    const auto found = state_.jobs.find(key);
    if (found != state_.jobs.end() && found->second.job.last_event_sequence == sequence + 1) {
      found->second.log.Trim(1);
    }
  }
  return more;
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
    for (size_t n = 0; n < kSlice; ++n) {
      const auto oldest = state_.request_order.begin();
      more = oldest != state_.request_order.end() && oldest->first < before;
      if (!more) break;
      const auto found = state_.requests.find(oldest->second);
      if (found != state_.requests.end() && found->second.create_time < before) {
        state_.requests.erase(found);
      }
      state_.request_order.erase(oldest);
    }
  }
  return absl::OkStatus();
}

}  // namespace nerf
