#pragma once

#include "absl/time/time.h"

namespace nerf {

// A point on a steady clock: a duration since an arbitrary start that is the same within one
// process and means nothing outside of it. Never stored, never sent.
class SteadyTime {
 public:
  constexpr SteadyTime() = default;
  explicit constexpr SteadyTime(absl::Duration since_start) : since_start_(since_start) {}

  friend SteadyTime operator+(SteadyTime time, absl::Duration delta) {
    return SteadyTime(time.since_start_ + delta);
  }
  friend absl::Duration operator-(SteadyTime a, SteadyTime b) {
    return a.since_start_ - b.since_start_;
  }
  friend bool operator==(SteadyTime a, SteadyTime b) { return a.since_start_ == b.since_start_; }
  friend bool operator<(SteadyTime a, SteadyTime b) { return a.since_start_ < b.since_start_; }
  friend bool operator>(SteadyTime a, SteadyTime b) { return b < a; }
  friend bool operator<=(SteadyTime a, SteadyTime b) { return !(b < a); }
  friend bool operator>=(SteadyTime a, SteadyTime b) { return !(a < b); }

 private:
  absl::Duration since_start_ = absl::ZeroDuration();
};

// Where time comes from. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // For every deadline and interval: never jumps, whatever happens to the wall clock.
  virtual SteadyTime Now() const = 0;
  // For people only (create times, logs): may jump both ways.
  virtual absl::Time WallNow() const = 0;
};

// The machine's clocks (CLOCK_MONOTONIC and CLOCK_REALTIME).
class RealClock final : public Clock {
 public:
  SteadyTime Now() const override;
  absl::Time WallNow() const override;
};

}  // namespace nerf
