#pragma once

#include "common/clock.h"
#include "common/mutex.h"

namespace nerf {

// A clock that stands still while the server does: while its process is stopped or gets no
// processor, and while its store hangs in a commit. Whoever is silent in such a time may have
// spoken and not been heard, so leases and the like are measured by this clock. It runs as fast as
// the machine's clock otherwise. Thread-safe. The machine's clock outlives it.
class StallClock final : public Clock {
 public:
  // Between two ticks no more than this passes.
  static constexpr absl::Duration kMaxStep = absl::Milliseconds(500);

  explicit StallClock(const Clock* clock) : clock_(*clock), ticked_at_(clock->Now()) {}

  // Call a few times a second. Until the next tick time stands still where `store_hangs`.
  void Tick(bool store_hangs);

  SteadyTime Now() const override;
  absl::Time WallNow() const override { return clock_.WallNow(); }

 private:
  SteadyTime NowLocked(SteadyTime machine_now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Clock& clock_;
  mutable Mutex mu_;
  SteadyTime ticked_at_ ABSL_GUARDED_BY(mu_);  // by the machine's clock
  SteadyTime now_at_tick_ ABSL_GUARDED_BY(mu_);
  bool store_hangs_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nerf
