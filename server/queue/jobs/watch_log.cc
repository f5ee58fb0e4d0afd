#include "server/queue/jobs/watch_log.h"

#include <algorithm>
#include <charconv>

#include "common/error_reason.h"

namespace nerf {
namespace {

constexpr char kWatchTokenVersion[] = "watch2";
constexpr char kUnsignedWatchVersion[] = "watch1";

std::vector<std::string> UseOf(JobKind kind) { return {"watch", std::string(JobKindName(kind))}; }

}  // namespace

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

std::string EncodeWatchToken(const TokenSealer& sealer, JobKind kind,
                             const WatchPosition& position) {
  return sealer.Seal(UseOf(kind), {kWatchTokenVersion, position.store_epoch, position.job.project,
                                   position.job.id, std::to_string(position.sequence)});
}

absl::Status ForeignWatchToken() {
  return WithReason(absl::DataLossError("the token is of another store: watch without it"),
                    reason::kEpochMismatch);
}

absl::StatusOr<WatchPosition> ParseWatchToken(const TokenSealer& sealer, JobKind kind,
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
  const auto parts = sealer.Open(UseOf(kind), token);
  if (!parts.has_value()) return bad;
  const std::string& digits = (*parts)[4];
  WatchPosition position{(*parts)[1], {(*parts)[2], (*parts)[3]}, 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), position.sequence);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  return position;
}

}  // namespace nerf
