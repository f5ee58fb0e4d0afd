#include "engine/scene/unposed_photographs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "engine/scene/scene_reader.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

bool HoldsPhotographs(const fs::path& folder) {
  constexpr std::array<std::string_view, 8> kEndings = {".jpg", ".jpeg", ".png", ".mp4",
                                                        ".mov", ".m4v",  ".avi", ".mkv"};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string ending = absl::AsciiStrToLower(it->path().extension().string());
    if (std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end()) return true;
  }
  return false;
}

}  // namespace

bool HasPhotographs(const std::string& folder) {
  return HoldsPhotographs(folder) || HoldsPhotographs(fs::path(folder) / "images");
}

std::string PosedFolder(const std::string& folder) {
  std::error_code error;
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const fs::path canonical = fs::canonical(path, error);
  const fs::path last = fs::path(path).filename();
  if (!error && (last == "." || last == "..")) path = canonical.string();
  return path + "-posed";
}

bool IsUnposed(const std::string& folder) {
  return HasPhotographs(folder) && !HasSceneFiles(folder);
}

}  // namespace nerf
