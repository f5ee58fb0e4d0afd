#include "engine/tool/view_request.h"

#include <algorithm>
#include <cmath>

#include "engine/config/view_limits.h"
#include "engine/render/orbit.h"
#include "engine/scene/camera_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<Camera> ResizedTo(const Camera& camera, int width, int height) {
  if (width < 0 || height < 0 || width > kMaxViewSide || height > kMaxViewSide) {
    return absl::InvalidArgumentError(
        fmt::format("width, height: {} x {} is not between 0 and {}", width, height, kMaxViewSide));
  }
  if (width == 0 && height == 0) {
    width = camera.width;
    height = camera.height;
  }
  const double aspect = static_cast<double>(camera.width) / std::max(camera.height, 1);
  if (width == 0) width = static_cast<int>(std::clamp(std::lround(height * aspect), 1l, 1000000l));
  if (height == 0) height = static_cast<int>(std::clamp(std::lround(width / aspect), 1l, 1000000l));
  if (width < 1 || height < 1 || width > kMaxViewSide || height > kMaxViewSide ||
      int64_t{width} * height > kMaxViewPixels) {
    return absl::InvalidArgumentError(
        fmt::format("a view of {} x {} pixels; at most {} a side and "
                    "{} in all are rendered",
                    width, height, kMaxViewSide, kMaxViewPixels));
  }
  if (width == camera.width && height == camera.height) return camera;
  return Resized(camera, width, height);
}

absl::StatusOr<std::vector<Camera>> InTrainingFrame(absl::StatusOr<std::vector<Camera>> own,
                                                    const TrainState& state, int width,
                                                    int height) {
  if (!own.ok()) return own.status();
  std::vector<Camera> cameras;
  for (const Camera& camera : *own) {
    absl::StatusOr<Camera> resized = ResizedTo(camera, width, height);
    if (!resized.ok()) return resized.status();
    cameras.push_back(ToTrainingFrame(*resized, state.geometry.frame));
  }
  return cameras;
}

}  // namespace

absl::StatusOr<std::vector<Camera>> CamerasOfFile(const std::string& path, const TrainState& state,
                                                  int width, int height) {
  return InTrainingFrame(ReadCameraFile(path, {width, height}), state, width, height);
}

absl::StatusOr<std::vector<Camera>> CamerasFromText(std::string_view json_text,
                                                    std::string_view source,
                                                    const TrainState& state, int width,
                                                    int height) {
  return InTrainingFrame(ParseCameras(json_text, source, {width, height}), state, width, height);
}

absl::StatusOr<std::vector<Camera>> CamerasOfOrbit(const TrainState& state,
                                                   const OccupancyGrid& grid, int count, int width,
                                                   int height) {
  if (count < 1 || count > kMaxOrbitViews) {
    return absl::InvalidArgumentError(
        fmt::format("orbit: {} views; it must be 1 to {}", count, kMaxOrbitViews));
  }
  absl::StatusOr<Camera> intrinsics = ResizedTo(state.reference_camera, width, height);
  if (!intrinsics.ok()) return intrinsics.status();
  return OrbitCameras(state.geometry, grid.OccupiedBox().Center(), *intrinsics, count);
}

}  // namespace nerf
