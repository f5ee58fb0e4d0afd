#include "server/rpc/services/job_watch.h"

#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/job_converter.h"

namespace nerf {

JobWatch* JobWatch::Begin(const ServiceContext& services, CallContext* context,
                          const v1::WatchJobRequest& request) {
  const std::shared_ptr<JobWatch> watch(new JobWatch(services, context));
  watch->Start("nerf.v1.JobService/WatchJob", context, request,
               [watch = watch.get(), request] { return watch->Open(request); });
  return watch.get();
}

absl::Status JobWatch::Open(const v1::WatchJobRequest& request) {
  NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request.name()));
  NERF_ASSIGN_OR_RETURN(auto watcher, services_.queue.Watch(key, request.resume_token(), OnNews()));
  MutexLock lock(mu_);
  watcher_ = std::move(watcher);
  return absl::OkStatus();
}

JobWatch::Next JobWatch::Fill(bool* bookmark_due, v1::WatchJobResponse* response) {
  if (watcher_ == nullptr) return Next::kNothing;
  if (const std::optional<WatchEvent> event = watcher_->TryNext(); event.has_value()) {
    *response = ToProto(*event);
    waiting_.reset();
    if (event->job.state == JobState::kQueued) waiting_ = event->job;
    last_sequence_ = response->sequence();
  } else if (watcher_->finished()) {
    return Next::kFinished;
  } else if (std::exchange(*bookmark_due, false) &&
             (!std::exchange(sent_since_bookmark_, false) || waiting_.has_value())) {
    response->Clear();
    response->set_kind(v1::WatchJobResponse::BOOKMARK);
    response->set_resume_token(watcher_->Token());
    response->set_sequence(last_sequence_);
  } else {
    return Next::kNothing;
  }
  TellWait(response);  // also of a bookmark: the wait can change without an event of the job
  *bookmark_due = false;
  sent_since_bookmark_ = response->kind() != v1::WatchJobResponse::BOOKMARK;
  return Next::kWrite;
}

void JobWatch::TellWait(v1::WatchJobResponse* response) {
  JobConverter converter(services_);
  if (!waiting_.has_value() || !converter.IsQueued(*waiting_)) return;
  *response->mutable_job() = converter.ToProto(*waiting_, /*whole=*/false);
}

}  // namespace nerf
