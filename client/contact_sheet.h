#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace nerf {

// Writes a PNG with all images of `files` (PNG or JPEG; alpha is ignored) in rows on white. The
// grid is about square; every cell has the largest width and height of all images, and an image
// stands at the upper left of its cell. Written atomically. Errors: InvalidArgument without files;
// ResourceExhausted if the sheet would exceed ImageLimits; errors of reading and writing, which
// name the path.
absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path);

}  // namespace nerf
