#pragma once

#include <string>

#include "absl/time/time.h"

namespace nerf {

// When a message with an expire_time expires: "never", "expired", "in 2h3m0s".
template <typename Message>
std::string ExpiryText(const Message& message, absl::Time now) {
  if (!message.has_expire_time()) return "never";
  const absl::Time time = absl::FromUnixSeconds(message.expire_time().seconds());
  return time <= now ? "expired"
                     : "in " + absl::FormatDuration(absl::Trunc(time - now, absl::Minutes(1)));
}

}  // namespace nerf
