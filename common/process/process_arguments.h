#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nerf {

// The arguments that a process was started with; empty if it does not exist or may not be read.
std::vector<std::string> ArgumentsOf(pid_t pid);

// Pointers to the strings, and a null, as exec and posix_spawn take them. Valid until `arguments`
// change.
std::vector<char*> ArgvOf(const std::vector<std::string>& arguments);

}  // namespace nerf
