#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/queue/job.h"
#include "server/queue/queue_state.h"

namespace nerf {

enum class WatchEventKind { kSnapshot, kStateChanged, kProgress, kCheckpointCommitted };

// One message of a watch.
struct WatchEvent {
  WatchEventKind kind = WatchEventKind::kSnapshot;
  std::string token;      // resumes after this message
  uint64_t sequence = 0;  // of the stored event; live progress carries the last one before it
  bool gap = false;       // on a snapshot: events before it were dropped unseen
  Job job;                // as it was right after the event
};

// One reader's place in a job's events. Pulled: it holds a position and no buffer, so a slow reader
// costs nothing and gets progress coalesced (the latest), state changes and checkpoints all.
//
// The first event is a snapshot: without a token of now, with a token of the job as it was there.
// Every event after it follows, so a reader never sees an older state after a newer one. Where the
// log does not reach back to the position any more, a snapshot of now with gap = true stands in
// place of what is missing. A job that is deleted meanwhile is read to its end all the same.
//
// Thread-safe, but meant for one reader. The queue outlives it.
class Watcher {
 public:
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // The next event, or nullopt when nothing is new: the callback given to Watch runs when that
  // changes. Never blocks on I/O of the store for longer than the queue does.
  std::optional<WatchEvent> TryNext();

  // A token of the present position, for a BOOKMARK.
  std::string Token();

  // True once the job is final and its last event has been returned.
  bool finished();

 private:
  friend class JobQueue;
  Watcher(QueueState* state, ResourceKey key, uint64_t create_sequence,
          std::shared_ptr<WatchSignal> signal, uint64_t position);
  JobEntry& Entry() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
  const ResourceKey key_;
  const uint64_t create_sequence_;  // tells the job from a later one of the same id
  const std::shared_ptr<WatchSignal> signal_;
  uint64_t position_ ABSL_GUARDED_BY(state_.mu);  // last sequence that was returned
  uint64_t live_version_ ABSL_GUARDED_BY(state_.mu) = 0;
  bool snapshot_due_ ABSL_GUARDED_BY(state_.mu) = true;
};

}  // namespace nerf
