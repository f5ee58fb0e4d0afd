#pragma once

#include <string>

namespace CLI {
class App;
}

namespace nerf {

// --crop of commands that keep it with a job or model.
void AddKeptCropFlag(CLI::App& command, std::string* crop);

}  // namespace nerf
