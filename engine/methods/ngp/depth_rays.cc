#include "engine/methods/ngp/depth_rays.h"

#include <optional>

#include "engine/base/philox.h"
#include "engine/scene/depth_files.h"

namespace nerf {
namespace {

constexpr int kPixelsPerDepthRay = 8;

struct DepthRay {
  Ray ray;
  int32_t view = 0;
  float depth = 0;  // along the ray
};

// Through the place of the picture where the point was seen.
DepthRay RayToPoint(const SeenPoint& point, std::span<const LensCamera> cameras) {
  const Vec3 origin = cameras[point.view].camera_to_world.Column(3);
  const Vec3 to_point = point.position - origin;
  const float depth = Norm(to_point);
  return {{origin, to_point * (1 / depth)}, point.view, depth};
}

// Through one of the pixels that the words choose: the first that is trained and has a depth.
std::optional<DepthRay> RayOfMap(const DepthMap& map, std::span<const uint32_t> words,
                                 std::span<const LensCamera> cameras) {
  const auto n_pixels = static_cast<uint32_t>(map.image.pixels.size());
  for (const uint32_t word : words) {
    const uint32_t pixel = UniformIndex(word, n_pixels);
    if (pixel % kDepthHeldOut == 0 || map.image.pixels[pixel] == 0) continue;
    const auto width = static_cast<uint32_t>(map.image.width);
    const LensCamera& camera = cameras[map.view];
    DepthRay found{LensRay(camera, map.PictureX(static_cast<int>(pixel % width)),
                           map.PictureY(static_cast<int>(pixel / width))),
                   map.view};
    found.depth =
        DistanceOf(map, map.image.pixels[pixel], camera.camera_to_world, found.ray.direction);
    return found;
  }
  return std::nullopt;
}

}  // namespace

void AppendDepthRays(const KnownDepths& depths, std::span<const LensCamera> cameras,
                     const ViewPoses& poses, float near, uint64_t seed, RayBatch* batch) {
  const int n_pixels = batch->n_rays;
  if (batch->weights.empty()) batch->weights.assign(n_pixels, 1);
  batch->views.resize(n_pixels);
  batch->depths.assign(n_pixels, 0);
  for (int i = 0; i < n_pixels / kPixelsPerDepthRay; ++i) {
    const auto words =
        RandomWords(seed, RandomUse::kDepthPoint, batch->step, static_cast<uint32_t>(i));
    std::optional<DepthRay> ray;
    if (depths.maps.empty() || (!depths.points.empty() && i % 2 == 0)) {
      const auto n_points = static_cast<uint32_t>(depths.points.size());
      ray = RayToPoint(depths.points[UniformIndex(words[0], n_points)], cameras);
    } else {
      const auto n_maps = static_cast<uint32_t>(depths.maps.size());
      ray = RayOfMap(depths.maps[UniformIndex(words[0], n_maps)], std::span(words).subspan(2, 2),
                     cameras);
    }
    if (!ray.has_value() || !(ray->depth > near)) continue;
    if (!poses.empty()) poses.Apply(ray->view, &ray->ray);
    ray->ray.t_near = near;
    batch->rays.push_back(ray->ray);
    batch->jitters.push_back(UniformFloat(words[1]));
    batch->targets.push_back({});
    batch->backgrounds.push_back({});
    batch->weights.push_back(0);
    batch->views.push_back(ray->view);
    batch->depths.push_back(ray->depth);
    ++batch->n_rays;
  }
}

}  // namespace nerf
