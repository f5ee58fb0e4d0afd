#include "engine/program/written_views/view_paths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>

#include "common/status_macros.h"
#include "engine/base/config/view_limits.h"
#include "engine/program/written_views/view_request.h"
#include "engine/program/written_views/view_style.h"
#include "engine/scene/panorama.h"
#include "engine/scene/pictures/image_resize.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxSmallViews = 8;  // that are rendered to find the ground or an object
constexpr int kGroundWidth = 16, kGroundHeight = 12;
constexpr int kObjectSide = 96;            // pixels of the longer side
constexpr double kMaxOpaqueBorder = 0.05;  // of a view's border, where an object stands alone
constexpr uint8_t kOpaque = 128;           // of an opacity of 255
constexpr int kSampledSide = 48;           // points of a view along each side that are looked for

// Where a ray of the camera meets the plane at distance 1 in front of it: across and up. Rays that
// do not meet it there are cut to a wide angle.
std::array<float, 2> OnPlane(const Camera& camera, float x, float y) {
  constexpr float kWidest = 10;
  const Vec3 direction = CameraRay(camera, x, y).direction;
  const Mat34& pose = camera.camera_to_world;
  const float forward = std::max(-Dot(direction, pose.Column(2)), 1 / kWidest);
  const float across = Dot(direction, pose.Column(0)) / forward;
  const float up = Dot(direction, pose.Column(1)) / forward;
  return {std::clamp(across, -kWidest, kWidest), std::clamp(up, -kWidest, kWidest)};
}

CaptureCamera CaptureOf(const Camera& camera) {
  const auto width = static_cast<float>(camera.width), height = static_cast<float>(camera.height);
  CaptureCamera capture;
  capture.camera_to_world = camera.camera_to_world;
  capture.left = OnPlane(camera, 0, camera.cy)[0];
  capture.right = OnPlane(camera, width, camera.cy)[0];
  capture.bottom = OnPlane(camera, camera.cx, height)[1];
  capture.top = OnPlane(camera, camera.cx, 0)[1];
  if (camera.lens == LensModel::kEquirectangular) {
    // The edges of a panorama look backwards.
    capture.left = capture.bottom = -10;
    capture.right = capture.top = 10;
  }
  return capture;
}

// The lens of views along a path: that of the training views, or a pinhole where these show more
// than a plane can.
Camera PathLens(const Camera& training) {
  Camera lens = training;
  if (training.lens == LensModel::kPinhole || training.lens == LensModel::kOpenCv) return lens;
  lens = Camera();
  lens.width = training.width;
  lens.height = training.height;
  lens.fl_x = lens.fl_y = 0.5f * static_cast<float>(training.width);  // 90 degrees
  lens.cx = 0.5f * static_cast<float>(training.width);
  lens.cy = 0.5f * static_cast<float>(training.height);
  return lens;
}

// +Z of the files whose formats mean something by it, in the training frame.
std::optional<Vec3> FileUp(const SceneGeometry& geometry) {
  if (geometry.flavor == SceneFlavor::kColmap) return std::nullopt;
  const Vec3 up = geometry.frame.own_to_training.ApplyToDirection({0, 0, 1});
  const float length = Norm(up);
  if (!(length > 0)) return std::nullopt;
  return up * (1 / length);
}

// A training view, rendered small.
struct SmallView {
  Camera camera;
  ViewPicture picture;

  bool IsOpaque(int x, int y) const {
    return picture.rgba.Pixel(x, y)[3] >= kOpaque &&
           picture.depths[static_cast<size_t>(y) * camera.width + x] > 0;
  }
  Vec3 PointAt(int x, int y) const {
    const Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
    return ray.origin + ray.direction * picture.depths[static_cast<size_t>(y) * camera.width + x];
  }
};

// Renders some of the training views, spread over all of them, at a size that `size` gives for
// theirs, until `take` returns false.
void ForSmallViews(const TrainState& state, SceneRenderer* renderer,
                   const std::function<ReducedSize(const Camera&)>& size,
                   const std::function<bool(const SmallView&)>& take) {
  RenderOptions options;
  options.background = BackgroundColor(state.evaluation_background);
  options.min_transmittance = MinTransmittance(state.config);
  const size_t n = std::min(state.capture.size(), kMaxSmallViews);
  for (size_t i = 0; i < n; ++i) {
    const Camera& camera = state.capture[i * state.capture.size() / n].camera;
    const ReducedSize reduced = size(camera);
    SmallView view{Resized(camera, reduced.width, reduced.height), {}};
    if (!renderer->Render(view.camera, options, {}, &view.picture) || !take(view)) return;
  }
}

