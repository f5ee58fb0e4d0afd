#include "engine/scene/read/unposed_photographs.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "common/shell_word.h"
#include "engine/base/picture_names.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/masks.h"
#include "engine/scene/read/other_exports.h"
#include "engine/scene/read/scene_reader.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxReportBytes = uint64_t{64} << 20;

bool HoldsPhotographs(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (HasPhotographEnding(name) || HasFilmEnding(name) || HasOtherPictureEnding(name))
      return true;
  }
  return false;
}

// Adds the names of the folder's files that can be posed, as nerf-engine pose lists them. Returns
// whether there is a picture among them.
bool AddNames(const fs::path& folder, std::set<std::string>* names) {
  bool has_picture = false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    const bool is_picture = HasPhotographEnding(name);
    if (!is_picture && !HasFilmEnding(name)) continue;
    if (!it->is_regular_file(ignored)) continue;
    has_picture = has_picture || is_picture;
    names->insert(Printable(name));
  }
  return has_picture;
}

// Removes what the report lists from `names`. A frame of a film is listed as "clip.mp4 at 1.20 s".
// Returns false if the file is no report.
bool RemoveReported(const std::string& report_file, std::set<std::string>* names) {
  const absl::StatusOr<std::string> text = ReadRegularFile(report_file, kMaxReportBytes);
  if (!text.ok()) return false;
  const nlohmann::json report = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return false;
  const auto photos = report.find("photos");
  if (photos == report.end() || !photos->is_array()) return false;
  for (const nlohmann::json& photo : *photos) {
    if (!photo.is_object()) return false;
    const auto name = photo.find("name");
    if (name == photo.end() || !name->is_string()) return false;
    const std::string& text_of = name->get_ref<const std::string&>();
    names->erase(text_of);
    names->erase(text_of.substr(0, text_of.rfind(" at ")));
  }
  return true;
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

std::string PosedFolder(const std::string& folder) {
  std::error_code error;
  if (IsFilm(folder)) return fs::path(folder).replace_extension().string() + "-posed";
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const fs::path canonical = fs::canonical(path, error);
  const fs::path last = fs::path(path).filename();
  if (!error && (last == "." || last == "..")) path = canonical.string();
  return path + "-posed";
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

bool IsUnposed(const std::string& folder) {
  if (IsFilm(folder)) return true;
  if (!HasPhotographs(folder) || HasSceneFiles(folder)) return false;
  if (HasSceneFiles(PosedFolder(folder))) return true;
  const absl::StatusOr<SceneFolder> opened = SceneFolder::Open(folder, /*follow_links=*/true);
  return !opened.ok() || !CannotBePosed(*opened);
}

std::string DatasetOf(const std::string& folder) {
  if (!IsUnposed(folder)) return folder;
  std::string posed = PosedFolder(folder);
  return HasSceneFiles(posed) ? posed : folder;
}

std::vector<std::string> AddedPhotographs(const std::string& folder) {
  std::error_code ignored;
  std::set<std::string> names;
  if (!fs::is_directory(folder, ignored)) return {};
  if (!AddNames(folder, &names)) AddNames(fs::path(folder) / "images", &names);
  if (names.empty() || !RemoveReported(PosedFolder(folder) + "/pose.json", &names)) return {};
  return {names.begin(), names.end()};
}

std::string AddedPhotographsText(const std::string& folder) {
  const std::vector<std::string> added = AddedPhotographs(folder);
  if (added.empty()) return "";
  return absl::StrCat(
      Counted(added.size(), "photograph"), " of ", Printable(folder),
      added.size() == 1 ? " is" : " are", " not in ", Printable(PosedFolder(folder)),
      added.size() == 1 ? ", so it is not used: " : ", so they are not used: ", FirstNames(added));
}

std::string SetPosedFolderAside(const std::string& folder) {
  const std::string posed = PosedFolder(folder);
  std::string aside = posed + "-old";
  std::error_code ignored;
  for (int n = 2; fs::exists(fs::symlink_status(aside, ignored)); ++n)
    aside = absl::StrCat(posed, "-old", n);
  return absl::StrCat("mv ", ShellWord(posed), " ", ShellWord(aside));
}

}  // namespace nerf
