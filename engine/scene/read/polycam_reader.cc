#include "engine/scene/read/polycam_reader.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/scene/read/transforms_json.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint64_t kMaxCameraBytes = uint64_t{1} << 20;

std::string CamerasFolder(const SceneFolder& folder) {
  for (const char* name : {"keyframes/corrected_cameras", "keyframes/cameras"}) {
    if (folder.HasFolder(name)) return name;
  }
  return "";
}

// The stems of the camera files, sorted.
std::vector<std::string> StampsIn(const SceneFolder& folder, const std::string& cameras) {
  std::vector<std::string> stamps;
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(cameras), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] != '.' && absl::EndsWith(name, ".json"))
      stamps.push_back(it->path().stem().string());
  }
  std::sort(stamps.begin(), stamps.end());
  return stamps;
}

bool IsSize(std::string_view key) { return key == "w" || key == "h"; }

// Adds the size that the first export of the camera states: newer apps leave it out of the
// corrected one. Without it the pictures' size counts. Notes the file that says so in *files.
void AddSize(const SceneFolder& folder, const std::string& stamp, Json* camera,
             std::vector<std::string>* files) {
  if (camera->contains("width") && camera->contains("height")) return;
  const absl::StatusOr<std::string> file =
      folder.FindFile(absl::StrCat("keyframes/cameras/", stamp, ".json"));
  if (!file.ok()) return;
  const absl::StatusOr<std::string> text = ReadRegularFile(folder.PathOf(*file), kMaxCameraBytes);
  if (!text.ok()) return;
  Problems ignored;
  const std::optional<Json> first = ParseJsonObject(*text, {*file, &ignored});
  if (!first || !first->contains("width") || !first->contains("height")) return;
  (*camera)["width"] = (*first)["width"];
  (*camera)["height"] = (*first)["height"];
  files->push_back(*file);
}

// The object that a frame of a transforms file would be.
Json FrameOf(const Json& camera, const JsonProblems& out) {
  Json frame = Json::object();
  for (const auto& [from, to] : {std::pair{"fx", "fl_x"},
                                 {"fy", "fl_y"},
                                 {"cx", "cx"},
                                 {"cy", "cy"},
                                 {"width", "w"},
                                 {"height", "h"}}) {
    const auto found = camera.find(from);
    if (found != camera.end()) {
      frame[to] = *found;
    } else if (!IsSize(to)) {
      out.Add(from, "is missing");
    }
  }
  Json rows = Json::array();
  for (int i = 0; i < 3; ++i) {
    Json row = Json::array();
    for (int j = 0; j < 4; ++j) {
      const std::string key = absl::StrCat("t_", i, j);
      const auto found = camera.find(key);
      if (found == camera.end()) out.Add(key, "is missing");
      row.push_back(found == camera.end() ? Json(0) : *found);
    }
    rows.push_back(std::move(row));
  }
  frame["transform_matrix"] = std::move(rows);
  return frame;
}

}  // namespace

bool HasPolycam(const SceneFolder& folder) { return !CamerasFolder(folder).empty(); }

ListedViews ReadPolycam(const SceneFolder& folder, Problems* problems) {
  ListedViews listed;
  listed.flavor = SceneFlavor::kNerfstudio;
  const std::string cameras = CamerasFolder(folder);
  const std::string corrected = "keyframes/corrected_images";
  const bool is_corrected = absl::StrContains(cameras, "corrected") && folder.HasFolder(corrected);
  const std::string images = is_corrected ? corrected : "keyframes/images";
  listed.source = absl::StrCat(cameras, " (Polycam)");
  for (const std::string& stamp : StampsIn(folder, cameras)) {
    const std::string file = absl::StrCat(cameras, "/", stamp, ".json");
    if (++listed.n_listed > static_cast<int>(kMaxFrames)) {
      problems->Add(cameras, "", absl::StrCat("more than ", kMaxFrames, " cameras"));
      return listed;
    }
    const JsonProblems out{file, problems};
    const absl::StatusOr<std::string> found = folder.FindFile(file);
    const absl::StatusOr<std::string> text =
        found.ok() ? ReadRegularFile(folder.PathOf(*found), kMaxCameraBytes) : found.status();
    if (!text.ok()) {
      out.Add("", std::string(text.status().message()));
      continue;
    }
    const size_t n_problems = problems->size();
    std::optional<Json> camera = ParseJsonObject(*text, out);
    if (!camera) continue;
    AddSize(folder, stamp, &*camera, &listed.files);
    const Json frame = FrameOf(*camera, out);
    if (problems->size() > n_problems) continue;
    ListedView view;
    view.list_file = file;
    view.intrinsics = ReadIntrinsics(frame, Intrinsics(), "", out);
    double uniform_scale = 1;
    const std::optional<Pose> pose = ReadPose(frame, "", out, &uniform_scale);
    const std::string picture = absl::StrCat(images, "/", stamp);
    const absl::StatusOr<std::string> image = folder.FindImage(picture);
    if (absl::IsNotFound(image.status())) {
      if (listed.n_missing++ == 0) listed.first_missing = picture;
      continue;
    }
    if (!image.ok()) {
      out.Add("", std::string(image.status().message()));
      continue;
    }
    listed.files.push_back(file);
    if (!pose) continue;
    view.file = *image;
    view.pose = *pose;
    listed.views.push_back(std::move(view));
  }
  if (listed.n_listed == 0) problems->Add(cameras, "", "holds no camera (STAMP.json)");
  return listed;
}

}  // namespace nerf
