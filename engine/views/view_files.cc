#include "engine/views/view_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kNames = {"depth.json", "sheet.png", "compare.png"};
constexpr std::array<std::string_view, 5> kBeginnings = {"rgb_", "rgba_", "rgbaz_", "depth_",
                                                         "opacity_"};

bool IsOfRender(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

std::set<std::string> ViewFilesIn(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (IsOfRender(name)) names.insert(std::move(name));
  }
  return names;
}

}  // namespace nerf
