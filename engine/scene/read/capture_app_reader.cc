#include "engine/scene/read/capture_app_reader.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/scene/read/transforms_json.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint64_t kMaxCaptureBytes = uint64_t{1} << 20;
constexpr const char* kSplatCameras = "cameras.json";
constexpr const char* kScannerPose = "cameraPoseARFrame";

// The files frame_*.json of the folder, sorted.
std::vector<std::string> ScannerFiles(const SceneFolder& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(""), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, "frame_") && absl::EndsWith(name, ".json")) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool HasScanner(const SceneFolder& folder) {
  const std::vector<std::string> files = ScannerFiles(folder);
  if (files.empty() || !folder.HasFile(files[0])) return false;
  const absl::StatusOr<std::string> head = ReadHead(folder.PathOf(files[0]), 1 << 16);
  return head.ok() && absl::StrContains(*head, kScannerPose);
}

bool HasSplatCameras(const SceneFolder& folder) {
  // What a training wrote has no photographs.
  if (!folder.HasFile(kSplatCameras) || folder.HasFile("cfg_args")) return false;
  const absl::StatusOr<std::string> head = ReadHead(folder.PathOf(kSplatCameras), 4096);
  return head.ok() && absl::StrContains(*head, "\"img_name\"") &&
         absl::StrContains(*head, "\"rotation\"");
}

// The numbers of an array, in rows one after the other; empty after adding a problem.
std::vector<Json> NumbersAt(const Json& object, const char* key, size_t n,
                            const std::string& prefix, const JsonProblems& out) {
  std::vector<Json> numbers;
  const auto found = object.find(key);
  if (found != object.end() && found->is_array()) {
    for (const Json& value : *found) {
      if (value.is_array()) {
        numbers.insert(numbers.end(), value.begin(), value.end());
      } else {
        numbers.push_back(value);
      }
    }
  }
  if (numbers.size() == n) return numbers;
  out.Add(prefix + key, absl::StrCat("must have ", n, " numbers"));
  return {};
}

// Adds the views of frames as transforms.json has them.
class FrameViews {
 public:
  FrameViews(const SceneFolder& folder, ListedViews* listed) : folder_(folder), listed_(*listed) {}

  // The picture's name may lack its ending.
  void Add(const Json& frame, const std::string& picture, const std::string& prefix,
           const JsonProblems& out) {
    ListedView view;
    view.list_file = out.file;
    view.field = prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1);
    view.intrinsics = ReadIntrinsics(frame, Intrinsics(), prefix, out);
    double uniform_scale = 1;
    const std::optional<Pose> pose = ReadPose(frame, prefix, out, &uniform_scale);
    absl::StatusOr<std::string> image = folder_.FindImage(picture);
    if (absl::IsNotFound(image.status())) image = folder_.FindImage("images/" + picture);
    if (absl::IsNotFound(image.status())) {
      if (listed_.n_missing++ == 0) listed_.first_missing = picture;
      return;
    }
    if (!image.ok()) return out.Add(view.field, std::string(image.status().message()));
    if (!pose) return;
    view.file = *image;
    view.pose = *pose;
    listed_.views.push_back(std::move(view));
  }

 private:
  const SceneFolder& folder_;
  ListedViews& listed_;
};

std::optional<std::string> TextOf(const SceneFolder& folder, const std::string& file,
                                  uint64_t max_bytes, const JsonProblems& out) {
  const absl::StatusOr<std::string> found = folder.FindFile(file);
  absl::StatusOr<std::string> text =
      found.ok() ? ReadRegularFile(folder.PathOf(*found), max_bytes) : found.status();
  if (text.ok()) return *std::move(text);
  out.Add("", std::string(text.status().message()));
  return std::nullopt;
}

