#include "engine/program/exports/path_export.h"

#include <algorithm>
#include <vector>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/export/files/camera_path_list.h"
#include "engine/export/mesh/surface_points.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/path_frame.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/views/keyframe_views.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kPathFps = 30;
constexpr double kSecondsPerPhotograph = 0.5;

absl::Status NeedDataset(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{} are in a frame that follows from the data set: name its folder with "
                  "--dataset DIR",
                  what));
}

absl::StatusOr<CamerasToExport> ListedCameras(const ModelFile& model, const ExportRequest& request,
                                              bool keep_keyframes) {
  const SceneGeometry& geometry = model.state.geometry;
  const Camera& reference = model.state.reference_camera;
  NERF_ASSIGN_OR_RETURN(
      ViewList list,
      ReadViewList(request.camera, {reference.width, reference.height}, request.dataset,
                   {model.state.config.poses, model.state.config.apply_exif != 0},
                   geometry.frame.origin));
  const bool has_training_frame =
      list.in_frame_of.has_value() &&
      IsTrainingFrame(*list.in_frame_of, geometry.flavor, geometry.frame.origin);
  if (list.in_frame_of.has_value() && !has_training_frame) {
    return NeedDataset("cameras of " + request.camera);
  }
  if (!keep_keyframes) ExpandKeyframes(0, kPathFps, &list);
  CamerasToExport listed;
  listed.is_loop = list.is_loop && list.are_keyframes;
  for (const ListedCamera& view : list.views) {
    listed.cameras.push_back(has_training_frame ? view.camera
                                                : ToTrainingFrame(view.camera, geometry.frame));
    if (!view.name.empty()) listed.names.push_back(view.name);
  }
  if (listed.names.size() != listed.cameras.size()) listed.names.clear();
  listed.seconds =
      list.seconds > 0 ? list.seconds : static_cast<double>(listed.cameras.size()) / kPathFps;
  return listed;
}

CamerasToExport CamerasOfPhotographs(const ModelFile& model, float time) {
  CamerasToExport photographs;
  std::vector<std::string> files;
  for (const CaptureView& view : model.state.capture) {
    photographs.cameras.push_back(view.camera);
    photographs.cameras.back().time = time;
    files.push_back(view.file);
  }
  photographs.names = ViewNames(files);
  photographs.seconds = kSecondsPerPhotograph * static_cast<double>(files.size());
  return photographs;
}

absl::StatusOr<SceneFrame> FrameOfExportedCameras(const ModelFile& model, PathTool tool) {
  if (model.state.capture.empty()) return NeedDataset("paths of this program");
  const SceneFrame& frame = model.state.geometry.frame;
  std::vector<Pose> poses;
  for (const auto* views : {&model.state.capture, &model.state.test_capture}) {
    for (const CaptureView& view : *views)
      poses.push_back(ToPose(ToOwnFrame(view.camera, frame).camera_to_world));
  }
  return FrameOfCameras(poses, frame.origin, tool);
}

}  // namespace

absl::StatusOr<CamerasToExport> CamerasOf(const ModelFile& model, const ExportRequest& request,
                                          bool keep_keyframes) {
  CamerasToExport asked;
  if (request.camera.empty()) {
    asked = CamerasOfPhotographs(model, request.time);
  } else {
    NERF_ASSIGN_OR_RETURN(asked, ListedCameras(model, request, keep_keyframes));
  }
  if (!asked.cameras.empty()) return asked;
  return absl::InvalidArgumentError(
      request.camera.empty()
          ? "the model's file stores no cameras of photographs; name others with --camera FILE"
          : request.camera + ": holds no frames");
}

absl::StatusOr<ExportedFile> MakePathFile(const ModelFile& model, const ExportRequest& request,
                                          PathTool tool) {
  // nerfstudio's cameras are views, instant-ngp's are keyframes.
  NERF_ASSIGN_OR_RETURN(CamerasToExport path,
                        CamerasOf(model, request, tool == PathTool::kInstantNgp));
  const SceneGeometry& geometry = model.state.geometry;
  for (Camera& camera : path.cameras) {
    // Both programs know a path's field of view alone.
    if (!IsOnPlane(camera.lens)) camera = PinholeIn(camera, std::max(camera.width, camera.height));
  }
  std::string where;
  if (!request.dataset.empty()) {
    NERF_ASSIGN_OR_RETURN(const SceneFrame frame, FrameOfTool(request.dataset, tool));
    for (Camera& camera : path.cameras) camera = BetweenFrames(camera, geometry.frame, frame);
  } else if (!IsTrainingFrame(tool, geometry.flavor, geometry.frame.origin)) {
    if (!request.of_exported_cameras) return NeedDataset("paths of this program");
    NERF_ASSIGN_OR_RETURN(const SceneFrame frame, FrameOfExportedCameras(model, tool));
    for (Camera& camera : path.cameras) camera = BetweenFrames(camera, geometry.frame, frame);
    where = ", of a data set with the exported cameras";
  }
  const bool is_nerfstudio = tool == PathTool::kNerfstudio;
  ExportedFile file;
  file.bytes = CameraPathJson(tool, path.cameras, path.seconds, path.is_loop);
  file.n_vertices = path.cameras.size();
  file.axes = (is_nerfstudio ? "nerfstudio's" : "instant-ngp's") + where;
  file.words = fmt::format("a path of {}, {:.3g} s",
                           Counted(path.cameras.size(), is_nerfstudio ? "camera" : "keyframe"),
                           path.seconds);
  return file;
}

}  // namespace nerf
