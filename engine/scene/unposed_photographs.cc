#include "engine/scene/unposed_photographs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "common/shell_word.h"
#include "engine/scene/scene_files.h"
#include "engine/scene/scene_reader.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kPhotoEndings = {".jpg",  ".jpeg", ".png", ".heic",
                                                           ".heif", ".avif", ".webp"};
constexpr std::array<std::string_view, 8> kFilmEndings = {".mp4", ".mov",  ".m4v", ".avi",
                                                          ".mkv", ".webm", ".mts", ".3gp"};

constexpr std::array<std::string_view, 12> kOtherPictureEndings = {".tif", ".tiff", ".bmp", ".gif",
                                                                   ".dng", ".cr2",  ".cr3", ".nef",
                                                                   ".arw", ".orf",  ".rw2", ".raf"};

constexpr uint64_t kMaxReportBytes = uint64_t{64} << 20;

template <size_t n>
bool HasEnding(const fs::path& path, const std::array<std::string_view, n>& endings) {
  // Systems write hidden files beside pictures: "._a.jpg" is no photograph.
  if (path.filename().string().substr(0, 1) == ".") return false;
  const std::string ending = absl::AsciiStrToLower(path.extension().string());
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

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

}  // namespace

bool HasPhotographEnding(const std::string& name) { return HasEnding(name, kPhotoEndings); }

bool HasFilmEnding(const std::string& name) { return HasEnding(name, kFilmEndings); }

bool HasOtherPictureEnding(const std::string& name) {
  return HasEnding(name, kOtherPictureEndings);
}

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

bool IsUnposed(const std::string& folder) {
  return IsFilm(folder) || (HasPhotographs(folder) && !HasSceneFiles(folder));
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
