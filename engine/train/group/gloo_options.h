#pragma once

#include <string>

#include "absl/time/time.h"

namespace nerf {

struct GlooOptions {
  std::string interface;  // network interface of the ranks' sockets; empty: loopback
  // Longest time that a transfer may take; then the group has failed.
  absl::Duration time_limit = absl::Seconds(20);
};

}  // namespace nerf
