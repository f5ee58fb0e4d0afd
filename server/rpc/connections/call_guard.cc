#include "server/rpc/connections/call_guard.h"

#include <algorithm>

#include "absl/time/time.h"
#include "server/rpc/connections/stream_census.h"

namespace nerf {
namespace {
constexpr absl::Duration kMinPause = absl::Milliseconds(5);  // between two looks
constexpr uint64_t kRefusalsPerLook = 100;
constexpr int kPauseShare = 4;  // a look takes at most a fifth of the thread's time
constexpr double kFreeEmpty = CallGuard::kMaxEmpty / 10;
}  // namespace

// gRPC asks it for the context of each call as soon as it has read the call, and returns contexts
// at the end. nullptr means gRPC's own context.
class CallGuard::Counter final : public grpc::ContextAllocator {
 public:
  explicit Counter(CallGuard* guard) : guard_(*guard) {}
  grpc::CallbackServerContext* NewCallbackServerContext() override {
    Arrived();
    return nullptr;
  }
  grpc::GenericCallbackServerContext* NewGenericCallbackServerContext() override {
    Arrived();
    return nullptr;
  }
  void Release(grpc::CallbackServerContext* /*context*/) override { --guard_.n_waiting_; }
  void Release(grpc::GenericCallbackServerContext* /*context*/) override { --guard_.n_waiting_; }

 private:
  void Arrived() {
    ++guard_.n_waiting_;
    if (guard_.is_crowded() && !guard_.is_called_.exchange(true)) guard_.Look();
  }
  CallGuard& guard_;
};

CallGuard::CallGuard(ConnectionTable* connections, const Clock* clock)
    : connections_(*connections), clock_(*clock), thread_([this] { Run(); }) {}

CallGuard::~CallGuard() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  stopped_.NotifyAll();
  thread_.join();
}

std::unique_ptr<grpc::ContextAllocator> CallGuard::MakeCounter() {
  return std::make_unique<Counter>(this);
}

void CallGuard::Refused() {
  if (++n_refused_ % kRefusalsPerLook == 0) Look();
}

// A second later all is forgotten, whatever has come.
double CallGuard::AddEmpty(double n) {
  const SteadyTime now = clock_.Now();
  MutexLock lock(empty_mu_);
  const double leaked = kMaxEmpty * absl::ToDoubleSeconds(now - empty_time_);
  empty_time_ = now;
  n_empty_ = std::min(std::max(n_empty_ - leaked, 0.0) + n, kMaxEmpty);
  return n_empty_;
}

void CallGuard::EndedEmpty() { AddEmpty(1); }

bool CallGuard::is_wasted() { return AddEmpty(0) > kFreeEmpty; }

void CallGuard::Look() {
  {
    MutexLock lock(mu_);
    looks_ = true;
  }
  changed_.NotifyAll();
}

bool CallGuard::AwaitLook() {
  MutexLock lock(mu_);
  while (!looks_ && !stopping_) changed_.Wait(mu_);
  looks_ = false;
  return !stopping_;
}

void CallGuard::Run() {
  while (AwaitLook()) {
    const SteadyTime begin = clock_.Now();
    for (const StreamCount& count : CountStreams()) {
      connections_.HasStreams(count.peer, count.n_streams);
      if (count.n_streams > ConnectionTable::kMaxCalls) connections_.CloseFlooding(count.peer);
      // Its calls end at once, without a handler: each was refused, or asked for health.
      if (count.n_begun > ConnectionTable::kMaxCalls) connections_.CloseStranger(count.peer);
    }
    const absl::Duration pause = std::max(kMinPause, kPauseShare * (clock_.Now() - begin));
    {
      MutexLock lock(mu_);
      if (!stopping_) stopped_.WaitFor(mu_, pause);
    }
    is_called_ = false;
    if (is_crowded()) Look();
  }
}

}  // namespace nerf
