// The part of QueueState about those who wait for changes: watchers and workers.
#include <algorithm>
#include <utility>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

void QueueState::SubscribeJob(JobEntry& entry, std::shared_ptr<WatchSignal> signal) {
  entry.log.Subscribe(std::move(signal));
  ++n_watchers_;
}

void QueueState::UnsubscribeJob(const ResourceKey& key, uint64_t create_sequence,
                                const std::shared_ptr<WatchSignal>& signal) {
  WatchLog& log = WatchedJob(key, create_sequence).log;
  log.Unsubscribe(signal);
  --n_watchers_;
  if (log.n_watchers() == 0) deleted_jobs_.erase(create_sequence);
}

JobEntry& QueueState::WatchedJob(const ResourceKey& key, uint64_t create_sequence) {
  const auto found = jobs_.find(key);
  const bool is_there =
      found != jobs_.end() && found->second.job.create_sequence == create_sequence;
  return is_there ? found->second : deleted_jobs_.at(create_sequence);
}

void QueueState::SubscribeRows(const std::string& project, std::shared_ptr<WatchSignal> signal) {
  if (process_id_.empty()) process_id_ = NewUuid4(random);
  rows_.Subscribe(project, std::move(signal));
  ++n_watchers_;
}

void QueueState::UnsubscribeRows(const std::string& project,
                                 const std::shared_ptr<WatchSignal>& signal) {
  rows_.Unsubscribe(project, signal);
  --n_watchers_;
}

void QueueState::ShowProgress(JobEntry& entry, const internal::JobProgress& progress) {
  if (AreEqual(entry.job.progress, progress)) return;
  if (progress.training().has_preview_image())
    NoteReference(ToBlobRef(progress.training().preview_image()));
  entry.job.progress = progress;
  entry.log.SetLiveProgress();
  entry.log.SignalAll(wake_);
  rows_.Changed(entry.job.key, wake_);
}

void QueueState::TakeCheckpoints(JobEntry& entry, std::vector<CheckpointRecord> checkpoints) {
  entry.job.checkpoints = std::move(checkpoints);
  rows_.Changed(entry.job.key, wake_);
}

void QueueState::SubscribeWork(const std::string& worker, std::shared_ptr<WatchSignal> signal) {
  work_signals_.emplace(worker, std::move(signal));
}

void QueueState::UnsubscribeWork(const std::string& worker,
                                 const std::shared_ptr<WatchSignal>& signal) {
  auto [it, end] = work_signals_.equal_range(worker);
  while (it != end && it->second != signal) ++it;
  if (it != end) work_signals_.erase(it);
}

void QueueState::Wake(const std::string& worker) {
  const auto [begin, end] = work_signals_.equal_range(worker);
  for (auto it = begin; it != end; ++it) wake_.push_back(it->second);
}

void QueueState::WakeAllWorkers() {
  for (const auto& [worker, signal] : work_signals_) wake_.push_back(signal);
}

void QueueState::WakeWorkers(const Job& job) {
  const bool is_order = job.state == JobState::kPausing || job.state == JobState::kCancelling;
  if (!is_order && !PolicyOf(job).WantsWorker(job)) return;
  for (const auto& [worker, signal] : work_signals_) {
    if (!is_order || job.lease.Has(worker)) wake_.push_back(signal);
  }
}

}  // namespace nerf
