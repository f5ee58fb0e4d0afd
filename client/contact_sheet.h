#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace nerf {

// Writes one PNG at `path`, atomically, that shows the images `files` (PNG or JPEG of one size, RGB or grey) side by side, as many columns as make the sheet
// about square, on white. Errors: InvalidArgument when there are no files or their sizes differ; those of reading and writing, naming the path.
absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path);

}  // namespace nerf
