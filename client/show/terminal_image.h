#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/pictures/image_io.h"

namespace nerf {

// The escape sequences and characters that show an image in a terminal: by the graphics protocol of
// kitty, iTerm or sixel if the environment names a terminal that has it, else by colored blocks.
// At most `columns` x `rows` cells, aspect ratio kept. `environment` holds "NAME=value" entries.
// Errors: Unimplemented FEATURE_NOT_BUILT without libchafa.
absl::StatusOr<std::string> TerminalImage(const ImageU8& image, int columns, int rows,
                                          const std::vector<std::string>& environment);

}  // namespace nerf
