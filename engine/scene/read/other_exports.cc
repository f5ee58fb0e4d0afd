#include "engine/scene/read/other_exports.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "engine/scene/read/unposed_photographs.h"

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
  absl::string_view ending, mark, program;
  absl::string_view menu;  // from ": " on: what to do; else where to find the export
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
    {".sfm", "\"views\"", "Meshroom", ""},
    {".json", "\"sfm_data_version\"", "openMVG",
     ": `openMVG_main_openMVG2Colmap -i sfm_data.json -o sparse/0` makes a COLMAP model of it"},
    {"odometry.csv", "qw", "Stray Scanner",
     ": its poses are not read; nerf-engine pose finds them anew in rgb.mp4"},
    {".txt", "imageName X Y Z Omega Phi Kappa", "Pix4D",
     ": import these cameras into Agisoft Metashape and export them in COLMAP's format, or let "
     "nerf-engine pose find the poses anew"}};

// By what the files of the folder, or of a folder in it, begin with.
// *keeps_from_posing: as CannotBePosed has it.
std::string ByBeginning(const SceneFolder& folder, const std::string& in, bool* keeps_from_posing) {
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(in), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    const std::string path = in.empty() ? name : absl::StrCat(in, "/", name);
    if (name[0] == '.' || (it->is_symlink(ignored) && !folder.follows_links())) continue;
    if (it->is_directory(ignored)) {
      if (!in.empty()) continue;
      if (std::string found = ByBeginning(folder, path, keeps_from_posing); !found.empty())
        return found;
      continue;
    }
    const std::string lower = absl::AsciiStrToLower(name);
    if (absl::EndsWith(lower, ".r3d")) return kRecord3d;
    if (absl::EndsWith(lower, ".zip")) {
      *keeps_from_posing = false;
      return absl::StrCat(Printable(path), " is an archive: unpack it, and name its folder");
    }
    for (const Kind& kind : kKinds) {
      if (!absl::EndsWith(lower, kind.ending)) continue;
      const absl::StatusOr<std::string> head = ReadHead(it->path().string(), kBeginning);
      if (!head.ok() || !absl::StrContains(*head, kind.mark)) continue;
      if (absl::StartsWith(kind.menu, ": "))
        return absl::StrCat(Printable(path), " is of ", kind.program, kind.menu);
      return absl::StrCat(Printable(path), " is of ", kind.program, ": ", kColmap, kind.menu);
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

// The .json files of the folder that list frames, sorted.
std::vector<std::string> FrameLists(const SceneFolder& folder) {
  constexpr size_t kListBeginning = size_t{1} << 16;
  std::vector<std::string> lists;
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(""), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (name[0] == '.' || !absl::EndsWith(absl::AsciiStrToLower(name), ".json")) continue;
    if (it->is_symlink(ignored) && !folder.follows_links()) continue;
    const absl::StatusOr<std::string> head = ReadHead(it->path().string(), kListBeginning);
    if (head.ok() && absl::StrContains(*head, "\"frames\"") &&
        absl::StrContains(*head, "\"transform_matrix\"")) {
      lists.push_back(name);
    }
  }
  std::sort(lists.begin(), lists.end());
  return lists;
}

// A folder, up to three deep, with the two files of a COLMAP model; empty if there is none.
std::string ModelFolder(const SceneFolder& folder, const std::string& in, int depth) {
  constexpr int kMaxDepth = 3;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(in), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (name[0] == '.' || !it->is_directory(ignored)) continue;
    if (it->is_symlink(ignored) && !folder.follows_links()) continue;
    names.push_back(in.empty() ? name : absl::StrCat(in, "/", name));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    for (const char* ending : {".bin", ".txt"}) {
      if (folder.HasFile(absl::StrCat(name, "/cameras", ending)) &&
          folder.HasFile(absl::StrCat(name, "/images", ending))) {
        return name;
      }
    }
    if (depth >= kMaxDepth) continue;
    if (std::string found = ModelFolder(folder, name, depth + 1); !found.empty()) return found;
  }
  return "";
}

// Views that are listed under a name that is not read.
std::string MisnamedList(const SceneFolder& folder) {
  if (const std::vector<std::string> lists = FrameLists(folder); !lists.empty()) {
    const std::string lower = absl::AsciiStrToLower(lists[0]);
    const char* const name = absl::StrContains(lower, "train")  ? "transforms_train.json"
                             : absl::StrContains(lower, "test") ? "transforms_test.json"
                             : absl::StrContains(lower, "val")  ? "transforms_val.json"
                                                                : "transforms.json";
    std::vector<std::string> printable;
    for (const std::string& list : lists) printable.push_back(Printable(list));
    return absl::StrCat(FirstNames(printable), lists.size() == 1 ? " lists" : " list",
                        " frames under a name that is not read: rename it to ", name);
  }
  if (const std::string model = ModelFolder(folder, "", 1); !model.empty()) {
    return absl::StrCat(Printable(model),
                        " holds a COLMAP model under a name that is not read: rename it to "
                        "sparse/0");
  }
  return "";
}

struct OtherFiles {
  std::string text;
  bool keeps_from_posing = true;
};

// Pictures of kinds that are not read, where there are no others.
std::string UnreadPictures(const SceneFolder& folder) {
  const PhotographFiles found = FindPhotographFiles(folder.PathOf(""));
  if (!found.files.empty() || found.unread.empty()) return "";
  return absl::StrCat(Counted(found.unread.size(), "picture"), " such as ", found.unread[0],
                      found.unread.size() == 1 ? " is" : " are",
                      " of a kind that is not read: save as JPEG or PNG (ImageMagick: mogrify "
                      "-format png *)");
}

OtherFiles FindOther(const SceneFolder& folder) {
  if (std::string misnamed = MisnamedList(folder); !misnamed.empty()) return {misnamed};
  if (folder.HasFolder("EXR_RGBD") || (folder.HasFile("metadata") && folder.HasFolder("rgbd")) ||
      (folder.HasFile("metadata.json") && folder.HasFolder("rgb"))) {
    return {kRecord3d};
  }
  if (folder.HasFile("opensfm/reconstruction.json") || folder.HasFile("reconstruction.json") ||
      HasFolderLike(folder, "odm_")) {
    return {
        "this is a project of OpenDroneMap or OpenSfM: `opensfm export_colmap` makes a COLMAP "
        "model of it"};
  }
  if (folder.HasFolder("keyframes")) {
    return {
        "this is an export of Polycam without cameras: choose raw data, with developer mode "
        "on"};
  }
  if (folder.HasFolder("point_cloud") && folder.HasFile("cfg_args")) {
    return {
        "this is what a training of Gaussian splatting wrote: take the data set that it was "
        "trained on (source_path in cfg_args)"};
  }
  OtherFiles found;
  found.text = ByBeginning(folder, "", &found.keeps_from_posing);
  if (found.text.empty() && folder.HasFile("database.db")) {
    found.text =
        "database.db is of COLMAP and holds features, not poses: `colmap mapper` makes a model of "
        "it in sparse/0, nerf-engine pose finds the poses anew";
    found.keeps_from_posing = false;
  }
  if (found.text.empty()) found.text = UnreadPictures(folder);
  return found;
}

}  // namespace

std::string OtherExport(const SceneFolder& folder) { return FindOther(folder).text; }

bool CannotBePosed(const SceneFolder& folder) {
  const OtherFiles found = FindOther(folder);
  return !found.text.empty() && found.keeps_from_posing;
}

}  // namespace nerf
