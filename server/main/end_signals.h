#pragma once

#include <signal.h>

#include <optional>

#include "absl/time/time.h"

namespace nerf {

// Blocks SIGINT, SIGTERM and SIGHUP in every thread, so that only Wait receives them. Construct
// before the first thread starts.
class EndSignals {
 public:
  EndSignals();

  // Returns at the first signal, its number; nullopt if none comes for so long. The second one ends
  // the process at once.
  std::optional<int> Wait(absl::Duration timeout = absl::InfiniteDuration());

 private:
  sigset_t signals_;
};

}  // namespace nerf
