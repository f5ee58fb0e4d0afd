#pragma once

#include <set>
#include <string>

namespace nerf {

// Names of the files in `folder` that a render wrote, by their names: rgb_*, rgba_*, rgbaz_*,
// depth_*, opacity_*, depth.json, sheet.png and compare.png. None where there is no such folder.
std::set<std::string> ViewFilesIn(const std::string& folder);

}  // namespace nerf
