#pragma once

#include <string>
#include <string_view>

namespace nerf {

// What a file is by its first bytes (12 are enough), for messages: "a TIFF"; empty for pictures
// that are read, text, and what is not known.
std::string ForeignFileKind(std::string_view head);

}  // namespace nerf
