#include "server/rpc/job_list_watch.h"

#include <utility>

#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "server/queue/page.h"
#include "server/queue/resource_key.h"
#include "server/rpc/convert_common.h"
#include "server/rpc/job_converter.h"

namespace nerf {
namespace {

constexpr char kMethod[] = "nerf.v1.TrainingService/WatchTrainingJobs";
constexpr size_t kMaxWaits = 100;

absl::StatusOr<JobListRequest> ToListRequest(const v1::WatchTrainingJobsRequest& request) {
  RequestCheck check;
  JobListRequest list;
  list.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  list.filter = TakeOr(JobFilter::Parse(request.filter()), check);
  check.Require(request.max_jobs() >= 0, "max_jobs", "must not be negative");
  NERF_RETURN_IF_ERROR(check.Result());
  NERF_ASSIGN_OR_RETURN(list.max_jobs, EffectivePageSize(request.max_jobs()));
  list.token = request.resume_token();
  return list;
}

}  // namespace

JobListWatch::JobListWatch(const ServiceContext& services, grpc::CallbackServerContext* context)
    : services_(services),
      guard_(&services.executor, context, services.times.stall_limit,
             [&services] { services.metrics.WatcherEvicted(); }) {}

JobListWatch* JobListWatch::Begin(const ServiceContext& services,
                                  grpc::CallbackServerContext* context,
                                  const v1::WatchTrainingJobsRequest& request) {
  std::shared_ptr<JobListWatch> watch(new JobListWatch(services, context));
  {
    MutexLock lock(watch->mu_);
    watch->self_ = watch;
  }
  const auto principal = services.authorizer.Check(kMethod, *context, request);
  if (!principal.ok()) {
    watch->End(principal.status());
    return watch.get();
  }
  watch->token_ = Authorizer::TokenOf(*context);
  services.live_calls.Add(watch);
  services.executor.Post(Lane::kQuick, [watch, request] { watch->Open(request); });
  return watch.get();
}

void JobListWatch::Open(const v1::WatchTrainingJobsRequest& request) {
  absl::StatusOr<JobListRequest> list = ToListRequest(request);
  if (!list.ok()) return End(list.status());
  // The queue calls this on the thread that changed a job, so it only posts.
  auto on_new = [weak = weak_from_this(), &executor = services_.executor] {
    executor.Post(Lane::kQuick, [weak] {
      if (const auto watch = weak.lock()) watch->Pump();
    });
  };
  auto watcher = services_.queue.WatchList(*std::move(list), std::move(on_new));
  if (!watcher.ok()) return End(watcher.status());
  {
    MutexLock lock(mu_);
    if (ended_) return;
    watcher_ = *std::move(watcher);
  }
  ArmBookmark();
  Pump();
}

void JobListWatch::ArmBookmark() {
  auto on_due = [weak = weak_from_this()] {
    const auto watch = weak.lock();
    if (watch == nullptr) return;
    const absl::Status allowed = watch->services_.authorizer.CheckAgain(watch->token_);
    if (!allowed.ok()) return watch->End(allowed);
    {
      MutexLock lock(watch->mu_);
      if (watch->ended_) return;
      watch->bookmark_due_ = true;
    }
    watch->Pump();
    watch->ArmBookmark();
  };
  const Executor::Timer timer =
      services_.executor.PostAfter(services_.times.bookmark_interval, std::move(on_due));
  MutexLock lock(mu_);
  timer_ = timer;
  if (ended_) services_.executor.Drop(timer);
}

void JobListWatch::Pump() {
  {
    MutexLock lock(mu_);
    if (ended_ || writing_ || watcher_ == nullptr) return;
    if (const std::optional<JobListBatch> batch = watcher_->TryNext(); batch.has_value()) {
      Fill(*batch);
    } else if (bookmark_due_) {
      bookmark_due_ = false;
      response_.Clear();
      response_.set_resume_token(watcher_->Token());
      response_.set_is_current(true);
      AddNewWaits();
    } else {
      return;
    }
    writing_ = true;
  }
  guard_.Begin();
  StartWrite(&response_);
}

void JobListWatch::Fill(const JobListBatch& batch) {
  if (batch.reset) waits_.clear();
  response_.Clear();
  response_.set_reset(batch.reset);
  response_.set_resume_token(batch.token);
  response_.set_is_current(batch.is_current);
  for (const ResourceKey& key : batch.removed) {
    response_.add_removed(JobName(key));
    waits_.erase(key);
  }
  JobConverter converter(services_);
  for (const Job& job : batch.jobs) {
    v1::TrainingJob& row = *response_.add_training_jobs();
    row = converter.ToProto(job);
    waits_.erase(job.key);
    if (job.state == JobState::kQueued && waits_.size() < kMaxWaits) {
      waits_[job.key] = {job, row.wait().message()};
    }
  }
}

void JobListWatch::AddNewWaits() {
  JobConverter converter(services_);
  for (auto& [key, sent] : waits_) {
    if (!converter.IsQueued(sent.job)) continue;  // its change follows
    v1::TrainingJob row = converter.ToProto(sent.job);
    if (row.wait().message() == sent.message) continue;
    sent.message = row.wait().message();
    *response_.add_training_jobs() = std::move(row);
  }
}

void JobListWatch::OnWriteDone(bool ok) {
  guard_.End();
  std::optional<absl::Status> end;
  {
    MutexLock lock(mu_);
    writing_ = false;
    if (ended_) {
      end = end_status_;
    } else if (!ok) {
      ended_ = true;
      end = absl::CancelledError("the client closed the watch");
    }
  }
  if (end.has_value()) return Finish(ToGrpcStatus(*end));
  services_.executor.Post(Lane::kQuick, [watch = shared_from_this()] { watch->Pump(); });
}

void JobListWatch::End(const absl::Status& status) {
  {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    end_status_ = status;
    if (writing_) return;  // OnWriteDone finishes after the outstanding write
  }
  Finish(ToGrpcStatus(status));
}

void JobListWatch::OnCancel() { End(absl::CancelledError("the client closed the watch")); }

void JobListWatch::OnDone() {
  std::shared_ptr<JobListWatch> self;
  std::unique_ptr<JobListWatcher> watcher;
  {
    MutexLock lock(mu_);
    watcher.swap(watcher_);
    self.swap(self_);
    services_.executor.Drop(timer_);
  }
}

}  // namespace nerf
