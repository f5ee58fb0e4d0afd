#pragma once

#include <string>

#include "absl/status/status.h"

namespace nerf {

// The processor's name as the system reports it, or "unknown processor".
std::string CpuModel();

// One line: processor and instruction set.
std::string DeviceDescription();

// Selects the instruction set of the kernels: that of the environment variable NERF_SIMD, or the
// machine's best. Every main calls it before it runs kernels. Errors: InvalidArgument that lists
// the machine's instruction sets.
absl::Status TakeSimdPathOfEnvironment();

}  // namespace nerf
