#pragma once

#include <string>

#include "common/problems.h"

namespace nerf {

// "file: field: message", control characters replaced.
std::string ToString(const Problem& problem);

// The first few problems, one per line, and the number of further ones.
std::string SummaryOf(const Problems& problems);

}  // namespace nerf
