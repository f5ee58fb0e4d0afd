#pragma once

#include <string_view>

namespace nerf {

// A file that is compiled into the program by cmake/NerfEmbed.cmake.
struct EmbeddedFile {
  std::string_view name;
  std::string_view bytes;
};

}  // namespace nerf
