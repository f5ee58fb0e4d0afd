#pragma once

#include <string>

namespace nerf {

// The root of the source tree, and the folder of the built binaries (nerfd, nerfctl, ...). Defined
// in one file, so that all other test files compile to the same objects in any checkout.
std::string SourceDir();
std::string BinDir();

}  // namespace nerf
