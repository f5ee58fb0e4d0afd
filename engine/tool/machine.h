#pragma once

#include <string>

namespace nerf {

// The processor's name as the system gives it; "unknown processor" where it does not.
std::string CpuModel();

// One line: processor and instruction set.
std::string DeviceDescription();

}  // namespace nerf