void ReadScanner(const SceneFolder& folder, Problems* problems, ListedViews* listed) {
  listed->source = "frame_*.json (3D Scanner App)";
  FrameViews views(folder, listed);
  for (const std::string& file : ScannerFiles(folder)) {
    const JsonProblems out{file, problems};
    if (++listed->n_listed > static_cast<int>(kMaxFrames))
      return out.Add("", absl::StrCat("more than ", kMaxFrames, " cameras"));
    const std::optional<std::string> text = TextOf(folder, file, kMaxCaptureBytes, out);
    const std::optional<Json> camera = text ? ParseJsonObject(*text, out) : std::nullopt;
    if (!camera) continue;
    listed->files.push_back(file);
    if (!camera->contains(kScannerPose)) continue;  // the app did not know it
    const std::vector<Json> matrix = NumbersAt(*camera, kScannerPose, 16, "", out);
    const std::vector<Json> lens = NumbersAt(*camera, "intrinsics", 9, "", out);
    if (matrix.empty() || lens.empty()) continue;
    const Json frame = {{"transform_matrix", matrix},
                        {"fl_x", lens[0]},
                        {"fl_y", lens[4]},
                        {"cx", lens[2]},
                        {"cy", lens[5]}};
    views.Add(frame, fs::path(file).replace_extension("").string(), "", out);
  }
}

void ReadSplatCameras(const SceneFolder& folder, Problems* problems, ListedViews* listed) {
  listed->source = "cameras.json (Gaussian splatting)";
  listed->files = {kSplatCameras};
  const JsonProblems out{kSplatCameras, problems};
  const std::optional<std::string> text = TextOf(folder, kSplatCameras, kMaxJsonBytes, out);
  if (!text) return;
  // The readers of this folder take objects.
  const std::optional<Json> root = ParseJsonObject("{\"cameras\":" + *text + "}", out);
  if (!root) return;
  const Json& cameras = (*root)["cameras"];
  if (!cameras.is_array() || cameras.size() > kMaxFrames)
    return out.Add("", absl::StrCat("must be an array of at most ", kMaxFrames, " cameras"));
  FrameViews views(folder, listed);
  for (size_t i = 0; i < cameras.size(); ++i) {
    const Json& camera = cameras[i];
    const std::string prefix = absl::StrCat("[", i, "].");
    ++listed->n_listed;
    const auto name = camera.is_object() ? camera.find("img_name") : camera.end();
    if (!camera.is_object() || name == camera.end() || !name->is_string()) {
      out.Add(prefix + "img_name", "must be the name of a picture");
      continue;
    }
    const std::vector<Json> at = NumbersAt(camera, "position", 3, prefix, out);
    const std::vector<Json> turn = NumbersAt(camera, "rotation", 9, prefix, out);
    if (at.empty() || turn.empty()) continue;
    Json frame = Json::object(), rows = Json::array();
    for (size_t row = 0; row < 3; ++row) {
      Json values = Json::array();
      for (size_t column = 0; column < 3; ++column) {
        const std::optional<double> value = NumberOf(turn[3 * row + column]);
        // OpenCV's axes to OpenGL's.
        values.push_back(value ? Json(column == 0 ? *value : -*value) : turn[3 * row + column]);
      }
      values.push_back(at[row]);
      rows.push_back(std::move(values));
    }
    frame["transform_matrix"] = std::move(rows);
    for (const auto& [from, to] :
         {std::pair{"fx", "fl_x"}, {"fy", "fl_y"}, {"width", "w"}, {"height", "h"}}) {
      const auto found = camera.find(from);
      if (found != camera.end()) frame[to] = *found;
    }
    views.Add(frame, name->get<std::string>(), prefix, out);
  }
}

}  // namespace

bool HasCaptureApp(const SceneFolder& folder) {
  return HasScanner(folder) || HasSplatCameras(folder);
}

ListedViews ReadCaptureApp(const SceneFolder& folder, Problems* problems) {
  ListedViews listed;
  listed.flavor = SceneFlavor::kNerfstudio;
  if (HasScanner(folder)) {
    ReadScanner(folder, problems, &listed);
  } else {
    ReadSplatCameras(folder, problems, &listed);
  }
  return listed;
}

}  // namespace nerf
