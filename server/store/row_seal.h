#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// A digest in front of a row's body, so that bits that the disk has changed are found at the start.
// SQLite's own check finds damaged pages and indexes, not damaged values.

// `body` with a digest of it and of the row's other `columns`.
std::string SealRow(std::string_view body, const std::vector<std::string>& columns);

// The body again. A row without a digest, from an older version, is returned as it is. DataLoss
// STORE_CORRUPT when body or columns were changed.
absl::StatusOr<std::string> UnsealRow(std::string_view sealed,
                                      const std::vector<std::string>& columns);

}  // namespace nerf
