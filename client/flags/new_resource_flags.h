#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags of every command that creates a resource.
struct NewResourceFlags {
  std::string id;            // empty: the server makes one
  std::string display_name;  // may be empty
  std::string request_id;    // UUID4; empty: a new one
};

// Adds --id, --display-name and --request-id.
// `default_name`: what the help says of a name that is not given, such as "the folder's".
void AddNewResourceFlags(CLI::App& app, NewResourceFlags* flags,
                         const std::string& default_name = "");

// The id itself when it is a UUID4, a new one when it is empty. Errors: InvalidArgument.
absl::StatusOr<std::string> RequestIdOrNew(const std::string& text, RandomSource& random);

// Checks all three and fills in the request id. Errors: InvalidArgument that names the flag.
absl::Status CompleteNewResourceFlags(NewResourceFlags* flags, RandomSource& random);

}  // namespace nerf
