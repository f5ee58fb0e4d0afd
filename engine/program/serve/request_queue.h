#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {

// A request of the worker that waits to be handled. Wrong ones wait too, because each is answered.
struct QueuedRequest {
  internal::WorkerRequest request = {};
  absl::Status status = {};  // why it is refused, whatever it holds
  size_t byte_size = 0;
  bool cancelled = false;     // while it waited: is answered, not done
  std::stop_token stop = {};  // of a render or check: its cancel

  bool ok() const { return status.ok(); }
};

// The requests that wait, in order. One thread reads them from the connection and puts them in;
// another takes them out and works, also between two training steps. Three take effect as soon as
// they are put in: `stop` stops the running job, `cancel` the running render or check, and the end
// of the connection stops both. Thread-safe.
//
// Renders and checks are told apart by their ids: while one is not answered, another one of its id
// is refused (ALREADY_EXISTS), so that no cancel or answer is taken for that of another request.
class RequestQueue {
 public:
  // Never fails: what could not be read, or does not pass CheckRequest, waits with its error.
  void Put(absl::StatusOr<internal::WorkerRequest> request, size_t byte_size);
  // No more requests will come. After this nothing is taken out.
  void End();

  // The next request. Urgent ones come first: jobs, stops of the running job, and renders and
  // checks that were cancelled while they waited. nullopt if none waits (Try) or none will ever
  // come (Wait). TryTakeUrgent takes urgent ones only.
  std::optional<QueuedRequest> TryTake();
  std::optional<QueuedRequest> TryTakeUrgent();
  std::optional<QueuedRequest> WaitTake();
  bool HasUrgent();
  // Whether a live frame waits. They come before other renders and checks.
  bool HasLive();

  // The texts of all ranks of the running job with that number, once they came. Errors: Cancelled
  // when the job is to stop; DeadlineExceeded.
  absl::StatusOr<std::vector<std::string>> AwaitRankTexts(uint32_t sequence, absl::Duration limit);
  // Whether a request waits.
  bool HasAny();

  // Names the running job. The returned token is stopped by a `stop` of it and by End.
  std::stop_token BeginJob(const std::string& job);
  void EndJob();

  // A render or check is about to be answered. Until then its cancel stops its token. Also call it
  // for those that were cancelled while they waited.
  void EndRequest(const std::string& id);
  // Puts a running check back in front of the others, because the job is to stop first.
  void PutBackRequest(QueuedRequest request);

 private:
  void PutInto(std::deque<QueuedRequest>* queue, QueuedRequest request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Cancel(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The first of a queue; nullopt if it is empty or the connection has ended.
  std::optional<QueuedRequest> Pop(std::deque<QueuedRequest>* queue)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<QueuedRequest> urgent_ ABSL_GUARDED_BY(mu_);
  std::deque<QueuedRequest> waiting_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::string job_ ABSL_GUARDED_BY(mu_);  // running; empty: none
  std::stop_source job_source_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, std::vector<std::string>> rank_texts_ ABSL_GUARDED_BY(mu_);  // of job_
  // Of renders and checks that are not answered, waiting or running, by their ids.
  std::map<std::string, std::stop_source> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
