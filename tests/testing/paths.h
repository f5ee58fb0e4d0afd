#pragma once

#include <string>

namespace nerf {

// The root of the source tree, and the folder of the built binaries (nerfd, nerfctl, ...). Compiled
// into one file, so that every other test file compiles to the same object in any checkout.
std::string SourceDir();
std::string BinDir();

}  // namespace nerf
