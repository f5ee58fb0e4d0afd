#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/rpc/status_conversion.h"
#include "server/rpc/calls/executor.h"
#include "server/rpc/calls/live_calls.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/stall_guard.h"

namespace nerf {

// A server stream of changes, and of bookmarks where nothing changes. Takes the next response when
// the last write is done, so a slow reader keeps at most one message waiting; a reader that takes
// none ends the call, and can resume with the last token that it has. Authorizes again at each
// bookmark interval. News while a response is due, or on its way, cost nothing. Owns itself until
// gRPC is done with it.
template <typename Response>
class WatchCall : public grpc::ServerWriteReactor<Response>,
                  public LiveCall,
                  public std::enable_shared_from_this<WatchCall<Response>> {
 public:
  void End(const absl::Status& status) override {
    {
      MutexLock lock(mu_);
      if (ended_) return;
      ended_ = true;
      end_status_ = status;
      if (writing_) return;  // OnWriteDone finishes after the outstanding write
    }
    this->Finish(ToGrpcStatus(status));
  }

  void OnWriteDone(bool ok) override {
    guard_.End();
    std::optional<absl::Status> end;
    absl::Duration pause;
    {
      MutexLock lock(mu_);
      writing_ = false;
      pause = pause_;
      if (ended_) {
        end = end_status_;
      } else if (!ok) {
        ended_ = true;
        end = absl::CancelledError("the client closed the watch");
      }
    }
    if (end.has_value()) return this->Finish(ToGrpcStatus(*end));
    if (pause == absl::ZeroDuration()) return PostPump();
    services_.executor.PostAfter(pause, [weak = this->weak_from_this()] {
      if (const auto watch = weak.lock()) watch->PostPump();
    });
  }

  void OnCancel() override { End(absl::CancelledError("the client closed the watch")); }

  void OnDone() override {
    std::shared_ptr<WatchCall> self;
    MutexLock lock(mu_);
    self.swap(self_);
    services_.executor.Drop(timer_);
  }

 protected:
  enum class Next {
    kNothing,
    kWrite,
    kWriteThenPause,  // the next response may wait for `interval`
    kFinished
  };

  // Responses are made in this lane of the executor.
  WatchCall(const ServiceContext& services, grpc::CallbackServerContext* context,
            Lane lane = Lane::kQuick, absl::Duration interval = absl::ZeroDuration())
      : services_(services),
        lane_(lane),
        interval_(interval),
        guard_(&services.executor, context, services.times.stall_limit,
               [&services] { services.metrics.WatcherEvicted(); }) {}

  // Authorizes the call and opens it on the executor. Requires: owned by a shared_ptr.
  template <typename Request>
  void Start(const char* method, grpc::CallbackServerContext* context, const Request& request,
             std::function<absl::Status()> open) {
    const std::shared_ptr<WatchCall> watch = this->shared_from_this();
    {
      MutexLock lock(mu_);
      self_ = watch;
    }
    const auto principal = services_.authorizer.Check(method, *context, request);
    if (!principal.ok()) return End(principal.status());
    token_ = Authorizer::TokenOf(*context);
    services_.live_calls.Add(watch);
    services_.executor.Post(lane_, [watch, open = std::move(open)] {
      if (const absl::Status opened = open(); !opened.ok()) return watch->End(opened);
      watch->ArmBookmark();
      watch->Pump();
    });
  }

  // What a watcher of the queue calls on the thread that changed a job: it only posts.
  std::function<void()> OnNews() {
    return [weak = this->weak_from_this(), due = pump_due_, lane = lane_,
            &executor = services_.executor] {
      if (due->exchange(true)) return;
      executor.Post(lane, [weak] {
        if (const auto watch = weak.lock()) watch->Pump();
      });
    };
  }

  const ServiceContext& services_;
  Mutex mu_;

 private:
  // Fills the response where there is one. *bookmark_due, set at each interval, is the function's
  // to clear. May be called before `open` has returned, not while a write is outstanding.
  virtual Next Fill(bool* bookmark_due, Response* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) = 0;

  void PostPump() {
    services_.executor.Post(lane_, [watch = this->shared_from_this()] { watch->Pump(); });
  }

  void Pump() {
    Next next = Next::kNothing;
    {
      MutexLock lock(mu_);
      if (ended_ || writing_) return;
      pump_due_->store(false);  // before Fill: what comes later needs another
      next = Fill(&bookmark_due_, &response_);
      writing_ = next == Next::kWrite || next == Next::kWriteThenPause;
      if (writing_) pump_due_->store(true);  // OnWriteDone sees to it
      pause_ = next == Next::kWriteThenPause ? interval_ : absl::ZeroDuration();
    }
    if (next == Next::kFinished) return End(absl::OkStatus());
    if (next == Next::kNothing) return;
    guard_.Begin();
    this->StartWrite(&response_);
  }

  void ArmBookmark() {
    auto on_due = [weak = this->weak_from_this()] {
      const auto watch = weak.lock();
      if (watch == nullptr) return;
      const absl::Status allowed = watch->services_.authorizer.CheckAgain(watch->token_);
      if (!allowed.ok()) return watch->End(allowed);
      {
        MutexLock lock(watch->mu_);
        if (watch->ended_) return;
        watch->bookmark_due_ = true;
      }
      watch->PostPump();  // this is the quick lane
      watch->ArmBookmark();
    };
    const Executor::Timer timer =
        services_.executor.PostAfter(services_.times.bookmark_interval, std::move(on_due));
    MutexLock lock(mu_);
    timer_ = timer;
    if (ended_) services_.executor.Drop(timer);
  }

  const Lane lane_;
  const absl::Duration interval_;
  StallGuard guard_;
  // Whether a Pump is posted or will be. Shared with the closures of OnNews, which must not own
  // this.
  const std::shared_ptr<std::atomic<bool>> pump_due_ = std::make_shared<std::atomic<bool>>(false);
  std::string token_;  // of the caller; const after Start
  Response response_;  // owned by gRPC while a write is outstanding
  std::shared_ptr<WatchCall> self_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  bool bookmark_due_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration pause_ ABSL_GUARDED_BY(mu_);   // after the present write
  Executor::Timer timer_ ABSL_GUARDED_BY(mu_);  // of the next bookmark
};

}  // namespace nerf
