#include "engine/scene/cameras/camera_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/counted.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/transforms_json.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxCameraFileBytes = uint64_t{64} << 20;
constexpr int kMaxPictureSide = 16384;

// `side` as a valid picture size in pixels; nullopt after adding a problem.
std::optional<int> PictureSide(const std::optional<double>& side, const std::string& field,
                               const JsonProblems& out) {
  if (!side) {
    out.Add(field,
            "is missing: the size of the picture in pixels is needed unless a width and a height "
            "are given");
    return std::nullopt;
  }
  if (*side > kMaxPictureSide || *side != static_cast<int>(*side)) {
    out.Add(field, absl::StrCat(*side, " must be a whole number up to ", kMaxPictureSide));
    return std::nullopt;
  }
  return static_cast<int>(*side);
}

// Adds the prefix of a frame whose size neither the file nor absent_size states to `unsized`.
std::optional<Camera> CameraOf(const nlohmann::json& frame, const std::string& prefix,
                               const Intrinsics& shared, PictureSize absent_size,
                               const Vec3d& origin, const JsonProblems& out,
                               std::vector<std::string>* unsized) {
  Intrinsics intrinsics = ReadIntrinsics(frame, shared, prefix, out);
  double uniform_scale = 1;
  std::optional<Pose> pose = ReadPose(frame, prefix, out, &uniform_scale);
  const std::optional<float> time = ReadTime(frame, prefix, out);
  if (intrinsics.is_broken) return std::nullopt;
  // With only one of the two, the aspect ratio that the intrinsics belong to is unknown.
  const bool states_no_size = !intrinsics.width && !intrinsics.height;
  if (states_no_size && absent_size.width > 0 && absent_size.height > 0) {
    intrinsics.width = absent_size.width;
    intrinsics.height = absent_size.height;
  } else if (states_no_size) {
    unsized->push_back(prefix);
    return std::nullopt;
  }
  const std::optional<int> width = PictureSide(intrinsics.width, prefix + "w", out);
  const std::optional<int> height = PictureSide(intrinsics.height, prefix + "h", out);
  if (!width || !height || !pose || !time) return std::nullopt;
  bool is_rescaled = false;
  std::optional<Camera> camera = ResolveCamera(intrinsics, *width, *height, out.file, "the picture",
                                               &is_rescaled, out.problems);
  if (camera) {
    pose->set_position(Difference(pose->position(), origin));
    camera->camera_to_world = ToMat34(*pose);
    camera->time = *time;
  }
  return camera;
}

// One problem for all frames that state no size: what is missing is the same.
void AddUnsized(const std::vector<std::string>& unsized, PictureSize absent_size,
                const JsonProblems& out) {
  const std::string others =
      unsized.size() == 1 ? "" : ", as in " + Counted(unsized.size() - 1, "more frame");
  const char* const remedy = absent_size.width > 0    ? "--height is needed beside --width"
                             : absent_size.height > 0 ? "--width is needed beside --height"
                                                      : "--width and --height are needed";
  out.Add(unsized[0] + "w", absl::StrCat("is missing, and h too", others, ": ", remedy));
}

absl::StatusOr<std::vector<Camera>> CamerasOfDataSet(const std::string& dir, const Vec3d& origin) {
  SceneOptions options;
  options.decode_images = false;
  options.follow_links = true;
  const SceneDescription scene = DescribeScene(dir, options);
  if (!scene.ok()) return absl::InvalidArgumentError(SummaryOf(scene.problems));
  std::vector<Camera> cameras;
  for (const ViewDescription& view : scene.test.empty() ? scene.train : scene.test) {
    const SceneFrame& frame = scene.geometry.frame;
    cameras.push_back(AboutOrigin(ToOwnFrame(view.camera, frame), frame.origin, origin));
  }
  return cameras;
}

}  // namespace

absl::StatusOr<std::vector<Camera>> ParseCameras(std::string_view json_text,
                                                 std::string_view source, PictureSize absent_size,
                                                 const Vec3d& origin) {
  Problems problems;
  const JsonProblems out{std::string(source), &problems};
  std::vector<Camera> cameras;
  std::vector<std::string> unsized;
  if (const auto root = ParseJsonObject(json_text, out)) {
    const Intrinsics shared = ReadIntrinsics(*root, Intrinsics(), "", out);
    if (const nlohmann::json* frames = FindFrames(*root, out)) {
      for (size_t i = 0; i < frames->size(); ++i) {
        const nlohmann::json& frame = (*frames)[i];
        const std::string field = absl::StrCat("frames[", i, "]");
        if (!frame.is_object()) {
          out.Add(field, absl::StrCat("must be an object, is ", frame.type_name()));
          continue;
        }
        const auto camera =
            CameraOf(frame, field + ".", shared, absent_size, origin, out, &unsized);
        if (camera) cameras.push_back(*camera);
      }
    }
  }
  if (!unsized.empty()) AddUnsized(unsized, absent_size, out);
  if (!problems.empty()) return absl::InvalidArgumentError(SummaryOf(problems));
  return cameras;
}

absl::StatusOr<std::vector<Camera>> ReadCameraFile(const std::string& path, PictureSize absent_size,
                                                   const Vec3d& origin) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return CamerasOfDataSet(path, origin);
  absl::StatusOr<std::string> text = ReadRegularFile(path, kMaxCameraFileBytes);
  if (!text.ok()) return WithPrefix(text.status(), path);
  return ParseCameras(*text, path, absent_size, origin);
}

Camera ToTrainingFrame(const Camera& own, const SceneFrame& frame) {
  Camera camera = own;
  camera.camera_to_world = ToMat34(FromSceneFrame(frame).ApplyToPose(ToPose(own.camera_to_world)));
  return camera;
}

Camera ToOwnFrame(const Camera& training, const SceneFrame& frame) {
  Camera camera = training;
  camera.camera_to_world =
      ToMat34(Inverse(FromSceneFrame(frame)).ApplyToPose(ToPose(training.camera_to_world)));
  return camera;
}

Camera AboutOrigin(const Camera& own, const Vec3d& from, const Vec3d& to) {
  if (from == to) return own;
  Pose pose = ToPose(own.camera_to_world);
  pose.set_position(Sum(pose.position(), Difference(from, to)));
  Camera camera = own;
  camera.camera_to_world = ToMat34(pose);
  return camera;
}

Camera BetweenFrames(const Camera& training, const SceneFrame& from, const SceneFrame& to) {
  return ToTrainingFrame(AboutOrigin(ToOwnFrame(training, from), from.origin, to.origin), to);
}

}  // namespace nerf
