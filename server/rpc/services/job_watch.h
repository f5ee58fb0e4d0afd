#pragma once

#include <memory>
#include <optional>

#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/state/watcher.h"
#include "server/rpc/calls/watch_call.h"

namespace nerf {

// A WatchJob call: the events of a job. Ends with the last one.
class JobWatch final : public WatchCall<v1::WatchJobResponse> {
 public:
  static JobWatch* Begin(const ServiceContext& services, CallContext* context,
                         const v1::WatchJobRequest& request);

 private:
  using WatchCall::WatchCall;

  absl::Status Open(const v1::WatchJobRequest& request);
  Next Fill(bool* bookmark_due, v1::WatchJobResponse* response) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // If the job is still queued: fills the response with the last sent job and its current wait.
  // Otherwise the event of its change follows.
  void TellWait(v1::WatchJobResponse* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::unique_ptr<Watcher> watcher_ ABSL_GUARDED_BY(mu_);
  bool sent_since_bookmark_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Job> waiting_ ABSL_GUARDED_BY(mu_);  // the job as last sent, while it is queued
  double last_sequence_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nerf
