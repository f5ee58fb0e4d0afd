#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job_row.h"
#include "server/queue/state/job_list_watcher.h"
#include "server/rpc/calls/watch_call.h"

namespace nerf {

// A WatchJobs call: batches of rows, each in as many messages as its size needs.
class JobListWatch final : public WatchCall<v1::WatchJobsResponse> {
 public:
  static JobListWatch* Begin(const ServiceContext& services, CallContext* context,
                             const v1::WatchJobsRequest& request);

 private:
  struct SentWait {
    std::shared_ptr<const JobRow> row;
    std::string message;
  };

  using WatchCall::WatchCall;
  absl::Status Open(const v1::WatchJobsRequest& request);
  Next Fill(bool* bookmark_due, v1::WatchJobsResponse* response) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds rows up to kMaxListBytes; the others stay in rest_.
  void AddRows(JobListBatch batch, v1::WatchJobsResponse* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds queued jobs whose reason to wait differs from the one that was sent: it can change while
  // the job does not.
  void AddNewWaits(v1::WatchJobsResponse* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::unique_ptr<JobListWatcher> watcher_ ABSL_GUARDED_BY(mu_);
  std::optional<JobListBatch> rest_ ABSL_GUARDED_BY(mu_);  // of a batch that was sent in part
  std::string token_ ABSL_GUARDED_BY(mu_);                 // of the last batch that was sent whole
  // Queued jobs among the rows that were sent, at most kMaxWaits.
  std::map<ResourceKey, SentWait> waits_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
