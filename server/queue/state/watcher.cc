#include "server/queue/state/watcher.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/error_reason.h"
#include "server/queue/kinds/kind_policy.h"

namespace nerf {
namespace {

constexpr char kWatchTokenVersion[] = "watch2";
constexpr char kUnsignedWatchVersion[] = "watch1";

std::vector<std::string> Use() { return {"watch"}; }

// The job as it was right after a stored event, without later errors, checkpoints and times.
// Checkpoints that have been retired since are missing.
Job JobAt(const JobEntry& entry, const JobEvent& event) {
  Job then = entry.job;
  then.state = event.state;
  then.queue_reason = event.queue_reason;
  if (event.sequence != entry.job.last_event_sequence) then.queue_message.clear();
  then.attempt = event.attempt;
  // An event names the first worker alone.
  if (entry.job.lease.holder() != event.worker) {
    then.lease.members.clear();
    if (!event.worker.empty()) then.lease.members.push_back(event.worker);
  }
  then.progress = event.progress;
  then.last_event_sequence = event.sequence;
  if (!IsFinal(event.state)) {
    then.error = {};
    then.final_psnr.reset();
    then.end_time = absl::InfinitePast();
  }
  if (then.start_time > event.time) then.start_time = absl::InfinitePast();
  // Compares steps, which grow with every commit. The wall clock may jump.
  if (const auto next_step = entry.log.NextCheckpointStepAfter(event.sequence)) {
    std::erase_if(then.checkpoints, [&](const CheckpointRecord& checkpoint) {
      return checkpoint.step >= *next_step;
    });
  }
  return then;
}

WatchEventKind ToWatchKind(JobEventKind kind) {
  switch (kind) {
    case JobEventKind::kStateChanged:
      return WatchEventKind::kStateChanged;
    case JobEventKind::kProgress:
      return WatchEventKind::kProgress;
    case JobEventKind::kCheckpointCommitted:
      return WatchEventKind::kCheckpointCommitted;
    case JobEventKind::kUpdated:
      return WatchEventKind::kUpdated;
  }
  return WatchEventKind::kSnapshot;
}

}  // namespace

Watcher::Watcher(QueueState* state, ResourceKey key, uint64_t create_sequence,
                 std::shared_ptr<WatchSignal> signal, uint64_t position)
    : state_(*state),
      key_(std::move(key)),
      create_sequence_(create_sequence),
      signal_(std::move(signal)),
      position_(position) {}

JobEntry& Watcher::Entry() const { return state_.WatchedJob(key_, create_sequence_); }

Watcher::~Watcher() {
  signal_->Disarm();
  MutexLock lock(state_.mu);
  state_.UnsubscribeJob(key_, create_sequence_, signal_);
}

std::optional<WatchEvent> Watcher::TryNext() {
  MutexLock lock(state_.mu);
  const JobEntry& entry = Entry();
  const uint64_t last = entry.job.last_event_sequence;
  WatchEvent next;
  const bool is_first = std::exchange(snapshot_due_, false);
  const JobEvent* const resumed_at =
      is_first && position_ < last ? entry.log.At(position_) : nullptr;
  if (resumed_at != nullptr) {
    next.kind = WatchEventKind::kSnapshot;
    next.job = JobAt(entry, *resumed_at);
  } else if (is_first || entry.log.HasGapAfter(position_, last)) {
    next.kind = WatchEventKind::kSnapshot;
    next.gap = position_ < last;
    if (next.gap) state_.observer.OnWatchGap(/*resumed=*/is_first);
    next.job = entry.job;
    position_ = last;
    live_version_ = entry.log.live_version();
  } else if (const JobEvent* event = entry.log.After(position_); event != nullptr) {
    next.kind = ToWatchKind(event->kind);
    next.job = JobAt(entry, *event);
    position_ = event->sequence;
    // The delay of a reader that still reads earlier events would be its own.
    if (waits_) state_.observer.OnWatchEvent(state_.MachineNow() - entry.log.TimeOf(position_));
    if (position_ == last) {
      live_version_ = std::max(live_version_, entry.log.event_version());
    }
  } else if (live_version_ < entry.log.live_version() && !IsFinal(entry.job.state)) {
    next.kind = WatchEventKind::kProgress;
    next.job = entry.job;
    live_version_ = entry.log.live_version();
  } else {
    waits_ = true;
    return std::nullopt;
  }
  waits_ = false;
  next.sequence = position_;
  next.token = TokenLocked();
  return next;
}

std::string Watcher::Token() {
  MutexLock lock(state_.mu);
  return TokenLocked();
}

std::string Watcher::TokenLocked() const {
  return EncodeWatchToken(*state_.token_sealer, {state_.store_epoch, key_, position_});
}

bool Watcher::finished() {
  MutexLock lock(state_.mu);
  const Job& job = Entry().job;
  return !snapshot_due_ && IsFinal(job.state) && position_ >= job.last_event_sequence;
}

std::string EncodeWatchToken(const TokenSealer& sealer, const WatchPosition& position) {
  return sealer.Seal(Use(), {kWatchTokenVersion, position.store_epoch, position.job.project,
                             position.job.id, std::to_string(position.sequence)});
}

absl::Status ForeignWatchToken() {
  return WithReason(absl::DataLossError("the token is of another store: watch without it"),
                    reason::kEpochMismatch);
}

absl::StatusOr<WatchPosition> ParseWatchToken(const TokenSealer& sealer,
                                              std::string_view store_epoch,
                                              std::string_view token) {
  const absl::Status bad =
      InvalidFieldsError({{"resume_token", "must be a token of an earlier watch, unchanged"}});
  if (TokenSealer::IsUnsigned(token, kUnsignedWatchVersion)) return ForeignWatchToken();
  // Another store has another secret. Its epoch may be a lie, but the answer reveals nothing.
  const auto claimed = TokenSealer::Peek(token);
  if (!claimed.has_value() || claimed->size() != 5 || (*claimed)[0] != kWatchTokenVersion)
    return bad;
  if ((*claimed)[1] != store_epoch) return ForeignWatchToken();
  const auto parts = sealer.Open(Use(), token);
  if (!parts.has_value()) return bad;
  const std::string& digits = (*parts)[4];
  WatchPosition position{(*parts)[1], {(*parts)[2], (*parts)[3]}, 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), position.sequence);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  return position;
}

}  // namespace nerf
