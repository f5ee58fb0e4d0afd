#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// The existing path that `path`, which does not exist, most likely misspells: its first part that
// does not exist is replaced by the entry of that folder that is most like it. Empty if none is.
std::string NearestPath(const std::string& path);

// NotFound: "data/mci: there is no such folder; did you mean data/mic?".
absl::Status NoSuchFolder(const std::string& path);

// The error with NearestPath if it is NotFound; any other unchanged.
absl::Status WithNearestPath(const absl::Status& status, const std::string& path);
template <typename T>
absl::StatusOr<T> WithNearestPath(absl::StatusOr<T> result, const std::string& path) {
  if (result.ok()) return result;
  return WithNearestPath(result.status(), path);
}

}  // namespace nerf
