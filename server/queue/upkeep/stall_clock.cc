#include "server/queue/upkeep/stall_clock.h"

#include <algorithm>

namespace nerf {

SteadyTime StallClock::NowLocked(SteadyTime machine_now) const {
  if (store_hangs_) return now_at_tick_;
  return now_at_tick_ + std::min(machine_now - ticked_at_, kMaxStep);
}

SteadyTime StallClock::Now() const {
  MutexLock lock(mu_);
  return NowLocked(clock_.Now());
}

void StallClock::Tick(bool store_hangs) {
  MutexLock lock(mu_);
  const SteadyTime machine_now = clock_.Now();
  now_at_tick_ = NowLocked(machine_now);
  ticked_at_ = machine_now;
  store_hangs_ = store_hangs;
}

}  // namespace nerf
