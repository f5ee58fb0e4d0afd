#include "common/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace nerf {

SteadyTime RealClock::Now() const {
  return SteadyTime(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
}

absl::Time RealClock::WallNow() const { return absl::Now(); }

}  // namespace nerf
