#include "engine/export/mesh/shown_space.h"

#include <algorithm>
#include <utility>

#include "engine/export/mesh/surface_points.h"
#include "engine/views/render/renderer.h"

namespace nerf {
namespace {

constexpr int kMaxShownSide = 240;  // of a view, pixels
constexpr size_t kMaxShownViews = 32;
constexpr float kTolerancePixels = 2;  // where a surface is seen at an angle

}  // namespace

absl::StatusOr<ShownSpace> ShownSpace::Make(const TrainedModel& model,
                                            std::span<const Camera> cameras, float near,
                                            float tolerance, float time, ThreadPool* pool,
                                            const std::stop_token& stop) {
  const size_t n_views = std::min(cameras.size(), kMaxShownViews);
  std::vector<View> views;
  for (size_t i = 0; i < n_views; ++i) {
    Camera camera = PinholeIn(cameras[i * cameras.size() / n_views], kMaxShownSide);
    camera.time = time;
    ViewRender render(model, near, camera, {});
    if (!render.Advance(pool, nullptr, stop))
      return absl::CancelledError("the export was interrupted");
    views.push_back({camera, std::move(render.TakeView().depths)});
  }
  return ShownSpace(std::move(views), tolerance);
}

bool ShownSpace::Has(Vec3 point) const {
  size_t n_missing = std::min<size_t>(2, views_.size());
  for (const View& view : views_) {
    if (n_missing == 0) break;
    const Camera& camera = view.camera;
    const Vec3 offset = point - camera.camera_to_world.Column(3);
    const float along = -Dot(offset, camera.camera_to_world.Column(2));
    if (!(along > 0)) continue;
    const float u = camera.cx + camera.fl_x * Dot(offset, camera.camera_to_world.Column(0)) / along;
    const float v = camera.cy - camera.fl_y * Dot(offset, camera.camera_to_world.Column(1)) / along;
    if (!(u >= 0 && v >= 0 && u < static_cast<float>(camera.width) &&
          v < static_cast<float>(camera.height))) {
      continue;
    }
    const float depth = view.depths[static_cast<size_t>(v) * camera.width + static_cast<size_t>(u)];
    const float behind = tolerance_ + kTolerancePixels * along / camera.fl_x;
    n_missing -= depth > 0 && depth + behind >= Norm(offset) ? 1 : 0;
  }
  return n_missing == 0;
}

}  // namespace nerf
