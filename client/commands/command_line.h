#pragma once

#include <string>
#include <vector>

#include "client/flags/io.h"

namespace CLI {
class App;
}

namespace nerf {

// Gives every flag of `app` its environment variable, but not one that excludes a flag of the
// command line `args`: flags override the environment.
void AddEnvironmentTwins(CLI::App& app, const std::vector<std::string>& args);

// nerfctl without main(): parses `args` (without the program's name), runs the command and returns
// the exit code. Flags override environment variables (NERFCTL_<FLAG>).
int RunNerfctl(const std::vector<std::string>& args, const Io& io);

}  // namespace nerf
