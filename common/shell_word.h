#pragma once

#include <string>
#include <string_view>

namespace nerf {

// A path as one word of a shell's command line: in quotes where it needs them, and never taken for
// a flag.
std::string ShellWord(std::string_view path);

}  // namespace nerf
