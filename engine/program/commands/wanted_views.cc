#include "engine/program/commands/wanted_views.h"

#include <algorithm>
#include <cstdio>

#include "common/counted.h"
#include "common/files/nearest_path.h"
#include "common/status_macros.h"
#include "engine/program/written_views/scene_match.h"
#include "engine/program/written_views/view_paths.h"
#include "engine/program/written_views/view_request.h"
#include "engine/program/written_views/view_style.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/path_frame.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/views/keyframe_views.h"
#include "engine/views/path/camera_path.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string_view PathWords(PathKind kind) {
  switch (kind) {
    case PathKind::kSpiral:
      return "on a spiral around the mean camera";
    case PathKind::kFlyby:
      return "on a line through the cameras";
    case PathKind::kCameras:
      return "on a path along the cameras";
    case PathKind::kAuto:
    case PathKind::kOrbit:
      break;
  }
  return "on an orbit";
}

// Files without training cameras, as imported models are, have no data set that is known.
void SayFrame(const std::string& camera, PathTool tool, const LoadedModel& model) {
  const char* const program = tool == PathTool::kInstantNgp ? "instant-ngp" : "nerfstudio";
  if (!CaptureCamerasOf(model.state).empty()) {
    fmt::print(stderr,
               "{}: read in the frame that {} gives this model's data set; --dataset DIR names "
               "another\n",
               camera, program);
    return;
  }
  fmt::print(stderr,
             "warning: {}: read in the frame that {} gives a data set of {}; the model stores no "
             "cameras that could confirm it, and --dataset DIR names its data set\n",
             camera, program,
             model.state.geometry.flavor == SceneFlavor::kInstantNgp ? "instant-ngp" : "Blender");
}

void NoteReduction(const RenderFlags& flags, const Camera& camera, const Camera& resized,
                   WantedViews* wanted) {
  if (flags.width > 0 || flags.height > 0 || wanted->reduced_from.width > 0) return;
  if (resized.width < camera.width) wanted->reduced_from = {camera.width, camera.height};
}

// Photographs have no panorama, and show all that a box leaves out.
bool IsCompared(const ViewStyle& style) {
  return !style.panorama.has_value() && !style.crop.has_value();
}

absl::StatusOr<WantedViews> CameraViews(const RenderFlags& flags, const ViewStyle& style,
                                        const LoadedModel& model) {
  WantedViews wanted;
  const int width = flags.width, height = flags.height;
  const SceneGeometry& geometry = model.state.geometry;
  NERF_ASSIGN_OR_RETURN(ViewList list,
                        WithNearestPath(ReadViewList(flags.camera, {width, height}, flags.dataset,
                                                     ReadingOf(model), geometry.frame.origin),
                                        flags.camera));
  if (list.in_frame_of.has_value() &&
      !IsTrainingFrame(*list.in_frame_of, geometry.flavor, geometry.frame.origin)) {
    return absl::InvalidArgumentError(
        flags.camera +
        ": is a camera path in the frame of another program; name the "
        "folder of the data set that it was made for with --dataset DIR");
  }
  if (list.in_frame_of.has_value()) SayFrame(flags.camera, *list.in_frame_of, model);
  NERF_RETURN_IF_ERROR(CheckFrameCount(flags.frames, list));
  ExpandKeyframes(flags.frames, flags.fps, &list);
  for (const std::string& warning : list.warnings) fmt::print(stderr, "warning: {}\n", warning);
  for (size_t i = 0; i < list.views.size(); ++i) {
    const ListedCamera& listed = list.views[i];
    NERF_ASSIGN_OR_RETURN(
        Camera camera,
        style.panorama.has_value()
            ? AsPanorama(listed.camera, geometry.frame, *style.panorama, width, height)
            : CameraOfSize(listed.camera, width, height, !flags.full_size));
    NoteReduction(flags, listed.camera, camera, &wanted);
    if (!list.in_frame_of.has_value()) camera = ToTrainingFrame(camera, geometry.frame);
    const std::string name = listed.name.empty() ? fmt::format("{:04}", i) : listed.name;
    wanted.views.push_back({camera, fmt::format("{}{}", name, StereoSuffix(style)),
                            IsCompared(style) ? listed.photograph : ""});
  }
  wanted.words = Counted(wanted.views.size(), "view");
  if (wanted.views.empty()) {
    return absl::InvalidArgumentError(flags.camera + ": holds no frames");
  }
  return wanted;
}

absl::StatusOr<WantedViews> PathViews(const RenderFlags& flags, const ViewStyle& style,
                                      const LoadedModel& model) {
  WantedViews wanted;
  const PathKind kind =
      flags.orbit > 0 ? PathKind::kOrbit : ParsePathKind(flags.path).value_or(PathKind::kAuto);
  NERF_ASSIGN_OR_RETURN(const ViewPath path,
                        CamerasOfPath(model.state, PathSceneOf(model),
                                      {kind, flags.n_views(), flags.width, flags.height,
                                       !flags.full_size, style.panorama}));
  for (size_t i = 0; i < path.cameras.size(); ++i) {
    wanted.views.push_back({path.cameras[i], fmt::format("{:04}{}", i, StereoSuffix(style)), ""});
  }
  wanted.reduced_from = path.reduced_from;
  wanted.path = std::string(PathKindName(path.kind));
  wanted.words = fmt::format("{} {}", Counted(wanted.views.size(), "view"), PathWords(path.kind));
  return wanted;
}

}  // namespace

SceneReading ReadingOf(const LoadedModel& model) {
  return {model.state.config.poses, model.state.config.apply_exif != 0};
}

absl::StatusOr<WantedViews> WantedViewsOf(const RenderFlags& flags, const ViewStyle& style,
                                          const LoadedModel& model) {
  return flags.camera.empty() ? PathViews(flags, style, model) : CameraViews(flags, style, model);
}

}  // namespace nerf
