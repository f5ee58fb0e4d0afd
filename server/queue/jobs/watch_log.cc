#include "server/queue/jobs/watch_log.h"

#include <algorithm>

namespace nerf {

void WatchSignal::Fire() {
  MutexLock lock(mu_);
  if (callback_) callback_();
}

void WatchSignal::Disarm() {
  MutexLock lock(mu_);
  callback_ = nullptr;
}

void WatchLog::Append(JobEvent event, SteadyTime now) {
  events_.push_back(std::move(event));
  times_.push_back(now);
  event_version_ = live_version_;
}

void WatchLog::Trim(size_t max_events) {
  while (events_.size() > max_events) {
    events_.pop_front();
    times_.pop_front();
  }
}

const JobEvent* WatchLog::At(uint64_t sequence) const {
  if (events_.empty() || sequence < events_.front().sequence) return nullptr;
  const uint64_t index = sequence - events_.front().sequence;
  return index < events_.size() ? &events_[index] : nullptr;
}

const JobEvent* WatchLog::After(uint64_t sequence) const {
  if (events_.empty() || sequence >= events_.back().sequence) return nullptr;
  const uint64_t first = events_.front().sequence;
  return &events_[sequence < first ? 0 : sequence - first + 1];
}

bool WatchLog::HasGapAfter(uint64_t sequence, uint64_t last_sequence) const {
  if (sequence >= last_sequence) return false;
  return events_.empty() || events_.front().sequence > sequence + 1;
}

std::optional<uint32_t> WatchLog::NextCheckpointStepAfter(uint64_t sequence) const {
  const auto found = std::find_if(events_.begin(), events_.end(), [&](const JobEvent& event) {
    return event.sequence > sequence && event.kind == JobEventKind::kCheckpointCommitted;
  });
  if (found == events_.end()) return std::nullopt;
  return found->checkpoint_step;
}

void WatchLog::Subscribe(std::shared_ptr<WatchSignal> signal) {
  signals_.push_back(std::move(signal));
}

void WatchLog::Unsubscribe(const std::shared_ptr<WatchSignal>& signal) {
  signals_.erase(std::remove(signals_.begin(), signals_.end(), signal), signals_.end());
}

void WatchLog::SignalAll(std::vector<std::shared_ptr<WatchSignal>>& wake) const {
  wake.insert(wake.end(), signals_.begin(), signals_.end());
}

}  // namespace nerf
