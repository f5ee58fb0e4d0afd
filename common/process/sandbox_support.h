#pragma once

#include <string>

namespace nerf {

// The kernel's version of Landlock, which limits the files that a process reaches; 0 without it.
int LandlockVersion();

// What this machine offers for the sandbox of engines: "Landlock 7, seccomp".
std::string DescribeSandboxSupport();

}  // namespace nerf
