#include "tests/testing/paths.h"

namespace nerf {

std::string SourceDir() { return NERF_SOURCE_DIR; }
std::string BinDir() { return NERF_BIN_DIR; }

}  // namespace nerf
