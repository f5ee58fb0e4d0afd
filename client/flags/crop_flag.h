#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace nerf {

// A --crop that leaves out the box that is kept with a model or job, or keeps none.
inline constexpr std::string_view kNoCrop = "none";

// --crop of commands that keep it with a job or model.
void AddKeptCropFlag(CLI::App& command, std::string* crop);

}  // namespace nerf
