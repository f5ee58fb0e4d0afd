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
// and the end of the connection request a stop, `cancel` removes a request that still waits.
// Thread-safe.
class Mailbox {
 public:
  // A line without its newline. Never fails: whatever is wrong becomes Mail::error.
  void PutLine(const std::string& line);
  void PutError(std::string error);
  // No line will come any more.
  void End();

  // The next request; nullopt when there is none now (Try), or ever (Wait).
  std::optional<Mail> TryTake();
  std::optional<Mail> WaitTake();

  // Says which job is in work. Returns the token that a stop of it, or the end, requests.
  std::stop_token BeginJob(const std::string& job);
  void EndJob();

  // Requested at the end of the connection: for renders and checks.
  std::stop_token end_token() const { return end_source_.get_token(); }

 private:
  void Put(Mail mail) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Cancel(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Mail> Pop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::stop_source end_source_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Mail> waiting_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::string job_ ABSL_GUARDED_BY(mu_);  // empty: none
  std::stop_source job_source_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
