#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nerf {

// The arguments that a process was started with; empty if it does not exist or may not be read.
std::vector<std::string> ArgumentsOf(pid_t pid);

}  // namespace nerf
