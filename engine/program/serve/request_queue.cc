#include "engine/program/serve/request_queue.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "engine/program/serve/request_check.h"

namespace nerf {
namespace {

// Requests beyond this, of a worker that does not read its answers, get errors.
constexpr size_t kMaxWaitingBytes = size_t{64} << 20;
// Beyond this many requests, errors in a row are answered by one.
constexpr size_t kMaxErrorsApart = 1000;

bool IsRenderOrCheck(const QueuedRequest& queued) {
  return queued.ok() && (queued.request.has_render() || queued.request.has_check());
}

bool IsLive(const QueuedRequest& queued) {
  return queued.ok() && queued.request.render().has_live();
}

bool IsStopOf(const QueuedRequest& queued, const std::string& job) {
  return queued.ok() && queued.request.has_stop() && queued.request.job() == job;
}

}  // namespace

void RequestQueue::Put(absl::StatusOr<internal::WorkerRequest> request, size_t byte_size) {
  QueuedRequest queued{.status = request.status(), .byte_size = byte_size};
  if (request.ok()) {
    queued.status = CheckRequest(*request);
    queued.request = *std::move(request);
  }
  const std::string& job = queued.request.job();
  MutexLock lock(mu_);
  if (queued.ok() && queued.request.has_cancel()) return Cancel(queued.request.id());
  if (queued.ok() && queued.request.has_rank_texts()) {
    const v1::RankTexts& texts = queued.request.rank_texts();
    if (job == job_) rank_texts_[texts.sequence()] = {texts.texts().begin(), texts.texts().end()};
    changed_.NotifyAll();
    return;
  }
  const bool stops_job = !job_.empty() && IsStopOf(queued, job_);
  if (stops_job) job_source_.request_stop();
  if (IsRenderOrCheck(queued) && open_.contains(queued.request.id())) {
    queued.status = absl::AlreadyExistsError("a request of this id is not answered yet");
  }
  // A job does not wait for renders, which go on beside it.
  const bool urgent = stops_job || queued.request.has_train();
  PutInto(urgent ? &urgent_ : &waiting_, std::move(queued));
}

void RequestQueue::PutInto(std::deque<QueuedRequest>* queue, QueuedRequest request) {
  if (waiting_bytes_ + request.byte_size > kMaxWaitingBytes) {
    request = {.status = absl::InvalidArgumentError("too many requests wait")};
  }
  if (!request.ok() && queue->size() > kMaxErrorsApart && !queue->back().ok()) return;
  if (IsRenderOrCheck(request)) request.stop = open_[request.request.id()].get_token();
  waiting_bytes_ += request.byte_size;
  const auto after =
      IsLive(request) ? std::find_if_not(queue->begin(), queue->end(), IsLive) : queue->end();
  queue->insert(after, std::move(request));
  changed_.NotifyAll();
}

void RequestQueue::Cancel(const std::string& id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  found->second.request_stop();
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& queued) {
    return IsRenderOrCheck(queued) && queued.request.id() == id;
  });
  if (waits == waiting_.end()) return;
  // It is answered before the requests that still have to be done.
  urgent_.push_back(std::move(*waits));
  waiting_.erase(waits);
  changed_.NotifyAll();
}

void RequestQueue::End() {
  MutexLock lock(mu_);
  ended_ = true;
  job_source_.request_stop();
  for (auto& [id, source] : open_) source.request_stop();
  changed_.NotifyAll();
}

std::optional<QueuedRequest> RequestQueue::Pop(std::deque<QueuedRequest>* queue) {
  if (queue->empty() || ended_) return std::nullopt;
  QueuedRequest request = std::move(queue->front());
  queue->pop_front();
  waiting_bytes_ -= request.byte_size;
  request.cancelled = request.stop.stop_requested();
  return request;
}

std::optional<QueuedRequest> RequestQueue::TryTake() {
  MutexLock lock(mu_);
  return Pop(urgent_.empty() ? &waiting_ : &urgent_);
}

std::optional<QueuedRequest> RequestQueue::TryTakeUrgent() {
  MutexLock lock(mu_);
  return Pop(&urgent_);
}

bool RequestQueue::HasAny() {
  MutexLock lock(mu_);
  return !urgent_.empty() || !waiting_.empty();
}

absl::StatusOr<std::vector<std::string>> RequestQueue::AwaitRankTexts(uint32_t sequence,
                                                                      absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  MutexLock lock(mu_);
  while (!rank_texts_.contains(sequence)) {
    if (job_source_.stop_requested()) return absl::CancelledError("the job is to stop");
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the other ranks did not come");
    }
    changed_.WaitFor(mu_, left);
  }
  return rank_texts_[sequence];
}

bool RequestQueue::HasUrgent() {
  MutexLock lock(mu_);
  return !urgent_.empty();
}

bool RequestQueue::HasLive() {
  MutexLock lock(mu_);
  return !waiting_.empty() && IsLive(waiting_.front());
}

std::optional<QueuedRequest> RequestQueue::WaitTake() {
  MutexLock lock(mu_);
  while (waiting_.empty() && urgent_.empty() && !ended_) changed_.Wait(mu_);
  return Pop(urgent_.empty() ? &waiting_ : &urgent_);
}

std::stop_token RequestQueue::BeginJob(const std::string& job) {
  MutexLock lock(mu_);
  job_ = job;
  rank_texts_.clear();
  job_source_ = std::stop_source();
  if (ended_) job_source_.request_stop();
  // Also apply stops that were put in before the job began.
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (IsStopOf(*it, job)) {
      job_source_.request_stop();
      urgent_.push_back(std::move(*it));
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  return job_source_.get_token();
}

void RequestQueue::EndJob() {
  MutexLock lock(mu_);
  job_.clear();
}

void RequestQueue::EndRequest(const std::string& id) {
  MutexLock lock(mu_);
  open_.erase(id);
}

void RequestQueue::PutBackRequest(QueuedRequest request) {
  MutexLock lock(mu_);
  waiting_bytes_ += request.byte_size;
  (request.stop.stop_requested() ? urgent_ : waiting_).push_front(std::move(request));
}

}  // namespace nerf
