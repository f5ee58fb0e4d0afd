#include "engine/export/mesh/seen_parts.h"

#include <algorithm>
#include <cmath>

namespace nerf {
namespace {

constexpr size_t kMaxAskedPoints = 128, kMaxAskedCameras = 32;
constexpr size_t kMinSeenPercent = 10;

}  // namespace

SeenParts::SeenParts(const TrainedModel& model, std::span<const Camera> cameras, float near,
                     float tolerance, float time)
    : model_(model),
      cameras_(cameras),
      near_(near),
      tolerance_(tolerance),
      time_(time),
      workspace_(model.NewWorkspace()) {}

bool SeenParts::Sees(const std::vector<Vec3>& points) {
  const size_t n_points = std::min(points.size(), kMaxAskedPoints);
  const size_t n_cameras = std::min(cameras_.size(), kMaxAskedCameras);
  const size_t n_wanted = std::min<size_t>(2, n_cameras);
  if (n_cameras == 0) return true;
  std::vector<size_t> n_seeing(n_points);  // cameras that see each point
  for (size_t c = 0; c < n_cameras; ++c) {
    const Mat34& pose = cameras_[c * cameras_.size() / n_cameras].camera_to_world;
    std::vector<Ray> rays;
    std::vector<float> distances;
    for (size_t i = 0; i < n_points; ++i) {
      const Vec3 offset = points[i * points.size() / n_points] - pose.Column(3);
      distances.push_back(Norm(offset));
      rays.push_back({pose.Column(3), offset * (1 / std::max(distances[i], 1e-9f)), near_});
    }
    std::vector<RenderedRay> rendered(rays.size());
    model_.RenderRays({.rays = rays, .time = time_, .axis = pose.Column(2) * -1.0f}, {},
                      workspace_.get(), rendered.data());
    for (size_t i = 0; i < n_points; ++i) {
      const bool sees = distances[i] > near_ && rendered[i].depth > 0 &&
                        rendered[i].depth >= distances[i] - tolerance_;
      n_seeing[i] += sees ? 1 : 0;
    }
  }
  const auto n_seen = static_cast<size_t>(
      std::count_if(n_seeing.begin(), n_seeing.end(), [=](size_t n) { return n >= n_wanted; }));
  return 100 * n_seen >= kMinSeenPercent * n_points;
}

}  // namespace nerf
