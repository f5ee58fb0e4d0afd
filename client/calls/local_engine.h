#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace nerf {

class Session;

// A command line of nerf-engine that nerfctl runs on this machine.
struct LocalEngineRun {
  std::vector<std::string> arguments;  // the program, then its arguments
  std::string failure;                 // printed where it has failed by itself
  std::string unfinished;              // what --timeout ended it before: "before ..."
  std::function<bool(std::string_view line)> is_shown;  // of the lines that it prints
  bool is_result = false;  // they are what was asked for, so they go to standard output
};

// Prints its lines until it ends. Ctrl-C and --timeout end it with time to remove its files.
// Returns the exit code, after printing the reason where it is not 0.
int RunLocalEngine(Session& session, const LocalEngineRun& run);

}  // namespace nerf
