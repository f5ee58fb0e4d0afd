#include "engine/tool/view_request.h"

#include "common/status_macros.h"
#include "engine/config/view_limits.h"
#include "engine/render/orbit.h"
#include "engine/scene/camera_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<Camera> ResizedTo(const Camera& camera, int width, int height) {
  NERF_ASSIGN_OR_RETURN(const ViewSize size,
                        ResolveViewSize({camera.width, camera.height}, {width, height}));
  if (size.width == camera.width && size.height == camera.height) return camera;
  return Resized(camera, static_cast<int>(size.width), static_cast<int>(size.height));
}

absl::StatusOr<std::vector<Camera>> InTrainingFrame(const std::vector<Camera>& own,
                                                    const TrainState& state, int width,
                                                    int height) {
  std::vector<Camera> cameras;
  for (const Camera& camera : own) {
    NERF_ASSIGN_OR_RETURN(Camera resized, ResizedTo(camera, width, height));
    cameras.push_back(ToTrainingFrame(resized, state.geometry.frame));
  }
  return cameras;
}

}  // namespace

absl::StatusOr<std::vector<Camera>> CamerasOfFile(const std::string& path, const TrainState& state,
                                                  int width, int height) {
  NERF_ASSIGN_OR_RETURN(std::vector<Camera> own, ReadCameraFile(path, {width, height}));
  return InTrainingFrame(own, state, width, height);
}

absl::StatusOr<std::vector<Camera>> CamerasFromText(std::string_view json_text,
                                                    std::string_view source,
                                                    const TrainState& state, int width,
                                                    int height) {
  NERF_ASSIGN_OR_RETURN(std::vector<Camera> own, ParseCameras(json_text, source, {width, height}));
  return InTrainingFrame(own, state, width, height);
}

absl::StatusOr<std::vector<Camera>> CamerasOfOrbit(const TrainState& state,
                                                   const Aabb& occupied_box, int count, int width,
                                                   int height) {
  if (count < 1 || count > kMaxOrbitViews) {
    return absl::InvalidArgumentError(
        fmt::format("orbit: {} views; it must be 1 to {}", count, kMaxOrbitViews));
  }
  NERF_ASSIGN_OR_RETURN(Camera intrinsics, ResizedTo(state.reference_camera, width, height));
  return OrbitCameras(state.geometry, occupied_box.Center(), intrinsics, count);
}

}  // namespace nerf
