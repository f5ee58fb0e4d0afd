#pragma once

#include <string>
#include <string_view>

namespace nerf {

// A path as one shell word: quoted if needed, and with ./ in front of a leading dash, so that it is
// not read as a flag.
std::string ShellWord(std::string_view path);

}  // namespace nerf
