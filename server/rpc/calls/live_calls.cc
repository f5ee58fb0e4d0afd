#include "server/rpc/calls/live_calls.h"

#include <algorithm>

#include "common/error_reason.h"

namespace nerf {
namespace {

absl::Status DrainingError() {
  return WithReason(absl::UnavailableError("the server is shutting down"), reason::kDraining);
}

}  // namespace

void LiveCalls::Add(const std::shared_ptr<LiveCall>& call) {
  {
    MutexLock lock(mu_);
    if (!ended_) {
      if (calls_.size() >= sweep_at_) {
        std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
        sweep_at_ = std::max<size_t>(64, 2 * calls_.size());
      }
      calls_.push_back(call);
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
    calls.swap(calls_);
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->End(DrainingError());
  }
}

}  // namespace nerf
