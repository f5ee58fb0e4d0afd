#pragma once

#include "common/clock.h"
#include "common/mutex.h"

namespace nerf {

// A clock that stops while the server stalls: while its process is stopped or gets no CPU time, and
// while a commit of its store hangs. Messages of workers may be unread after such a time, so leases
// are measured by this clock. Otherwise it runs like the machine's clock. Thread-safe. The
// machine's clock outlives it.
class StallClock final : public Clock {
 public:
  // The clock advances by at most this between two ticks.
  static constexpr absl::Duration kMaxStep = absl::Milliseconds(500);

  explicit StallClock(const Clock* clock) : clock_(*clock), ticked_at_(clock->Now()) {}

  // Call several times a second. With `store_hangs` the clock stops until the next tick.
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
