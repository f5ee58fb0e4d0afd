#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <string>

#include "common/mutex.h"
#include "nerf/v1/render_job_service.pb.h"
#include "nerf/v1/training_service.pb.h"
#include "server/queue/job.h"
#include "server/queue/watcher.h"
#include "server/rpc/live_calls.h"
#include "server/rpc/service_context.h"
#include "server/rpc/stall_guard.h"

namespace nerf {

// What JobWatch has to know of WatchTrainingJob and of WatchRenderJob (job_watch.cc).
struct TrainingWatch {
  using Request = v1::WatchTrainingJobRequest;
  using Response = v1::WatchTrainingJobResponse;
};
struct RenderWatch {
  using Request = v1::WatchRenderJobRequest;
  using Response = v1::WatchRenderJobResponse;
};

// A watch of a job. Pulls an event from its watcher when the last write is done, so a slow
// reader keeps at most one message waiting. Owns itself until gRPC is done with it.
template <typename Watch>
class JobWatch final : public grpc::ServerWriteReactor<typename Watch::Response>,
                       public LiveCall,
                       public std::enable_shared_from_this<JobWatch<Watch>> {
 public:
  static JobWatch* Begin(const ServiceContext& services, grpc::CallbackServerContext* context,
                         const typename Watch::Request& request);

  void End(const absl::Status& status) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  JobWatch(const ServiceContext& services, grpc::CallbackServerContext* context);
  void Open(const typename Watch::Request& request);
  // Sends the next event unless a write is outstanding.
  void Pump();
  void ArmBookmark();
  // If the job is still queued: fills the response with the last sent job and its current wait.
  // Otherwise the event of its change follows.
  void TellWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ServiceContext& services_;
  std::string token_;  // of the caller; const after Begin
  // A watch that is not read ends. It can resume with the last token that its reader has.
  StallGuard guard_;
  Mutex mu_;
  std::shared_ptr<JobWatch> self_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Watcher> watcher_ ABSL_GUARDED_BY(mu_);
  typename Watch::Response response_;  // owned by gRPC while a write is outstanding
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  Executor::Timer timer_ ABSL_GUARDED_BY(mu_);  // of the next bookmark
  bool bookmark_due_ ABSL_GUARDED_BY(mu_) = false;
  bool sent_since_bookmark_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Job> waiting_ ABSL_GUARDED_BY(mu_);  // the job as last sent, while it is queued
  double last_sequence_ ABSL_GUARDED_BY(mu_) = 0;
};

extern template class JobWatch<TrainingWatch>;
extern template class JobWatch<RenderWatch>;

}  // namespace nerf
