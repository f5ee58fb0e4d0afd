#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/mutex.h"
#include "nerf/v1/training_service.pb.h"
#include "server/queue/job_list_watcher.h"
#include "server/rpc/executor.h"
#include "server/rpc/live_calls.h"
#include "server/rpc/service_context.h"
#include "server/rpc/stall_guard.h"

namespace nerf {

// A WatchTrainingJobs call. Pulls a batch of rows from its watcher when the last write is done, so
// a slow reader keeps at most one message waiting. Owns itself until gRPC is done with it.
class JobListWatch final : public grpc::ServerWriteReactor<v1::WatchTrainingJobsResponse>,
                           public LiveCall,
                           public std::enable_shared_from_this<JobListWatch> {
 public:
  static JobListWatch* Begin(const ServiceContext& services, grpc::CallbackServerContext* context,
                             const v1::WatchTrainingJobsRequest& request);

  void End(const absl::Status& status) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  JobListWatch(const ServiceContext& services, grpc::CallbackServerContext* context);
  void Open(const v1::WatchTrainingJobsRequest& request);
  // Sends the next batch unless a write is outstanding.
  void Pump();
  void ArmBookmark();
  void Fill(const JobListBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds queued jobs whose wait is another than the one that was sent: it can change without a
  // change of the job.
  void AddNewWaits() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct SentWait {
    Job job;
    std::string message;
  };

  const ServiceContext& services_;
  std::string token_;  // of the caller; const after Begin
  // A watch that is not read ends. It can resume with the last token that its reader has.
  StallGuard guard_;
  Mutex mu_;
  std::shared_ptr<JobListWatch> self_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<JobListWatcher> watcher_ ABSL_GUARDED_BY(mu_);
  v1::WatchTrainingJobsResponse response_;  // owned by gRPC while a write is outstanding
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  bool bookmark_due_ ABSL_GUARDED_BY(mu_) = false;
  Executor::Timer timer_ ABSL_GUARDED_BY(mu_);  // of the next bookmark
  // Queued jobs among the rows that were sent, at most kMaxWaits.
  std::map<ResourceKey, SentWait> waits_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