// Points that some of the training views show.
std::vector<Vec3> SurfacePoints(const TrainState& state, SceneRenderer* renderer) {
  std::vector<Vec3> points;
  ForSmallViews(
      state, renderer,
      [](const Camera&) {
        return ReducedSize{kGroundWidth, kGroundHeight};
      },
      [&](const SmallView& view) {
        for (int y = 0; y < kGroundHeight; ++y) {
          for (int x = 0; x < kGroundWidth; ++x) {
            if (view.IsOpaque(x, y)) points.push_back(view.PointAt(x, y));
          }
        }
        return true;
      });
  return points;
}

// Share of the pixels along the edges that are opaque.
double OpaqueBorder(const SmallView& view) {
  const int width = view.camera.width, height = view.camera.height;
  int n_opaque = 0;
  for (int x = 0; x < width; ++x) n_opaque += view.IsOpaque(x, 0) + view.IsOpaque(x, height - 1);
  for (int y = 0; y < height; ++y) n_opaque += view.IsOpaque(0, y) + view.IsOpaque(width - 1, y);
  return n_opaque / (2.0 * (width + height));
}

// What training views show of an object that stands alone; empty where there is none. Pixels
// without opaque neighbors are left out: they are a haze that training left in empty space.
std::vector<Vec3> ObjectPoints(const TrainState& state, SceneRenderer* renderer) {
  std::vector<Vec3> points;
  ForSmallViews(
      state, renderer,
      [](const Camera& camera) { return FitSide(camera.width, camera.height, kObjectSide); },
      [&](const SmallView& view) {
        if (OpaqueBorder(view) > kMaxOpaqueBorder) {
          points.clear();
          return false;
        }
        for (int y = 1; y + 1 < view.camera.height; ++y) {
          for (int x = 1; x + 1 < view.camera.width; ++x) {
            int n_opaque = 0;
            for (int i = 0; i < 9; ++i) n_opaque += view.IsOpaque(x + i % 3 - 1, y + i / 3 - 1);
            if (view.IsOpaque(x, y) && n_opaque > 2) points.push_back(view.PointAt(x, y));
          }
        }
        return true;
      });
  return points;
}

}  // namespace

std::vector<CaptureCamera> CaptureCamerasOf(const TrainState& state) {
  std::vector<CaptureCamera> cameras;
  for (const CaptureView& view : state.capture) cameras.push_back(CaptureOf(view.camera));
  return cameras;
}

PathScene PathSceneOf(const TrainState& state, SceneRenderer* renderer) {
  PathScene scene;
  scene.center = renderer->OccupiedBox().Center();
  const SceneGeometry& geometry = state.geometry;
  scene.cameras = CaptureCamerasOf(state);
  if (scene.cameras.empty()) {
    const float length = Norm(geometry.mean_up);
    if (length > 1e-6f) scene.up = geometry.mean_up * (1 / length);
    const float distance = geometry.median_distance > 1e-6f ? geometry.median_distance
                                                            : 0.5f * geometry.box.Diagonal();
    const float height = std::clamp(geometry.median_height, -0.95f * distance, 0.95f * distance);
    const float radius = std::sqrt(distance * distance - height * height);
    const Vec3 across = std::abs(scene.up.x) < 0.7f ? Vec3{1, 0, 0} : Vec3{0, 1, 0};
    const Vec3 side = Normalized(Cross(scene.up, across));
    CaptureCamera camera = CaptureOf(state.reference_camera);
    camera.camera_to_world =
        LookAt(scene.center + side * radius + scene.up * height, scene.center, scene.up);
    scene.cameras.push_back(camera);
    return scene;
  }
  const std::optional<Vec3> file_up = FileUp(geometry);
  std::optional<Vec3> ground;
  if (!file_up.has_value()) ground = PlaneNormalOf(SurfacePoints(state, renderer));
  scene.up = UpOf(scene.cameras, file_up, ground);
  return scene;
}

