#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace nerf {

// An error of a file that a command line's flag names, as every program reports it: the message is
// "FLAG: message", the code NotFound or PermissionDenied as before, for all others InvalidArgument.
inline absl::Status FlagFileError(std::string_view flag, const absl::Status& status) {
  const bool is_kept = absl::IsNotFound(status) || absl::IsPermissionDenied(status);
  return {is_kept ? status.code() : absl::StatusCode::kInvalidArgument,
          absl::StrCat(absl::string_view(flag.data(), flag.size()), ": ", status.message())};
}

}  // namespace nerf
