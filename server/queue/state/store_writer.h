#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "server/queue/state/job_store.h"

namespace nerf {

// Commits writes on a thread of its own, in the order of submission. All writes that wait when a
// transaction ends share the next one, so that one sync to disk serves many callers. A slow disk
// delays only callers that wait for their write. Thread-safe. Store and clock outlive it.
class StoreWriter {
 public:
  using Done = std::function<void(const absl::Status&)>;
  // A write that was committed or refused.
  struct Finished {
    absl::Status status;
    Done done;  // to be called with `status`
  };
  // Called on the writer's thread after each transaction with the writes in it, in their order, and
  // the time it took.
  using Deliver = std::function<void(std::vector<Finished> finished, absl::Duration duration)>;

  StoreWriter(JobStore* store, const Clock* clock, Deliver deliver);
  // Finishes everything that was submitted first.
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  void Submit(StoreWrite write, Done done) ABSL_LOCKS_EXCLUDED(mu_);

  // How long the current transaction has taken so far; zero when there is none.
  absl::Duration BusyFor() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Pending {
    StoreWrite write;
    Done done;
  };
  void Run();

  JobStore& store_;
  const Clock& clock_;
  const Deliver deliver_;
  mutable Mutex mu_;
  CondVar submitted_;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mu_);
  SteadyTime busy_since_ ABSL_GUARDED_BY(mu_);
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace nerf
