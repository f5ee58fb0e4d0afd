#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

using ZipEntries = std::map<std::string, std::string_view, std::less<>>;

// The files of a zip archive by name, as parts of `bytes`. Knows archives as torch.save writes
// them: files are stored uncompressed, below 4 GiB. Checksums are not compared. Errors:
// InvalidArgument saying what is wrong.
absl::StatusOr<ZipEntries> StoredZipEntries(std::string_view bytes);

}  // namespace nerf
