#include "server/rpc/calls/stall_guard.h"

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <utility>

#include "common/mutex.h"

namespace nerf {
namespace {
constexpr char kStalled[] = "the peer stood still for too long; begin again where it stopped";
}  // namespace

struct StallGuard::State {
  State(Executor* executor, grpc_call* call, absl::Duration limit, std::function<void()> on_stall)
      : executor(*executor), call(call), limit(limit), on_stall(std::move(on_stall)) {
    grpc_call_ref(call);
  }
  ~State() { grpc_call_unref(call); }

  Executor& executor;
  grpc_call* const call;
  const absl::Duration limit;
  const std::function<void()> on_stall;
  Mutex mu;
  Executor::Timer timer ABSL_GUARDED_BY(mu);
  bool ended ABSL_GUARDED_BY(mu) = false;
  uint64_t n_operations ABSL_GUARDED_BY(mu) = 0;
  bool waits ABSL_GUARDED_BY(mu) = false;  // for the peer
  // The operation that waited at the last look; 0 for none.
  uint64_t late ABSL_GUARDED_BY(mu) = 0;
};

StallGuard::StallGuard(Executor* executor, grpc::CallbackServerContext* context,
                       absl::Duration limit, std::function<void()> on_stall)
    : state_(std::make_shared<State>(executor, context->c_call(), limit, std::move(on_stall))) {
  Arm(state_);
}

StallGuard::~StallGuard() {
  MutexLock lock(state_->mu);
  state_->ended = true;
  state_->executor.Drop(state_->timer);
}

void StallGuard::Begin() {
  MutexLock lock(state_->mu);
  ++state_->n_operations;
  state_->waits = true;
}

void StallGuard::End() {
  MutexLock lock(state_->mu);
  state_->waits = false;
}

void StallGuard::Arm(const std::shared_ptr<State>& state) {
  auto look = [weak = std::weak_ptr<State>(state)] {
    const auto state = weak.lock();
    if (state == nullptr) return;
    bool stalled = false;
    {
      MutexLock lock(state->mu);
      const uint64_t waiting = state->waits ? state->n_operations : 0;
      stalled = waiting != 0 && waiting == state->late;
      state->late = waiting;
    }
    if (!stalled) return Arm(state);
    if (state->on_stall) state->on_stall();
    grpc_call_cancel_with_status(state->call, GRPC_STATUS_UNAVAILABLE, kStalled, nullptr);
  };
  const Executor::Timer timer = state->executor.PostAfter(state->limit, std::move(look));
  MutexLock lock(state->mu);
  state->timer = timer;
  if (state->ended) state->executor.Drop(timer);
}

}  // namespace nerf
