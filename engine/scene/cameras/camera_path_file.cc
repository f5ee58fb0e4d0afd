#include "engine/scene/cameras/camera_path_file.h"

#include <cmath>
#include <functional>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/pose.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxCameras = 100'000;
constexpr int kMaxRenderSide = 16384;
constexpr double kMaxPathCoordinate = 1e6;  // of a position, training units
constexpr double kMaxOwnCoordinate = 1e9;   // the same, own units
constexpr double kDefaultFov = 50;          // of keyframes, degrees

class PathReader {
 public:
  PathReader(std::string_view source, PictureSize absent_size, const Vec3d& origin)
      : source_(source), absent_size_(absent_size), origin_(origin) {}

  absl::StatusOr<CameraPathFile> Read(std::string_view text) {
    const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!root.is_object()) {
      Problem("", "is no JSON object");
    } else if (root.contains("camera_path")) {
      file_.tool = PathTool::kNerfstudio;
      ReadNerfstudio(root);
    } else if (root.contains("keyframes")) {
      ReadKeyframes(root);
    } else if (root.contains("path")) {
      file_.tool = PathTool::kInstantNgp;
      ReadInstantNgp(root);
    } else {
      Problem("", "has neither camera_path, keyframes nor path");
    }
    if (!problems_.empty()) return absl::InvalidArgumentError(SummaryOf(problems_));
    return std::move(file_);
  }

 private:
  void Problem(const std::string& field, const std::string& message) {
    problems_.Add(source_, field, message);
  }

  // A finite number of an object's field within [min, max]; nullopt after a problem, or where it is
  // absent and not needed.
  std::optional<double> Number(const Json& object, const char* key, const std::string& field,
                               double min, double max, bool is_needed) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) {
      if (is_needed) Problem(field + key, "is missing");
      return std::nullopt;
    }
    const double value = found->is_number() ? found->get<double>() : NAN;
    if (!(value >= min && value <= max)) {
      Problem(field + key, absl::StrCat("must be a number from ", min, " to ", max));
      return std::nullopt;
    }
    return value;
  }

  // n finite numbers, nested lists flattened; empty after a problem.
  std::vector<double> Numbers(const Json& object, const char* key, const std::string& field,
                              size_t n, double max = kMaxPathCoordinate) {
    std::vector<double> numbers;
    bool is_good = object.contains(key) && object[key].is_array();
    const auto add = [&](const Json& value) {
      const double number = value.is_number() ? value.get<double>() : NAN;
      is_good = is_good && std::abs(number) <= max;
      numbers.push_back(number);
    };
    if (is_good && object[key].size() <= n) {
      for (const Json& value : object[key]) {
        if (value.is_array() && value.size() <= n) {
          for (const Json& inner : value) add(inner);
        } else {
          add(value);
        }
      }
    }
    if (is_good && numbers.size() == n) return numbers;
    Problem(field + key, absl::StrCat("must be ", n, " numbers of at most ", max));
    return {};
  }

  // The list of cameras; nullptr after a problem.
  const Json* List(const Json& root, const char* key) {
    const Json& list = root[key];
    if (list.is_array() && !list.empty() && list.size() <= kMaxCameras) return &list;
    Problem(key, absl::StrCat("must be a list of 1 to ", kMaxCameras, " cameras"));
    return nullptr;
  }

  // A pinhole camera that sees `fov` radians from top to bottom.
  static Camera Pinhole(int width, int height, double fov) {
    Camera camera;
    camera.width = width;
    camera.height = height;
    camera.fl_x = camera.fl_y = static_cast<float>(0.5 * height / std::tan(0.5 * fov));
    camera.cx = 0.5f * static_cast<float>(width);
    camera.cy = 0.5f * static_cast<float>(height);
    return camera;
  }

  void AddCamera(Camera camera, Pose pose, const std::string& field) {
    double scale = 1;
    if (!Orthonormalize(&pose, &scale)) {
      return Problem(field, "is no rotation: it is mirrored, sheared or zero");
    }
    camera.camera_to_world = ToMat34(pose);
    file_.cameras.push_back(camera);
  }

  void ReadNerfstudio(const Json& root) {
    const Json* list = List(root, "camera_path");
    const std::optional<double> width = Number(root, "render_width", "", 1, kMaxRenderSide, true);
    const std::optional<double> height = Number(root, "render_height", "", 1, kMaxRenderSide, true);
    file_.seconds = Number(root, "seconds", "", 0, 1e6, false).value_or(0);
    if (const auto loop = root.find("is_cycle"); loop != root.end() && loop->is_boolean()) {
      file_.is_loop = loop->get<bool>();
    }
    const auto type = root.find("camera_type");
    if (type != root.end() && *type != "perspective") {
      Problem("camera_type", "must be perspective; others cannot be rendered");
    }
    if (root.contains("crop") && !root["crop"].is_null()) {
      file_.warnings.push_back("crop of the camera path is ignored");
    }
    if (list == nullptr || !width || !height) return;
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& entry = (*list)[i];
      const std::string field = absl::StrCat("camera_path[", i, "].");
      if (!entry.is_object()) {
        Problem(absl::StrCat("camera_path[", i, "]"), "must be an object");
        continue;
      }
      const std::optional<double> fov = Number(entry, "fov", field, 0.01, 179, true);
      const std::vector<double> m = Numbers(entry, "camera_to_world", field, 16);
      const double time = Number(entry, "render_time", field, 0, 1, false).value_or(0);
      if (!fov || m.empty()) continue;
      Camera camera = Pinhole(static_cast<int>(*width), static_cast<int>(*height),
                              *fov * std::numbers::pi / 180);
      camera.time = static_cast<float>(time);
      AddCamera(camera, ToPose(m), field + "camera_to_world");
    }
  }

  // Keyframes at `key`, of which the files state no size. add(entry, field, fov): in degrees;
  // nullopt after a problem, or where it is absent and not needed.
  void ReadKeyframeList(
      const Json& root, const char* key, const char* seconds, bool needs_fov,
      const std::function<void(const Json&, const std::string&, std::optional<double>)>& add) {
    const Json* list = List(root, key);
    file_.are_keyframes = true;
    file_.seconds = Number(root, seconds, "", 0, 1e6, false).value_or(0);
    if (const auto loop = root.find("loop"); loop != root.end() && loop->is_boolean()) {
      file_.is_loop = loop->get<bool>();
    }
    if (list == nullptr) return;
    if (absent_size_.width <= 0 || absent_size_.height <= 0) {
      return Problem("", "states no size of its pictures: --width and --height are needed");
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& entry = (*list)[i];
      const std::string field = absl::StrCat(key, "[", i, "].");
      if (!entry.is_object()) {
        Problem(absl::StrCat(key, "[", i, "]"), "must be an object");
        continue;
      }
      add(entry, field, Number(entry, "fov", field, 0.01, 179, needs_fov));
    }
  }

  Camera AbsentSize(double fov) const {
    return Pinhole(absent_size_.width, absent_size_.height, fov * std::numbers::pi / 180);
  }

  void ReadInstantNgp(const Json& root) {
    ReadKeyframeList(
        root, "path", "duration_seconds", /*needs_fov=*/true,
        [this](const Json& entry, const std::string& field, std::optional<double> fov) {
          const std::vector<double> q = Numbers(entry, "R", field, 4);
          const std::vector<double> t = Numbers(entry, "T", field, 3);
          if (!fov || q.empty() || t.empty()) return;
          AddCamera(AbsentSize(*fov), FromQuaternion(q, t), field + "R");
        });
  }

  void ReadKeyframes(const Json& root) {
    ReadKeyframeList(
        root, "keyframes", "seconds", /*needs_fov=*/false,
        [this](const Json& entry, const std::string& field, std::optional<double> fov) {
          const std::vector<double> m =
              Numbers(entry, "transform_matrix", field, 16, kMaxOwnCoordinate);
          if (m.empty()) return;
          Pose pose = ToPose(m);
          pose.set_position(Difference(pose.position(), origin_));
          AddCamera(AbsentSize(fov.value_or(kDefaultFov)), pose, field + "transform_matrix");
        });
  }

  // The upper three rows of a 4x4 matrix.
  static Pose ToPose(const std::vector<double>& m) {
    Pose pose;
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 4; ++column) {
        pose.m[row][column] = m[static_cast<size_t>(4 * row + column)];
      }
    }
    return pose;
  }

  // The pose of quaternion (x, y, z, w) and position, given with y down and z forward, in OpenGL's
  // axes.
  static Pose FromQuaternion(const std::vector<double>& q, const std::vector<double>& t) {
    const double norm = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    const double s = norm > 0 ? 2 / norm : 0;
    const double x = q[0], y = q[1], z = q[2], w = q[3];
    const double r[3][3] = {{1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)},
                            {s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)},
                            {s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)}};
    Pose pose;
    for (int row = 0; row < 3; ++row) {
      pose.m[row][0] = norm > 0 ? r[row][0] : 0;
      pose.m[row][1] = norm > 0 ? -r[row][1] : 0;
      pose.m[row][2] = norm > 0 ? -r[row][2] : 0;
      pose.m[row][3] = t[static_cast<size_t>(row)];
    }
    return pose;
  }

  const std::string source_;
  const PictureSize absent_size_;
  const Vec3d origin_;  // of keyframes
  CameraPathFile file_;
  Problems problems_;
};

}  // namespace

bool IsCameraPath(std::string_view json_text) {
  const Json root = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  return root.is_object() && !root.contains("frames") &&
         (root.contains("camera_path") || root.contains("keyframes") || root.contains("path"));
}

absl::StatusOr<CameraPathFile> ParseCameraPath(std::string_view json_text, std::string_view source,
                                               PictureSize absent_size, const Vec3d& origin) {
  return PathReader(source, absent_size, origin).Read(json_text);
}

}  // namespace nerf
