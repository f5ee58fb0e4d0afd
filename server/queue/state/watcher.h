#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/queue/jobs/job.h"
#include "server/queue/resources/resource_key.h"
#include "server/queue/resources/token_sealer.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

enum class WatchEventKind { kSnapshot, kStateChanged, kProgress, kCheckpointCommitted, kUpdated };

// One message of a watch.
struct WatchEvent {
  WatchEventKind kind = WatchEventKind::kSnapshot;
  std::string token;      // resumes after this message
  uint64_t sequence = 0;  // of the stored event; live progress carries the last one before it
  bool gap = false;       // on a snapshot: events before it were dropped and are not delivered
  Job job;                // as it was right after the event
};

// One reader's position in a job's events. The reader asks for the next event; nothing is buffered
// for it, so a slow reader costs nothing. It gets every state change and checkpoint, and of
// progress only the latest.
//
// The first event is a snapshot: of the job now or, with a token, of the job at the token's event.
// Later events follow in order. When events after the position have been dropped, a snapshot of now
// with gap = true stands in their place. A job that is deleted meanwhile can be read to its end.
//
// Thread-safe, but meant for one reader. The queue outlives it.
class Watcher {
 public:
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // The next event, or nullopt when nothing is new: the callback given to Watch runs when that
  // changes. Never waits for the store.
  std::optional<WatchEvent> TryNext();

  // A token of the current position, for a BOOKMARK.
  std::string Token();

  // True once the job is final and its last event has been returned.
  bool finished();

 private:
  friend class JobQueue;
  Watcher(QueueState* state, ResourceKey key, uint64_t create_sequence,
          std::shared_ptr<WatchSignal> signal, uint64_t position);
  std::string TokenLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  JobEntry& Entry() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
  const ResourceKey key_;
  const uint64_t create_sequence_;  // distinguishes the job from a later one of the same id
  const std::shared_ptr<WatchSignal> signal_;
  uint64_t position_ ABSL_GUARDED_BY(state_.mu);  // last sequence that was returned
  uint64_t live_version_ ABSL_GUARDED_BY(state_.mu) = 0;
  bool snapshot_due_ ABSL_GUARDED_BY(state_.mu) = true;
  // TryNext found nothing new, and the next event is the first since then.
  bool waits_ ABSL_GUARDED_BY(state_.mu) = false;
};

// The position of a watch: what an opaque token encodes.
struct WatchPosition {
  std::string store_epoch;
  ResourceKey job;
  uint64_t sequence = 0;
};
std::string EncodeWatchToken(const TokenSealer& sealer, const WatchPosition& position);
// The position that a token of the store `store_epoch` has. Errors: InvalidArgument FIELD_INVALID
// if EncodeWatchToken did not make the text; DataLoss EPOCH_MISMATCH for a token of another store,
// or of a version that did not sign them.
absl::StatusOr<WatchPosition> ParseWatchToken(const TokenSealer& sealer,
                                              std::string_view store_epoch, std::string_view token);
// DataLoss EPOCH_MISMATCH.
absl::Status ForeignWatchToken();

}  // namespace nerf
