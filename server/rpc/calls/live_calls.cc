#include "server/rpc/calls/live_calls.h"

#include <algorithm>

#include "common/error_reason.h"

namespace nerf {
namespace {

absl::Status DrainingError() {
  return WithReason(absl::UnavailableError("the server is shutting down"), reason::kDraining);
}

}  // namespace

void LiveCalls::Add(const std::shared_ptr<LiveCall>& call) { AddTo(&LiveCalls::callers_, call); }

void LiveCalls::AddWorker(const std::shared_ptr<LiveCall>& stream) {
  AddTo(&LiveCalls::workers_, stream);
}

void LiveCalls::AddTo(List LiveCalls::*list, const std::shared_ptr<LiveCall>& call) {
  {
    MutexLock lock(mu_);
    if (!ended_) {
      auto& [calls, sweep_at] = this->*list;
      if (calls.size() >= sweep_at) {
        std::erase_if(calls, [](const auto& weak) { return weak.expired(); });
        sweep_at = std::max<size_t>(64, 2 * calls.size());
      }
      calls.push_back(call);
      return;
    }
  }
  call->End(DrainingError());
}

void LiveCalls::EndAll() {
  std::vector<std::weak_ptr<LiveCall>> calls;
  {
    MutexLock lock(mu_);
    ended_ = true;
    calls.swap(callers_.calls);
    calls.insert(calls.end(), workers_.calls.begin(), workers_.calls.end());
    workers_.calls.clear();
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->End(DrainingError());
  }
}

}  // namespace nerf
