#pragma once

#include <string>

#include "absl/status/status.h"

namespace nerf {

// The processor's name as the system gives it; "unknown processor" where it does not.
std::string CpuModel();

// One line: processor and instruction set.
std::string DeviceDescription();

// Makes the kernels run with the instruction set that the environment variable NERF_SIMD names, to
// measure or to compare; with the machine's best where it is not set. Every main that runs kernels
// calls it before the first. Errors: InvalidArgument that lists what the machine has.
absl::Status TakeSimdPathOfEnvironment();

}  // namespace nerf
