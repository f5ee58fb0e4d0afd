#include "engine/scene/read/unposed_photographs.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "engine/base/picture_names.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/masks.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

bool HoldsPhotographs(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (HasPhotographEnding(name) || HasFilmEnding(name) || HasOtherPictureEnding(name))
      return true;
  }
  return false;
}

// The masks of the folder's masks/ that belong to pictures in it or in its images/, sorted.
std::vector<std::string> MasksOf(const std::string& folder, const std::vector<std::string>& files) {
  std::set<std::string> masks;
  const absl::StatusOr<SceneFolder> opened = SceneFolder::Open(folder, /*follow_links=*/true);
  if (!opened.ok() || !opened->HasFolder("masks")) return {};
  for (const std::string& file : files) {
    if (!HasPhotographEnding(file)) continue;
    std::string mask = FindMask(*opened, "images/" + fs::path(file).filename().string());
    if (!mask.empty()) masks.insert(std::move(mask));
  }
  return {masks.begin(), masks.end()};
}

}  // namespace

bool HasPhotographs(const std::string& folder) {
  return HoldsPhotographs(folder) || HoldsPhotographs(fs::path(folder) / "images");
}

bool IsFilm(const std::string& path) {
  std::error_code ignored;
  return HasFilmEnding(path) && fs::is_regular_file(path, ignored);
}

PhotographFiles FindPhotographFiles(const std::string& path) {
  PhotographFiles found;
  const fs::path given(path);
  if (IsFilm(path)) {
    found.folder = given.has_parent_path() ? given.parent_path().string() : ".";
    found.files = {given.filename().string()};
    return found;
  }
  found.folder = path;
  for (const std::string in : {"", "images/"}) {
    bool has_picture = false;
    std::error_code error;
    std::vector<std::string> files;
    for (fs::directory_iterator it(given / in, error), end; !error && it != end;
         it.increment(error)) {
      std::error_code ignored;
      const std::string name = it->path().filename().string();
      if (name[0] == '.' || !it->is_regular_file(ignored)) continue;
      if (HasOtherPictureEnding(name)) found.unread.push_back(Printable(name));
      const bool is_picture = HasPhotographEnding(name);
      has_picture = has_picture || is_picture;
      if (is_picture || HasFilmEnding(name)) files.push_back(in + name);
    }
    if (!files.empty() && (has_picture || found.files.empty())) found.files = std::move(files);
    if (has_picture) break;
  }
  found.masks = MasksOf(path, found.files);
  std::sort(found.files.begin(), found.files.end());
  std::sort(found.unread.begin(), found.unread.end());
  return found;
}

}  // namespace nerf
