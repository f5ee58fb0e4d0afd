#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"

namespace nerf {

// A stream that lives until somebody ends it.
class LiveCall {
 public:
  virtual ~LiveCall() = default;
  // Ends the stream with an error, soon. May be called at any time, more than once.
  virtual void End(const absl::Status& status) = 0;
};

// The long-lived streams of a server, so that a shutdown can end them with words. Thread-safe.
class LiveCalls {
 public:
  // Ends the call at once when EndAll was called before.
  void Add(const std::shared_ptr<LiveCall>& call);
  // Ends every call, and every one that is added later, with UNAVAILABLE DRAINING.
  void EndAll();

 private:
  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<LiveCall>> calls_ ABSL_GUARDED_BY(mu_);
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 64;  // forget the dead when there are this many
};

}  // namespace nerf
