#include "server/queue/state/job_list_watcher.h"

#include <charconv>
#include <limits>
#include <utility>

#include "common/error_reason.h"
#include "common/ids.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr char kListTokenVersion[] = "rows2";
constexpr char kUnsignedListVersion[] = "rows1";

std::vector<std::string> UseOf(const JobListRequest& request) {
  return {"rows", request.project, request.filter.text()};
}

std::optional<uint64_t> ParseNumber(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobListWatcher>> JobListWatcher::Open(QueueState* state,
                                                                     JobListRequest request,
                                                                     std::function<void()> on_new) {
  auto signal = std::make_shared<WatchSignal>(std::move(on_new));
  std::unique_ptr<JobListWatcher> watcher(
      new JobListWatcher(state, std::move(request), std::move(signal)));
  NERF_RETURN_IF_ERROR(watcher->Start());
  return watcher;
}

absl::Status JobListWatcher::Start() {
  MutexLock lock(state_.mu);
  state_.SubscribeRows(request_.project, signal_);
  Restart();
  return request_.token.empty() ? absl::OkStatus() : Resume(request_.token);
}

JobListWatcher::JobListWatcher(QueueState* state, JobListRequest request,
                               std::shared_ptr<WatchSignal> signal)
    : state_(*state), request_(std::move(request)), signal_(std::move(signal)) {}

JobListWatcher::~JobListWatcher() {
  signal_->Disarm();
  MutexLock lock(state_.mu);
  state_.UnsubscribeRows(request_.project, signal_);
}

void JobListWatcher::Restart() {
  reset_due_ = true;
  below_ = std::numeric_limits<uint64_t>::max();
  n_present_ = 0;
  floor_ = 0;
  position_ = state_.rows().version();
}

absl::Status JobListWatcher::Resume(std::string_view token) {
  const absl::Status bad =
      InvalidFieldsError({{"resume_token", "must be a token of an earlier watch, unchanged"}});
  if (TokenSealer::IsUnsigned(token, kUnsignedListVersion)) return absl::OkStatus();
  const auto claimed = TokenSealer::Peek(token);
  if (!claimed.has_value() || claimed->size() != 4 || (*claimed)[0] != kListTokenVersion)
    return bad;
  // An earlier process may have had another secret: the list comes again.
  if ((*claimed)[1] != state_.process_id()) return absl::OkStatus();
  const auto parts = state_.token_sealer->Open(UseOf(request_), token);
  if (!parts.has_value()) return bad;
  const auto version = ParseNumber((*parts)[2]), floor = ParseNumber((*parts)[3]);
  if (!version.has_value() || !floor.has_value()) return bad;
  const bool is_known = *version <= state_.rows().version() && !state_.rows().HasGapAfter(*version);
  if (!is_known) return absl::OkStatus();
  reset_due_ = false;
  below_.reset();
  floor_ = *floor;
  position_ = *version;
  return absl::OkStatus();
}

std::optional<JobListBatch> JobListWatcher::TryNext() {
  MutexLock lock(state_.mu);
  if (!below_.has_value() && state_.rows().HasGapAfter(position_)) Restart();
  JobListBatch batch;
  batch.reset = std::exchange(reset_due_, false);
  if (below_.has_value()) {
    AddPresent(&batch);
  } else {
    AddChanged(&batch);
    if (batch.jobs.empty() && batch.removed.empty()) return std::nullopt;
  }
  batch.is_current = !below_.has_value() && !NextChange().has_value();
  batch.token = TokenLocked();
  return batch;
}

ListedJob ListedJobOf(QueueState& state, const Job& job) {
  ListedJob listed{state.RowOf(job), {}};
  if (job.state == JobState::kQueued) listed.place = PlaceOf(state, job);
  return listed;
}

void JobListWatcher::AddPresent(JobListBatch* batch) {
  auto it = state_.job_order().lower_bound(*below_);
  while (it != state_.job_order().begin() && batch->jobs.size() < kMaxBatch &&
         n_present_ < request_.max_jobs) {
    --it;
    const auto& [sequence, key] = *it;
    if (key.project != request_.project) continue;
    const Job& job = state_.EntryOf(key).job;
    if (!request_.filter.Matches(job)) continue;
    batch->jobs.push_back(ListedJobOf(state_, job));
    ++n_present_;
    below_ = sequence;
  }
  if (n_present_ == request_.max_jobs) {
    // Later changes of older jobs are not of this list.
    floor_ = request_.max_jobs == 0 ? std::numeric_limits<uint64_t>::max() : *below_;
    below_.reset();
  } else if (it == state_.job_order().begin()) {
    below_.reset();
  }
}

std::optional<std::pair<uint64_t, ResourceKey>> JobListWatcher::NextChange() {
  while (true) {
    auto change = state_.rows().After(position_);
    if (!change.has_value()) return std::nullopt;
    const JobEntry* const found = state_.FindEntry(change->second);
    const bool is_known =
        found == nullptr ||
        (found->job.create_sequence >= floor_ &&
         (request_.filter.Admits(found->job.kind) || state_.rows().WasDeleted(change->second)));
    if (change->second.project == request_.project && is_known) return change;
    position_ = change->first;
  }
}

void JobListWatcher::AddChanged(JobListBatch* batch) {
  while (batch->jobs.size() + batch->removed.size() < kMaxBatch) {
    const auto change = NextChange();
    if (!change.has_value()) return;
    position_ = change->first;
    const JobEntry* const found = state_.FindEntry(change->second);
    if (found != nullptr && request_.filter.Matches(found->job)) {
      batch->jobs.push_back(ListedJobOf(state_, found->job));
    } else {
      batch->removed.push_back(change->second);
    }
  }
}

std::string JobListWatcher::TokenLocked() const {
  if (below_.has_value()) return "";
  return state_.token_sealer->Seal(
      UseOf(request_),
      {kListTokenVersion, state_.process_id(), std::to_string(position_), std::to_string(floor_)});
}

std::string JobListWatcher::Token() {
  MutexLock lock(state_.mu);
  return TokenLocked();
}

}  // namespace nerf
