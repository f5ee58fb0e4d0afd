#include "engine/scene/judge/box_in_view.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/scene/camera_focus.h"
#include "engine/scene/pose.h"

namespace nerf {
namespace {

// Rays per side of a picture that are tested.
constexpr int kProbesPerSide = 16;
// In the synthetic scenes that the box of +-1.5 is made for (lego, mic) every ray meets the box. In
// a scene of 2.5 times their scale a quarter of the rays does, and objects extend beyond the box.
constexpr double kMinFraction = 0.25;
// Half side of the box over the distance of the cameras, in those scenes: 1.5 / 4.03.
constexpr double kHalfSidePerDistance = 0.375;

bool Meets(const Ray& ray, const Aabb& box) {
  float enter = 0, leave = ray.t_far;
  for (int axis = 0; axis < 3; ++axis) {
    // For a ray parallel to a side this is infinite, and the comparisons below still hold.
    const float inverse = 1 / ray.direction[axis];
    const float a = (box.min[axis] - ray.origin[axis]) * inverse;
    const float b = (box.max[axis] - ray.origin[axis]) * inverse;
    enter = std::max(enter, std::min(a, b));
    leave = std::min(leave, std::max(a, b));
  }
  return enter <= leave;
}

Aabb OutermostBox(const SceneGeometry& geometry) {
  return geometry.box.Scaled(std::ldexp(1.0f, geometry.n_levels - 1));
}

// An axis-aligned cube in the data set's own frame, relative to the origin.
struct Cube {
  Vec3d center = {0, 0, 0};
  double half_side = 0;
};

// In the own frame.
std::string Corner(const Cube& cube, const Vec3d& origin, double sign) {
  const int digits = origin == Vec3d{0, 0, 0} ? 4 : 10;
  return absl::StrJoin(Sum(origin, cube.center), ", ", [&](std::string* out, double center) {
    absl::StrAppendFormat(out, "%.*g", digits, center + sign * cube.half_side);
  });
}

// What the user can do about it.
std::string Remedy(const SceneDescription& description, const std::vector<Pose>& cameras) {
  const std::string files = absl::StrJoin(description.list_files, " and ");
  const std::optional<Vec3d> center = ClosestPointToAxes(cameras);
  if (!center.has_value()) {
    return absl::StrFormat("state the scene's box in %s: \"aabb\": [[low x, y, z], [high x, y, z]]",
                           files);
  }
  const Cube cube{*center, kHalfSidePerDistance * MedianDistance(cameras, *center)};
  const Vec3d& origin = description.geometry.frame.origin;
  return absl::StrFormat("state the scene's box in %s, such as \"aabb\": [[%s], [%s]]", files,
                         Corner(cube, origin, -1), Corner(cube, origin, 1));
}

}  // namespace

double FractionSeeingBox(const SceneDescription& description) {
  const Aabb box = OutermostBox(description.geometry);
  int64_t n_rays = 0, n_met = 0;
  for (const ViewDescription& view : description.train) {
    const Camera& camera = view.camera;
    for (int i = 0; i < kProbesPerSide * kProbesPerSide; ++i) {
      const float x = (static_cast<float>(i % kProbesPerSide) + 0.5f) / kProbesPerSide;
      const float y = (static_cast<float>(i / kProbesPerSide) + 0.5f) / kProbesPerSide;
      n_met += Meets(CameraRay(camera, x * static_cast<float>(camera.width),
                               y * static_cast<float>(camera.height)),
                     box);
      ++n_rays;
    }
  }
  return n_rays == 0 ? 1 : static_cast<double>(n_met) / static_cast<double>(n_rays);
}

std::string BoxOutOfViewWarning(const SceneDescription& description) {
  const SceneGeometry& geometry = description.geometry;
  if (geometry.flavor != SceneFlavor::kBlender && geometry.flavor != SceneFlavor::kInstantNgp) {
    return "";
  }
  const double fraction = FractionSeeingBox(description);
  if (fraction >= kMinFraction) return "";
  const Similarity to_own = Inverse(FromSceneFrame(geometry.frame));
  std::vector<Pose> cameras;
  for (const ViewDescription& view : description.train) {
    cameras.push_back(to_own.ApplyToPose(ToPose(view.camera.camera_to_world)));
  }
  const Aabb outermost = OutermostBox(geometry);
  const Vec3 center = outermost.Center();
  const Cube box{to_own.ApplyToPoint({center.x, center.y, center.z}),
                 to_own.scale * outermost.Size().x / 2};
  return absl::StrFormat(
      "only %.0f%% of the area of the training pictures shows the box in which the scene is "
      "learned, from (%s) to (%s); the cameras stand %.3g from its center (median). If the scene "
      "is "
      "elsewhere: %s",
      100 * fraction, Corner(box, geometry.frame.origin, -1), Corner(box, geometry.frame.origin, 1),
      MedianDistance(cameras, box.center), Remedy(description, cameras));
}

}  // namespace nerf
