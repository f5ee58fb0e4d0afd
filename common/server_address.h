#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace nerf {

// Whether a client or worker may call this server: OK for HOST:PORT, [IPV6]:PORT and unix:PATH.
// Errors: InvalidArgument that says what is wrong with --server.
absl::Status CheckServerAddress(std::string_view address);

}  // namespace nerf
