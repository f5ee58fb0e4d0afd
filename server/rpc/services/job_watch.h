#pragma once

#include <memory>
#include <optional>

#include "nerf/v1/export_job_service.pb.h"
#include "nerf/v1/pose_job_service.pb.h"
#include "nerf/v1/render_job_service.pb.h"
#include "nerf/v1/training_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/state/watcher.h"
#include "server/rpc/calls/watch_call.h"

namespace nerf {

// What JobWatch has to know of the watches of each kind (job_watch.cc).
struct TrainingWatch {
  using Request = v1::WatchTrainingJobRequest;
  using Response = v1::WatchTrainingJobResponse;
};
struct RenderWatch {
  using Request = v1::WatchRenderJobRequest;
  using Response = v1::WatchRenderJobResponse;
};
struct PoseWatch {
  using Request = v1::WatchPoseJobRequest;
  using Response = v1::WatchPoseJobResponse;
};
struct ExportWatch {
  using Request = v1::WatchExportJobRequest;
  using Response = v1::WatchExportJobResponse;
};

// A watch of a job: its events. Ends with the last one.
template <typename Watch>
class JobWatch final : public WatchCall<typename Watch::Response> {
 public:
  static JobWatch* Begin(const ServiceContext& services, CallContext* context,
                         const typename Watch::Request& request);

 private:
  using Call = WatchCall<typename Watch::Response>;
  using Next = typename Call::Next;
  using Call::Call;
  using Call::mu_;
  using Call::services_;

  absl::Status Open(const typename Watch::Request& request);
  Next Fill(bool* bookmark_due, typename Watch::Response* response) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // If the job is still queued: fills the response with the last sent job and its current wait.
  // Otherwise the event of its change follows.
  void TellWait(typename Watch::Response* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::unique_ptr<Watcher> watcher_ ABSL_GUARDED_BY(mu_);
  bool sent_since_bookmark_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Job> waiting_ ABSL_GUARDED_BY(mu_);  // the job as last sent, while it is queued
  double last_sequence_ ABSL_GUARDED_BY(mu_) = 0;
};

extern template class JobWatch<TrainingWatch>;
extern template class JobWatch<RenderWatch>;
extern template class JobWatch<PoseWatch>;
extern template class JobWatch<ExportWatch>;

}  // namespace nerf
