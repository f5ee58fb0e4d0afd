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
  nlohmann::json message;  // an object whose "type" is a string, when error is empty
  std::string error;       // why the line was refused
  size_t byte_size = 0;
};

// The requests that wait, in order. The reading thread puts them in; the thread that works takes
// them out, between training steps too. What cannot wait acts at once: `stop` of the job in work
// and the end of the connection request a stop of whatever is at work, `cancel` removes a request
// that still waits and stops the render or check at work. Thread-safe.
class Mailbox {
 public:
  // A line without its newline. Never fails: whatever is wrong becomes Mail::error.
  void PutLine(const std::string& line);
  void PutError(std::string error);
  // No line will come any more.
  void End();

  // The next request, stops of the job in work first; nullopt when there is none now (Try), or ever
  // (Wait). TryTakeStop takes nothing but such stops.
  std::optional<Mail> TryTake();
  std::optional<Mail> TryTakeStop();
  std::optional<Mail> WaitTake();
  // A request that was taken and given up for a stop waits again, before the others.
  void PutBack(Mail mail);

  // Says which job is in work. Returns the token that a stop of it, or the end, requests.
  std::stop_token BeginJob(const std::string& job);
  void EndJob();

  // Says which render or check is at work, in training too. Returns the token that its cancel, a
  // stop of the job in work, or the end requests.
  std::stop_token BeginRequest(const std::string& id);
  // Returns whether somebody still waits for its answer: it was not cancelled by its id.
  bool EndRequest();

 private:
  void Put(Mail mail, std::deque<Mail>* queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Cancel(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The first of a queue; nullopt where it is empty or the connection has ended.
  std::optional<Mail> Pop(std::deque<Mail>* queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<Mail> stops_ ABSL_GUARDED_BY(mu_);  // of the job in work
  std::deque<Mail> waiting_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::string job_ ABSL_GUARDED_BY(mu_);  // empty: none
  std::stop_source job_source_ ABSL_GUARDED_BY(mu_);
  std::string request_ ABSL_GUARDED_BY(mu_);             // empty: none
  bool request_cancelled_ ABSL_GUARDED_BY(mu_) = false;  // by its id
  std::stop_source request_source_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
