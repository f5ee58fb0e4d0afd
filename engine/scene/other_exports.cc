#include "engine/scene/other_exports.h"

#include <filesystem>
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

// By what a file of the folder begins with.
std::string ByBeginning(const std::string& name, const std::string& head) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::EndsWith(lower, ".xml") && absl::StrContains(head, "<document") &&
      (absl::StrContains(head, "<chunk") || absl::StrContains(head, "<sensor"))) {
    return absl::StrCat(name, " is of Agisoft Metashape: ", kColmap,
                        " (File, Export, Export Cameras, COLMAP)");
  }
  if (absl::EndsWith(lower, ".csv") &&
      (absl::StartsWith(head, "#name,") || absl::StartsWith(head, "#cameras") ||
       (absl::StrContains(head, "heading") && absl::StrContains(head, "pitch")))) {
    return absl::StrCat(name, " is of RealityCapture: ", kColmap, " (Registration export, COLMAP)");
  }
  if (absl::EndsWith(lower, ".xmp") && absl::StrContains(head, "xcr:"))
    return absl::StrCat(name, " is of RealityCapture: ", kColmap);
  return "";
}

}  // namespace

std::string OtherExport(const SceneFolder& folder) {
  if (folder.HasFolder("EXR_RGBD") || (folder.HasFile("metadata") && folder.HasFolder("rgbd")) ||
      (folder.HasFile("metadata.json") && folder.HasFolder("rgb"))) {
    return "this is a capture of Record3D: nerfstudio's `ns-process-data record3d` makes a "
           "transforms.json of it";
  }
  if (folder.HasFile("opensfm/reconstruction.json") || folder.HasFile("reconstruction.json") ||
      folder.HasFolder("odm_orthophoto") || folder.HasFolder("odm_texturing")) {
    return "this is a project of OpenDroneMap or OpenSfM: `opensfm export_colmap` makes a COLMAP "
           "model of it";
  }
  if (folder.HasFolder("keyframes"))
    return "this is an export of Polycam without cameras: choose raw data, with developer mode on";
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(""), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const absl::StatusOr<std::string> head = ReadHead(it->path().string(), kBeginning);
    if (name[0] == '.' || !head.ok()) continue;
    if (std::string found = ByBeginning(Printable(name), *head); !found.empty()) return found;
  }
  return "";
}

}  // namespace nerf
