#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nerf {

// Prints a failed call as "nerfctl: <message> (<REASON>)", or with the canonical code if there is
// no reason; several field violations follow, one per line. Names of resources of `project` are
// short.
void PrintError(const absl::Status& status, std::string_view project, std::ostream& err);

// Prints what is wrong with a command line, a line for each flag, and the command's help:
//   nerfctl: --seed: 'x' is not a whole number
//     run `nerfctl train --help` for usage
void PrintUsageError(const absl::Status& status, std::string_view command, std::ostream& err);

// An error as one JSON object: {"event":"error","code","reason","message","violations"}.
std::string ErrorJson(const absl::Status& status);

// A line for people as one JSON object: {"event":EVENT,"message":LINE}.
std::string LineJson(std::string_view event, std::string_view line);

}  // namespace nerf
