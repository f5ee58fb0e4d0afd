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

constexpr std::array<std::string_view, 3> kPhotoEndings = {".jpg", ".jpeg", ".png"};
constexpr std::array<std::string_view, 8> kFilmEndings = {".mp4", ".mov",  ".m4v", ".avi",
                                                          ".mkv", ".webm", ".mts", ".3gp"};

constexpr std::array<std::string_view, 16> kOtherPictureEndings = {
    ".heic", ".heif", ".avif", ".webp", ".tif", ".tiff", ".bmp", ".gif",
    ".dng",  ".cr2",  ".cr3",  ".nef",  ".arw", ".orf",  ".rw2", ".raf"};

template <size_t n>
bool HasEnding(const fs::path& path, const std::array<std::string_view, n>& endings) {
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

}  // namespace nerf
