#pragma once

#include <iosfwd>

#include "absl/status/status.h"

namespace nerf {

// Prints a failed call as "nerfctl: <message> (<REASON>)"; several violations of fields follow one
// a line. Where there is no reason the canonical code stands in its place.
void PrintError(const absl::Status& status, std::ostream& err);

}  // namespace nerf
