#pragma once

#include <string>

namespace CLI {
class App;
}

namespace nerf {

// The manual page nerfctl(1) in roff: every command with its arguments, flags and examples, from
// the tree of commands.
std::string ManPage(CLI::App& root);

}  // namespace nerf
