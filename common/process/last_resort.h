#pragma once

#include <cstdio>
#include <exception>

#include "common/process/exit_code.h"

namespace nerf {

// The last-resort catch of a program: returns what `run` returns; an exception that escapes it
// becomes a line on standard error and the exit code of a bug.
template <typename Run>
int WithLastResort(const char* program, Run run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s (INTERNAL)\n", program, error.what());
    return kBug;
  }
}

}  // namespace nerf
