#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "common/process/child_process.h"

namespace nerf {

// Why a process that did not end well failed: Cancelled after a stop; DeadlineExceeded;
// ResourceExhausted for a full disk and for too little memory, also where the kernel killed it;
// Aborted with its last words for the rest. OK where it ended well.
absl::Status FailureOf(std::string_view program, std::string_view doing,
                       const ChildProcessEnd& end);

}  // namespace nerf
