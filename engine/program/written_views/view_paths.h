#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/view_style.h"
#include "engine/field/files/checkpoint.h"
#include "engine/program/session/loaded_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/views/path/camera_path.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// The stored training cameras; none in files that do not store them.
std::vector<CaptureCamera> CaptureCamerasOf(const TrainState& state);

// What a path through a model is made from: the cameras that it was trained with, its up and its
// center, in the training frame. Where neither the file nor the cameras say which way is up, small
// views are rendered to find the ground. For files without stored cameras: one camera at the stored
// distance and height.
PathScene PathSceneOf(const TrainState& state, SceneRenderer* renderer);
// The same with the object, where it stands alone: where training views, rendered small, have
// little at their borders. The first call for a model renders them. Not thread-safe.
const PathScene& PathSceneOf(const LoadedModel& model);

// Views along a path, in the training frame.
struct ViewPath {
  PathKind kind = PathKind::kOrbit;  // never kAuto
  bool is_closed = false;
  std::vector<Camera> cameras;
  PictureSize reduced_from;  // the lens's size, where the views are reduced from it; else 0
};

// What is asked of a path.
struct PathRequest {
  PathKind kind = PathKind::kAuto;
  int count = 1;                          // of views
  int width = 0, height = 0;              // pixels; as for CameraOfSize
  bool limited = true;                    // without width and height: at most kMaxDefaultViewPixels
  std::optional<Panorama> panorama = {};  // upright; `limited` is left aside
};

// Views with the lens of the model's own cameras, or panoramas. Of files without stored cameras,
// kAuto is an orbit. Errors: InvalidArgument for a count or size out of range, and for paths that
// follow the training cameras where the file stores none.
absl::StatusOr<ViewPath> CamerasOfPath(const TrainState& state, const PathScene& scene,
                                       const PathRequest& request);

// Whether the camera stands so far from the training cameras that it is most likely one of another
// data set or frame: more than three times their extent from their mean position.
bool IsFarFrom(const Camera& camera, const std::vector<CaptureCamera>& capture);

// Share of the view's opaque pixels whose points lie in the pictures of two or more of the cameras,
// 0 to 1. Occlusion is not considered, so it is an upper bound. Of a view that shows nothing: 0
// where the camera IsFarFrom the others, else 1.
double ShareSeenTwice(const ViewPicture& view, const Camera& camera,
                      const std::vector<CaptureCamera>& capture);

}  // namespace nerf
