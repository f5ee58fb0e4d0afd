#include "engine/scene/read/colmap_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/folder_names.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/unposed_photographs.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxModelDepth = 4;
constexpr size_t kMaxModels = 64;

std::string Joined(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : absl::StrCat(folder, "/", std::string(name));
}

bool IsModelFolderName(const std::string& name) {
  if (std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isdigit(c); }))
    return true;
  const std::string lower = absl::AsciiStrToLower(name);
  return std::any_of(
      kModelFolderWords.begin(), kModelFolderWords.end(),
      [&](std::string_view word) { return absl::StartsWith(lower, std::string(word)); });
}

// Folders of the folder, sorted by name; hidden ones are left out.
std::vector<std::string> FoldersIn(const SceneFolder& folder, const std::string& name) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(name), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string child = it->path().filename().string();
    if (child[0] == '.' || child == "__MACOSX" || !it->is_directory(ignored)) continue;
    if (it->is_symlink(ignored) && !folder.follows_links()) continue;
    names.push_back(child);
  }
  std::sort(names.begin(), names.end());
  return names;
}

ColmapFiles FilesIn(const SceneFolder& folder, const std::string& name) {
  const auto has = [&](const char* file) { return folder.HasFile(Joined(name, file)); };
  const bool has_text = has("cameras.txt") && has("images.txt");
  const bool has_cameras = has("cameras.bin"), has_images = has("images.bin");
  ColmapFiles files;
  files.folder = name;
  files.is_binary = (has_cameras && has_images) || ((has_cameras || has_images) && !has_text);
  const char* ending = files.is_binary ? ".bin" : ".txt";
  files.cameras = Joined(name, absl::StrCat("cameras", ending));
  files.images = Joined(name, absl::StrCat("images", ending));
  files.points = Joined(name, absl::StrCat("points3D", ending));
  return files;
}

// In a usual place one of the two files is enough: that the other is missing is then said.
bool HoldsModel(const SceneFolder& folder, const std::string& name, bool is_usual) {
  for (const char* ending : {".bin", ".txt"}) {
    const auto is_there = [&](const char* file) {
      return !absl::IsNotFound(folder.FindFile(Joined(name, absl::StrCat(file, ending))).status());
    };
    const bool has_cameras = is_there("cameras"), has_images = is_there("images");
    if ((has_cameras && has_images) || (is_usual && (has_cameras || has_images))) return true;
  }
  return false;
}

void AddModelsBelow(const SceneFolder& folder, const std::string& name, int depth,
                    std::vector<ColmapFiles>* models) {
  for (const std::string& child : FoldersIn(folder, name)) {
    if (!IsModelFolderName(child) || models->size() >= kMaxModels) continue;
    const std::string path = Joined(name, child);
    const bool is_known = std::any_of(models->begin(), models->end(),
                                      [&](const ColmapFiles& m) { return m.folder == path; });
    const bool is_part = absl::StartsWith(path, "sparse/");  // of a reconstruction in parts
    if (!is_known && HoldsModel(folder, path, is_part)) models->push_back(FilesIn(folder, path));
    if (depth < kMaxModelDepth) AddModelsBelow(folder, path, depth + 1, models);
  }
}

std::vector<ColmapFiles> ModelsUnder(const SceneFolder& folder, const std::string& root) {
  std::vector<ColmapFiles> models;
  for (const std::string_view usual : kUsualModelFolders) {
    const std::string path = Joined(root, usual);
    if (HoldsModel(folder, path, true)) models.push_back(FilesIn(folder, path));
  }
  if (HoldsModel(folder, root, false)) models.push_back(FilesIn(folder, root));
  AddModelsBelow(folder, root, 1, &models);
  return models;
}

std::string ParentOf(const std::string& folder) {
  const size_t slash = folder.rfind('/');
  return slash == std::string::npos ? "" : folder.substr(0, slash);
}

// Whether the first photograph that is there has the size that the model states.
bool HasStatedSize(const SceneFolder& folder, const std::string& pictures,
                   const ColmapModel& model) {
  for (const ColmapImage& image : model.images) {
    const auto camera = model.cameras.find(image.camera_id);
    const absl::StatusOr<std::string> file = folder.FindFile(Joined(pictures, image.name));
    if (!file.ok() || camera == model.cameras.end()) continue;
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(folder.PathOf(*file));
    return header.ok() && static_cast<uint64_t>(header->width) == camera->second.width &&
           static_cast<uint64_t>(header->height) == camera->second.height;
  }
  return false;
}

}  // namespace

std::string ColmapFiles::source() const {
  return absl::StrCat(folder.empty() ? "COLMAP" : folder, is_binary ? " (binary)" : " (text)");
}

std::vector<ColmapFiles> FindColmapModels(const SceneFolder& folder) {
  std::vector<ColmapFiles> models = ModelsUnder(folder, "");
  if (!models.empty()) return models;
  // A project in a folder of its own.
  const std::vector<std::string> children = FoldersIn(folder, "");
  if (children.size() != 1 || HasPhotographs(folder.PathOf(""))) return {};
  return ModelsUnder(folder, children[0]);
}

std::string FindColmapPictures(const SceneFolder& folder, const ColmapFiles& files,
                               const ColmapModel& model, size_t* n_present) {
  std::string best = "images";
  bool best_fits = false;
  *n_present = 0;
  for (std::string above = files.folder;; above = ParentOf(above)) {
    for (const char* name : {"images", "input", ""}) {
      const std::string pictures = *name == '\0' ? above : Joined(above, name);
      if (!folder.HasFolder(pictures)) continue;
      const auto n = static_cast<size_t>(
          std::count_if(model.images.begin(), model.images.end(), [&](const ColmapImage& image) {
            return !image.name.empty() && image.name[0] != '/' &&
                   folder.HasFile(Joined(pictures, image.name));
          }));
      if (n == 0 || n < *n_present) continue;
      const bool fits = HasStatedSize(folder, pictures, model);
      if (n == *n_present && (best_fits || !fits)) continue;
      best = pictures;
      best_fits = fits;
      *n_present = n;
    }
    if (above.empty()) return best;
  }
}

}  // namespace nerf
