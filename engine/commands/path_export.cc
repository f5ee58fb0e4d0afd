#include "engine/commands/path_export.h"

#include <vector>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/export/camera_path_list.h"
#include "engine/scene/camera_file.h"
#include "engine/scene/path_frame.h"
#include "engine/scene/view_list.h"
#include "engine/views/keyframe_views.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kPathFps = 30;
constexpr double kSecondsPerPhotograph = 0.5;

struct PathCameras {
  std::vector<Camera> cameras;  // training frame
  double seconds = 0;
  bool is_loop = false;  // of keyframes
};

absl::Status NeedDataset(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{} are in a frame that follows from the data set: name its folder with "
                  "--dataset DIR",
                  what));
}

absl::StatusOr<PathCameras> ListedPath(const ModelFile& model, const ExportRequest& request,
                                       PathTool tool) {
  const SceneGeometry& geometry = model.state.geometry;
  const Camera& reference = model.state.reference_camera;
  NERF_ASSIGN_OR_RETURN(
      ViewList list,
      ReadViewList(request.camera, {reference.width, reference.height}, request.dataset,
                   {model.state.config.poses, model.state.config.apply_exif != 0}));
  const bool has_training_frame =
      list.in_frame_of.has_value() && IsTrainingFrame(*list.in_frame_of, geometry.flavor);
  if (list.in_frame_of.has_value() && !has_training_frame) {
    return NeedDataset("cameras of " + request.camera);
  }
  // nerfstudio's cameras are views, instant-ngp's are keyframes.
  if (tool == PathTool::kNerfstudio) ExpandKeyframes(0, kPathFps, &list);
  PathCameras path;
  path.is_loop = list.is_loop && list.are_keyframes;
  for (const ListedCamera& listed : list.views) {
    path.cameras.push_back(has_training_frame ? listed.camera
                                              : ToTrainingFrame(listed.camera, geometry.frame));
  }
  path.seconds =
      list.seconds > 0 ? list.seconds : static_cast<double>(path.cameras.size()) / kPathFps;
  return path;
}

PathCameras PathOfPhotographs(const ModelFile& model) {
  PathCameras path;
  for (const CaptureView& view : model.state.capture) path.cameras.push_back(view.camera);
  path.seconds = kSecondsPerPhotograph * static_cast<double>(path.cameras.size());
  return path;
}

}  // namespace

absl::StatusOr<ExportedFile> MakePathFile(const ModelFile& model, const ExportRequest& request,
                                          PathTool tool) {
  PathCameras path = PathOfPhotographs(model);
  if (!request.camera.empty()) {
    NERF_ASSIGN_OR_RETURN(path, ListedPath(model, request, tool));
  }
  if (path.cameras.empty()) {
    return absl::InvalidArgumentError(
        "the model's file stores no cameras of photographs; name others with --camera FILE");
  }
  const SceneGeometry& geometry = model.state.geometry;
  if (!request.dataset.empty()) {
    NERF_ASSIGN_OR_RETURN(const SceneFrame frame, FrameOfTool(request.dataset, tool));
    for (Camera& camera : path.cameras) {
      camera = ToTrainingFrame(ToOwnFrame(camera, geometry.frame), frame);
    }
  } else if (!IsTrainingFrame(tool, geometry.flavor)) {
    return NeedDataset("paths of this program");
  }
  const bool is_nerfstudio = tool == PathTool::kNerfstudio;
  ExportedFile file;
  file.bytes = CameraPathJson(tool, path.cameras, path.seconds, path.is_loop);
  file.n_vertices = path.cameras.size();
  file.axes = is_nerfstudio ? "nerfstudio's" : "instant-ngp's";
  file.words = fmt::format("a path of {}, {:.3g} s",
                           Counted(path.cameras.size(), is_nerfstudio ? "camera" : "keyframe"),
                           path.seconds);
  return file;
}

}  // namespace nerf
