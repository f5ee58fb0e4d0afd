#pragma once

#include "absl/status/status.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {

// A longer job or id is refused, and not repeated in the answer.
inline constexpr size_t kMaxNameBytes = 1024;

// Whether an engine can take the request up. Errors: InvalidArgument FIELD_INVALID that lists every
// field that is missing or out of range; what the config of a training holds is checked with it.
absl::Status CheckRequest(const internal::WorkerRequest& request);

}  // namespace nerf
