#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"

namespace nerf {

// A stream that does not end by itself.
class LiveCall {
 public:
  virtual ~LiveCall() = default;
  // Ends the stream with an error. May be called at any time and repeatedly.
  virtual void End(const absl::Status& status) = 0;
};

// The open streams of a server; a shutdown ends them with a status. Thread-safe.
class LiveCalls {
 public:
  // Ends the call at once if EndAll was called before.
  void Add(const std::shared_ptr<LiveCall>& call);
  // Ends every call, also those that are added later, with UNAVAILABLE DRAINING.
  void EndAll();

 private:
  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<LiveCall>> calls_ ABSL_GUARDED_BY(mu_);
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 64;  // size at which expired entries are removed
};

}  // namespace nerf
