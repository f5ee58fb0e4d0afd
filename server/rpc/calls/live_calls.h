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
  // Adds a caller's or a worker's stream; ends it at once after EndAll.
  void Add(const std::shared_ptr<LiveCall>& call);
  void AddWorker(const std::shared_ptr<LiveCall>& stream);
  // Ends every stream, also those that are added later, with UNAVAILABLE DRAINING.
  // Workers' streams end last, so that no caller gets NO_WORKER instead.
  void EndAll();

 private:
  struct List {
    std::vector<std::weak_ptr<LiveCall>> calls;
    size_t sweep_at = 64;  // size at which expired entries are removed
  };
  void AddTo(List LiveCalls::*list, const std::shared_ptr<LiveCall>& call);

  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  List callers_ ABSL_GUARDED_BY(mu_);
  List workers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
