#include "server/queue/jobs/row_log.h"

namespace nerf {

void RowLog::Move(const ResourceKey& job) {
  ++version_;
  rows_.Drop(job);
  uint64_t& version = version_of_[job];
  if (version != 0) {
    jobs_.erase(version);
    if (deleted_.erase(version) > 0) deleted_before_.insert(job);
  }
  version = version_;
  jobs_.emplace(version_, job);
}

void RowLog::Changed(const ResourceKey& job, std::vector<std::shared_ptr<WatchSignal>>& wake) {
  Move(job);
  SignalAll(job.project, wake);
}

void RowLog::Deleted(const ResourceKey& job, std::vector<std::shared_ptr<WatchSignal>>& wake) {
  Move(job);
  deleted_before_.erase(job);
  deleted_.insert(version_);
  SignalAll(job.project, wake);
  if (deleted_.size() <= kMaxDeleted) return;
  forgotten_ = *deleted_.begin();
  version_of_.erase(jobs_.at(forgotten_));
  jobs_.erase(forgotten_);
  deleted_.erase(deleted_.begin());
}

std::optional<std::pair<uint64_t, ResourceKey>> RowLog::After(uint64_t version) const {
  const auto found = jobs_.upper_bound(version);
  if (found == jobs_.end()) return std::nullopt;
  return *found;
}

void RowLog::Subscribe(const std::string& project, std::shared_ptr<WatchSignal> signal) {
  signals_.emplace(project, std::move(signal));
}

void RowLog::Unsubscribe(const std::string& project, const std::shared_ptr<WatchSignal>& signal) {
  const auto [begin, end] = signals_.equal_range(project);
  for (auto it = begin; it != end; ++it) {
    if (it->second != signal) continue;
    signals_.erase(it);
    if (signals_.empty()) rows_.Clear();
    return;
  }
}

void RowLog::SignalAll(const std::string& project,
                       std::vector<std::shared_ptr<WatchSignal>>& wake) const {
  const auto [begin, end] = signals_.equal_range(project);
  for (auto it = begin; it != end; ++it) wake.push_back(it->second);
}

}  // namespace nerf
