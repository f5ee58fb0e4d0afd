#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace nerf {

// Writes one PNG at `path`, atomically, that shows the images `files` (PNG or JPEG, their alpha
// ignored) in their order, row by row, as many columns as rows or one more, on white. The largest
// width and height among them make the cell of each, at whose upper left it stands. Errors:
// InvalidArgument when there are no files; ResourceExhausted when the sheet would pass the limits
// of ImageLimits; those of reading and writing, naming the path.
absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path);

}  // namespace nerf
