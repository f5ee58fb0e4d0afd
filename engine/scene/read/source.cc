#include "engine/scene/read/source.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "common/shell_word.h"
#include "engine/base/picture_names.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/other_exports.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/unposed_photographs.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxReportBytes = uint64_t{64} << 20;

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

std::string PosedFolder(const std::string& folder) {
  std::error_code error;
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const fs::path canonical = fs::canonical(path, error);
  const fs::path last = fs::path(path).filename();
  if (!error && (last == "." || last == "..")) path = canonical.string();
  return path + "-posed";
}

// Whether poses of the folder's photographs would have to be found: no list has them.
bool HasNoList(const std::string& folder) {
  const absl::StatusOr<SceneFolder> opened = SceneFolder::Open(folder, /*follow_links=*/true);
  return !opened.ok() || !CannotBePosed(*opened);
}

}  // namespace

Source SourceAt(const std::string& path) {
  Source source{.path = path};
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) return source;
  if (!fs::is_directory(status)) {
    source.kind = IsFilm(path) ? Source::Kind::kFilm : Source::Kind::kFile;
    if (!source.HasNoPoses()) return source;
    source.posed = fs::path(path).replace_extension().string() + "-posed";
  } else {
    source.kind = Source::Kind::kFolder;
    if (!HasPhotographs(path) || HasSceneFiles(path)) return source;
    source.posed = PosedFolder(path);
  }
  source.was_posed = HasSceneFiles(source.posed);
  if (source.kind == Source::Kind::kFolder && (source.was_posed || HasNoList(path)))
    source.kind = Source::Kind::kPhotographs;
  return source;
}

std::vector<std::string> AddedPhotographs(const Source& photographs) {
  if (photographs.kind != Source::Kind::kPhotographs) return {};
  const fs::path folder(photographs.path);
  std::set<std::string> names;
  if (!AddNames(folder, &names)) AddNames(folder / "images", &names);
  if (names.empty() || !RemoveReported(photographs.posed + "/pose.json", &names)) return {};
  return {names.begin(), names.end()};
}

std::string AddedPhotographsText(const Source& photographs) {
  const std::vector<std::string> added = AddedPhotographs(photographs);
  if (added.empty()) return "";
  return absl::StrCat(
      Counted(added.size(), "photograph"), " of ", Printable(photographs.path),
      added.size() == 1 ? " is" : " are", " not in ", Printable(photographs.posed),
      added.size() == 1 ? ", so it is not used: " : ", so they are not used: ", FirstNames(added));
}

std::string SetPosedFolderAside(const Source& photographs) {
  const std::string& posed = photographs.posed;
  std::string aside = posed + "-old";
  std::error_code ignored;
  for (int n = 2; fs::exists(fs::symlink_status(aside, ignored)); ++n)
    aside = absl::StrCat(posed, "-old", n);
  return absl::StrCat("mv ", ShellWord(posed), " ", ShellWord(aside));
}

}  // namespace nerf
