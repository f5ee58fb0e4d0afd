#pragma once

#include <string>
#include <vector>

#include "client/io.h"

namespace nerf {

// nerfctl without main(): parses `args` (without the program's name), runs the command and returns
// the exit code. Flags override environment variables (NERFCTL_<FLAG>).
int RunNerfctl(const std::vector<std::string>& args, const Io& io);

}  // namespace nerf
