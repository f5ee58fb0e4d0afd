#include "engine/scene/other_exports.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBeginning = 4096;
constexpr const char* kColmap =
    "export the cameras in COLMAP's format, with the undistorted photographs in images/";

constexpr const char* kRecord3d =
    "this is a capture of Record3D: nerfstudio's `ns-process-data record3d` makes a "
    "transforms.json of it";

// What a file's name ends in and its beginning holds, and whose it is.
struct Kind {
  std::string_view ending, mark, program, menu;
};
constexpr Kind kKinds[] = {
    {".xml", "<BlocksExchange", "BlocksExchange, of ContextCapture", ""},
    {".xml", "<chunk", "Agisoft Metashape", " (File, Export, Export Cameras, COLMAP)"},
    {".xml", "<sensor", "Agisoft Metashape", " (File, Export, Export Cameras, COLMAP)"},
    {".psx", "", "Agisoft Metashape", " (File, Export, Export Cameras, COLMAP)"},
    {".csv", "#name,", "RealityCapture", " (Registration export, COLMAP)"},
    {".csv", "#cameras", "RealityCapture", " (Registration export, COLMAP)"},
    {".csv", "heading", "RealityCapture", " (Registration export, COLMAP)"},
    {".xmp", "xcr:", "RealityCapture", " (Registration export, COLMAP)"},
    {".out", "# Bundle file", "Bundler", ""},
    {".nvm", "NVM_V", "VisualSFM", ""},
    {".sfm", "\"views\"", "Meshroom", ""}};

// By what the files of the folder, or of a folder in it, begin with.
std::string ByBeginning(const SceneFolder& folder, const std::string& in) {
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(in), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    const std::string path = in.empty() ? name : absl::StrCat(in, "/", name);
    if (name[0] == '.' || (it->is_symlink(ignored) && !folder.follows_links())) continue;
    if (it->is_directory(ignored)) {
      if (!in.empty()) continue;
      if (std::string found = ByBeginning(folder, path); !found.empty()) return found;
      continue;
    }
    const std::string lower = absl::AsciiStrToLower(name);
    if (absl::EndsWith(lower, ".r3d")) return kRecord3d;
    if (absl::EndsWith(lower, ".zip"))
      return absl::StrCat(Printable(path), " is an archive: unpack it, and name its folder");
    for (const Kind& kind : kKinds) {
      if (!absl::EndsWith(lower, std::string(kind.ending))) continue;
      const absl::StatusOr<std::string> head = ReadHead(it->path().string(), kBeginning);
      if (!head.ok() || !absl::StrContains(*head, std::string(kind.mark))) continue;
      return absl::StrCat(Printable(path), " is of ", std::string(kind.program), ": ", kColmap,
                          std::string(kind.menu));
    }
  }
  return "";
}

// Whether a folder in it has a name that begins so.
bool HasFolderLike(const SceneFolder& folder, const std::string& prefix) {
  std::error_code error, ignored;
  for (fs::directory_iterator it(folder.PathOf(""), error), end; !error && it != end;
       it.increment(error)) {
    if (absl::StartsWith(it->path().filename().string(), prefix) && it->is_directory(ignored))
      return true;
  }
  return false;
}

}  // namespace

std::string OtherExport(const SceneFolder& folder) {
  if (folder.HasFolder("EXR_RGBD") || (folder.HasFile("metadata") && folder.HasFolder("rgbd")) ||
      (folder.HasFile("metadata.json") && folder.HasFolder("rgb"))) {
    return kRecord3d;
  }
  if (folder.HasFile("opensfm/reconstruction.json") || folder.HasFile("reconstruction.json") ||
      HasFolderLike(folder, "odm_")) {
    return "this is a project of OpenDroneMap or OpenSfM: `opensfm export_colmap` makes a COLMAP "
           "model of it";
  }
  if (folder.HasFolder("keyframes"))
    return "this is an export of Polycam without cameras: choose raw data, with developer mode on";
  if (folder.HasFolder("point_cloud") && folder.HasFile("cfg_args")) {
    return "this is what a training of Gaussian splatting wrote: take the data set that it was "
           "trained on (source_path in cfg_args)";
  }
  return ByBeginning(folder, "");
}

}  // namespace nerf
