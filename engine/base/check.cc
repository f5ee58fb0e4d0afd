#include "engine/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace nerf {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace nerf
