#pragma once

#include <string>
#include <vector>

namespace nerf {

// The settings in the values of --set, each KEY=VALUE or several with commas: "a=1,b=2" holds two,
// "box=0,0,0,2" one, since a comma only separates where a key and = follow it.
std::vector<std::string> SettingsIn(const std::vector<std::string>& texts);

}  // namespace nerf
