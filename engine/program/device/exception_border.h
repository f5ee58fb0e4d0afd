#pragma once

#include <functional>

#include "absl/status/status.h"

namespace nerf {

// Runs `body` and turns exceptions into Status. Called by every command and by each request of
// `serve`; nothing else of the engine catches exceptions of libraries.
//   std::bad_alloc of the host        ResourceExhausted OUT_OF_MEMORY
//   CudaOutOfMemory                   ResourceExhausted GPU_OUT_OF_MEMORY
//   CudaError (device is unusable)    Internal GPU_FAILED
//   anything else                     Internal
absl::Status Guarded(const std::function<absl::Status()>& body);

}  // namespace nerf