const PathScene& PathSceneOf(const LoadedModel& model) {
  if (!model.path_scene.has_value()) {
    model.path_scene = PathSceneOf(model.state, model.renderer.get());
    model.path_scene->object = ObjectPoints(model.state, model.renderer.get());
  }
  return *model.path_scene;
}

absl::StatusOr<ViewPath> CamerasOfPath(const TrainState& state, const PathScene& scene,
                                       const PathRequest& request) {
  if (request.count < 1 || request.count > kMaxOrbitViews) {
    return absl::InvalidArgumentError(fmt::format("{}: {} views; it must be 1 to {}",
                                                  PathKindName(request.kind), request.count,
                                                  kMaxOrbitViews));
  }
  const Camera lens =
      PathLens(state.capture.empty() ? state.reference_camera : state.capture.front().camera);
  NERF_ASSIGN_OR_RETURN(
      const Camera resized,
      request.panorama.has_value()
          ? AsPanorama(lens, state.geometry.frame, *request.panorama, request.width, request.height)
          : CameraOfSize(lens, request.width, request.height, request.limited));
  PathKind kind = request.kind;
  if (state.capture.empty() && kind == PathKind::kAuto) kind = PathKind::kOrbit;
  if (state.capture.empty() && kind != PathKind::kOrbit) {
    return absl::InvalidArgumentError(
        fmt::format("{}: such a path follows the training cameras, and the model stores none, as "
                    "imported models do; ask for an orbit",
                    PathKindName(kind)));
  }
  const CameraPath path = MakePath(scene, kind, request.count);
  ViewPath views{path.kind, path.is_closed, {}, {}};
  const bool is_reduced = !request.panorama.has_value() && resized.width < lens.width;
  if (request.width == 0 && request.height == 0 && is_reduced) {
    views.reduced_from = {lens.width, lens.height};
  }
  for (const Mat34& pose : path.poses) {
    Camera& camera = views.cameras.emplace_back(resized);
    camera.camera_to_world = request.panorama.has_value() ? LevelledPose(pose, scene.up) : pose;
  }
  return views;
}

bool IsFarFrom(const Camera& camera, const std::vector<CaptureCamera>& capture) {
  constexpr float kFar = 3;  // times the extent of the training cameras and of what they look at
  if (capture.empty()) return false;
  Vec3 mean{0, 0, 0};
  for (const CaptureCamera& other : capture) {
    mean = mean + other.position() * (1 / static_cast<float>(capture.size()));
  }
  float extent = 0;
  const std::optional<Vec3> focus = FocusOf(capture);
  if (focus.has_value()) extent = Norm(*focus - mean);
  for (const CaptureCamera& other : capture)
    extent = std::max(extent, Norm(other.position() - mean));
  // One camera, or cameras at one place that look apart, say nothing of the scene's size.
  if (extent <= 1e-5f * (1 + Norm(mean))) return false;
  return Norm(camera.camera_to_world.Column(3) - mean) > kFar * extent;
}

double ShareSeenTwice(const ViewPicture& view, const Camera& camera,
                      const std::vector<CaptureCamera>& capture) {
  const int width = view.rgba.width, height = view.rgba.height;
  const int step_x = std::max(1, width / kSampledSide), step_y = std::max(1, height / kSampledSide);
  int n_shown = 0, n_seen = 0;
  for (int y = step_y / 2; y < height; y += step_y) {
    for (int x = step_x / 2; x < width; x += step_x) {
      const float depth = view.depths[static_cast<size_t>(y) * width + x];
      if (view.rgba.Pixel(x, y)[3] < kOpaque || !(depth > 0)) continue;
      const Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
      const Vec3 point = ray.origin + ray.direction * depth;
      int n = 0;
      for (size_t i = 0; i < capture.size() && n < 2; ++i) n += Sees(capture[i], point);
      ++n_shown;
      n_seen += n >= 2;
    }
  }
  if (n_shown == 0) return IsFarFrom(camera, capture) ? 0 : 1;
  return static_cast<double>(n_seen) / n_shown;
}

}  // namespace nerf
