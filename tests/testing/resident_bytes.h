#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace nerf {

// Memory of this process that is in RAM.
inline size_t ResidentBytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace nerf
