#include "engine/program/written_views/view_request.h"

#include "common/status_macros.h"
#include "engine/base/config/view_limits.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pictures/image_resize.h"

namespace nerf {
namespace {

absl::StatusOr<std::vector<Camera>> InTrainingFrame(const std::vector<Camera>& own,
                                                    const TrainState& state, int width,
                                                    int height) {
  std::vector<Camera> cameras;
  for (const Camera& camera : own) {
    NERF_ASSIGN_OR_RETURN(Camera resized, CameraOfSize(camera, width, height, /*limited=*/false));
    cameras.push_back(ToTrainingFrame(resized, state.geometry.frame));
  }
  return cameras;
}

}  // namespace

absl::StatusOr<Camera> CameraOfSize(const Camera& camera, int width, int height, bool limited) {
  if (width == 0 && height == 0 && limited) {
    const ReducedSize size = FitPixels(camera.width, camera.height, kMaxDefaultViewPixels);
    width = size.width;
    height = size.height;
  }
  NERF_ASSIGN_OR_RETURN(const ViewSize size,
                        ResolveViewSize({camera.width, camera.height}, {width, height}));
  if (size.width == camera.width && size.height == camera.height) return camera;
  return Resized(camera, static_cast<int>(size.width), static_cast<int>(size.height));
}

absl::StatusOr<std::vector<Camera>> CamerasOfFile(const std::string& path, const TrainState& state,
                                                  int width, int height) {
  NERF_ASSIGN_OR_RETURN(std::vector<Camera> own,
                        ReadCameraFile(path, {width, height}, state.geometry.frame.origin));
  return InTrainingFrame(own, state, width, height);
}

absl::StatusOr<std::vector<Camera>> CamerasFromText(std::string_view json_text,
                                                    std::string_view source,
                                                    const TrainState& state, int width,
                                                    int height) {
  NERF_ASSIGN_OR_RETURN(std::vector<Camera> own, ParseCameras(json_text, source, {width, height},
                                                              state.geometry.frame.origin));
  return InTrainingFrame(own, state, width, height);
}

}  // namespace nerf
