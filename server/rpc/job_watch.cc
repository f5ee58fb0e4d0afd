#include "server/rpc/job_watch.h"

#include <optional>
#include <utility>

#include "common/rpc/status_conversion.h"
#include "server/queue/resource_key.h"
#include "server/rpc/convert_job.h"
#include "server/rpc/convert_render.h"
#include "server/rpc/job_converter.h"

namespace nerf {
namespace {

template <typename Watch>
struct Traits;

template <>
struct Traits<TrainingWatch> {
  static constexpr char kMethod[] = "nerf.v1.TrainingService/WatchTrainingJob";
  static constexpr JobKind kKind = JobKind::kTraining;
  static auto ParseName(std::string_view name) { return ParseJobName("name", name); }
  static auto ToProto(const WatchEvent& event) { return nerf::ToProto(event); }
  static void SetJob(JobConverter& converter, const Job& job, TrainingWatch::Response* response) {
    *response->mutable_training_job() = converter.ToProto(job);
  }
};

template <>
struct Traits<RenderWatch> {
  static constexpr char kMethod[] = "nerf.v1.RenderJobService/WatchRenderJob";
  static constexpr JobKind kKind = JobKind::kRender;
  static auto ParseName(std::string_view name) { return ParseRenderJobName("name", name); }
  static auto ToProto(const WatchEvent& event) { return ToRenderWatch(event); }
  static void SetJob(JobConverter& converter, const Job& job, RenderWatch::Response* response) {
    *response->mutable_render_job() = converter.ToRenderProto(job, /*whole=*/false);
  }
};

}  // namespace

template <typename Watch>
JobWatch<Watch>::JobWatch(const ServiceContext& services, grpc::CallbackServerContext* context)
    : services_(services),
      guard_(&services.executor, context, services.times.stall_limit,
             [&services] { services.metrics.WatcherEvicted(); }) {}

template <typename Watch>
JobWatch<Watch>* JobWatch<Watch>::Begin(const ServiceContext& services,
                                        grpc::CallbackServerContext* context,
                                        const typename Watch::Request& request) {
  std::shared_ptr<JobWatch> watch(new JobWatch(services, context));
  {
    MutexLock lock(watch->mu_);
    watch->self_ = watch;
  }
  const auto principal = services.authorizer.Check(Traits<Watch>::kMethod, *context, request);
  if (!principal.ok()) {
    watch->End(principal.status());
    return watch.get();
  }
  watch->token_ = Authorizer::TokenOf(*context);
  services.live_calls.Add(watch);
  services.executor.Post(Lane::kQuick, [watch, request] { watch->Open(request); });
  return watch.get();
}

template <typename Watch>
void JobWatch<Watch>::Open(const typename Watch::Request& request) {
  const absl::StatusOr<ResourceKey> key = Traits<Watch>::ParseName(request.name());
  if (!key.ok()) return End(key.status());
  // The queue calls this on the thread that changed the job, so it only posts.
  auto on_new = [weak = this->weak_from_this(), &executor = services_.executor] {
    executor.Post(Lane::kQuick, [weak] {
      if (const auto watch = weak.lock()) watch->Pump();
    });
  };
  auto watcher =
      services_.queue.Watch(*key, request.resume_token(), std::move(on_new), Traits<Watch>::kKind);
  if (!watcher.ok()) return End(watcher.status());
  {
    MutexLock lock(mu_);
    if (ended_) return;
    watcher_ = *std::move(watcher);
  }
  ArmBookmark();
  Pump();
}

template <typename Watch>
void JobWatch<Watch>::ArmBookmark() {
  auto on_due = [weak = this->weak_from_this()] {
    const auto watch = weak.lock();
    if (watch == nullptr) return;
    const absl::Status allowed = watch->services_.authorizer.CheckAgain(watch->token_);
    if (!allowed.ok()) return watch->End(allowed);
    {
      MutexLock lock(watch->mu_);
      if (watch->ended_) return;
      watch->bookmark_due_ = !std::exchange(watch->sent_since_bookmark_, false);
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

template <typename Watch>
void JobWatch<Watch>::Pump() {
  bool finished = false;
  {
    MutexLock lock(mu_);
    if (ended_ || writing_ || watcher_ == nullptr) return;
    if (const std::optional<WatchEvent> event = watcher_->TryNext(); event.has_value()) {
      response_ = Traits<Watch>::ToProto(*event);
      waiting_.reset();
      if (event->job.state == JobState::kQueued) waiting_ = event->job;
      TellWait();
      last_sequence_ = response_.sequence();
    } else if (watcher_->finished()) {
      finished = true;
    } else if (bookmark_due_) {
      response_.Clear();
      response_.set_kind(Watch::Response::BOOKMARK);
      response_.set_resume_token(watcher_->Token());
      response_.set_sequence(last_sequence_);
      TellWait();  // the wait can change without an event of the job
    } else {
      return;
    }
    if (!finished) {
      writing_ = true;
      sent_since_bookmark_ = true;
      bookmark_due_ = false;
    }
  }
  if (finished) return End(absl::OkStatus());
  guard_.Begin();
  this->StartWrite(&response_);
}

template <typename Watch>
void JobWatch<Watch>::TellWait() {
  JobConverter converter(services_);
  if (!waiting_.has_value() || !converter.IsQueued(*waiting_)) return;
  Traits<Watch>::SetJob(converter, *waiting_, &response_);
}

template <typename Watch>
void JobWatch<Watch>::OnWriteDone(bool ok) {
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
  if (end.has_value()) return this->Finish(ToGrpcStatus(*end));
  services_.executor.Post(Lane::kQuick, [watch = this->shared_from_this()] { watch->Pump(); });
}

template <typename Watch>
void JobWatch<Watch>::End(const absl::Status& status) {
  {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    end_status_ = status;
    if (writing_) return;  // OnWriteDone finishes after the outstanding write
  }
  this->Finish(ToGrpcStatus(status));
}

template <typename Watch>
void JobWatch<Watch>::OnCancel() {
  End(absl::CancelledError("the client closed the watch"));
}

template <typename Watch>
void JobWatch<Watch>::OnDone() {
  std::shared_ptr<JobWatch> self;
  std::unique_ptr<Watcher> watcher;
  {
    MutexLock lock(mu_);
    watcher.swap(watcher_);
    self.swap(self_);
    services_.executor.Drop(timer_);
  }
}

template class JobWatch<TrainingWatch>;
template class JobWatch<RenderWatch>;

}  // namespace nerf
