#pragma once

#include "common/clock.h"
#include "common/mutex.h"

namespace nerf {

// A clock that only moves in Advance and JumpWall. Used by tests of leases, watches and ages.
// Thread-safe.
class FakeClock final : public Clock {
 public:
  SteadyTime Now() const override {
    MutexLock lock(mu_);
    return now_;
  }
  absl::Time WallNow() const override {
    MutexLock lock(mu_);
    return wall_now_;
  }

  // Moves both clocks forward.
  void Advance(absl::Duration delta) {
    MutexLock lock(mu_);
    now_ = now_ + delta;
    wall_now_ += delta;
  }
  // Moves only the wall clock, in either direction, as if the time was set.
  void JumpWall(absl::Duration delta) {
    MutexLock lock(mu_);
    wall_now_ += delta;
  }

 private:
  mutable Mutex mu_;
  SteadyTime now_ ABSL_GUARDED_BY(mu_) = SteadyTime(absl::Hours(1));
  absl::Time wall_now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'790'000'000);
};

}  // namespace nerf
