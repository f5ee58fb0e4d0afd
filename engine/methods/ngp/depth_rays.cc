#include "engine/methods/ngp/depth_rays.h"

#include "engine/base/philox.h"

namespace nerf {
namespace {

constexpr int kPixelsPerDepthRay = 8;

}  // namespace

void AppendDepthRays(std::span<const SeenPoint> points, std::span<const Vec3> camera_positions,
                     float near, uint64_t seed, RayBatch* batch) {
  const int n_pixels = batch->n_rays;
  if (batch->weights.empty()) batch->weights.assign(n_pixels, 1);
  batch->views.resize(n_pixels);
  batch->depths.assign(n_pixels, 0);
  for (int i = 0; i < n_pixels / kPixelsPerDepthRay; ++i) {
    const auto words =
        RandomWords(seed, RandomUse::kDepthPoint, batch->step, static_cast<uint32_t>(i));
    const SeenPoint& point = points[UniformIndex(words[0], static_cast<uint32_t>(points.size()))];
    const Vec3 origin = camera_positions[point.view], to_point = point.position - origin;
    const float depth = Norm(to_point);
    if (!(depth > near)) continue;
    Ray ray{origin, to_point * (1 / depth)};
    ray.t_near = near;
    batch->rays.push_back(ray);
    batch->jitters.push_back(UniformFloat(words[1]));
    batch->targets.push_back({});
    batch->backgrounds.push_back({});
    batch->weights.push_back(0);
    batch->views.push_back(point.view);
    batch->depths.push_back(depth);
    ++batch->n_rays;
  }
}

}  // namespace nerf
