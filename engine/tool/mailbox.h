#pragma once

#include <deque>
#include <optional>
#include <stop_token>
#include <string>

#include "common/mutex.h"
#include "nlohmann/json.hpp"

namespace nerf {

// A request, or what stands in for a line that is none.
struct Mail {
  nlohmann::json message = nullptr;  // an object whose "type" is a string, when error is empty
  std::string error = {};            // why the line was refused
  size_t byte_size = 0;
  bool cancelled = false;     // by its id while it waited: still to be answered, not to be done
  std::stop_token stop = {};  // of a render or check that was taken: its cancel or the end stops it
};

// The requests that wait, in order. The reading thread puts them in; the thread that works takes
// them out, between training steps too. What cannot wait acts at once: `stop` stops the job in
// work, `cancel` the render or check at work, the end of the connection both. Every request is
// taken out, one that was cancelled while it waited too, before the others: so each is answered.
// Thread-safe.
class Mailbox {
 public:
  // A line without its newline. Never fails: whatever is wrong becomes Mail::error.
  void PutLine(const std::string& line);
  void PutError(std::string error);
  // No line will come any more.
  void End();

  // The next request, urgent ones first: jobs, stops of the job in work and what was cancelled;
  // nullopt when there is none now (Try), or ever (Wait). TryTakeUrgent takes no others.
  std::optional<Mail> TryTake();
  std::optional<Mail> TryTakeUrgent();
  std::optional<Mail> WaitTake();
  bool HasUrgent();

  // Says which job is in work. Returns the token that a stop of it, or the end, requests.
  std::stop_token BeginJob(const std::string& job);
  void EndJob();

  // The render or check that was taken last, in training too, is at work until then. The next one
  // may only be taken afterwards.
  void EndRequest();
  // The same where it was given up for a stop of the job: it waits again, before the others; as
  // cancelled, where it was.
  void PutBackRequest(Mail mail);

 private:
  void Put(Mail mail, std::deque<Mail>* queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Cancel(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The first of a queue; nullopt where it is empty or the connection has ended.
  std::optional<Mail> Pop(std::deque<Mail>* queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<Mail> urgent_ ABSL_GUARDED_BY(mu_);
  std::deque<Mail> waiting_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::string job_ ABSL_GUARDED_BY(mu_);  // empty: none
  std::stop_source job_source_ ABSL_GUARDED_BY(mu_);
  std::string request_ ABSL_GUARDED_BY(mu_);  // empty: none
  std::stop_source request_source_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
