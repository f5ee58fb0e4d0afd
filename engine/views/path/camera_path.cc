#include "engine/views/path/camera_path.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "engine/base/principal_axes.h"

namespace nerf {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr float kOneWayMean = 0.9f;     // length of the mean view of cameras that look one way
constexpr float kSpiralSpread = 0.45f;  // of the distance to the focus: cameras spread less
constexpr float kSpiralRadius = 0.8f;   // of the cameras' own spread
constexpr int kSpiralTurns = 2;
constexpr int kFewViews = 32;           // below so many a spiral has one turn, since two cross once
constexpr float kOrbitBlend = kPi / 6;  // over which cameras beside an orbit's point count
constexpr float kFittedView = 0.96f;    // of a view's half: what an object may fill
constexpr float kMaxRetreat = 1.6f;     // of an orbit's distance, to show an object
constexpr float kSmoothing = 1.0f / 14;  // of a path's length, over which neighbors are averaged
constexpr float kFewSteps = 2;           // the same between few cameras, in steps between them
constexpr size_t kMaxTour = 400;         // cameras that are put in order: of more, every few
constexpr float kSequential = 1.6f;  // of the shortest tour: the order of names is kept up to it

float Median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Vec3 UnitOr(Vec3 v, Vec3 fallback) {
  const float length = Norm(v);
  return length > 1e-6f ? v * (1 / length) : fallback;
}

// Two unit vectors across `up`.
std::array<Vec3, 2> Across(Vec3 up) {
  int least = 0;  // the axis that up has least of gives the steadiest direction
  for (int axis = 1; axis < 3; ++axis) {
    if (std::abs(up[axis]) < std::abs(up[least])) least = axis;
  }
  Vec3 axis{0, 0, 0};
  axis[least] = 1;
  const Vec3 first = Normalized(axis - up * Dot(axis, up));
  return {first, Cross(up, first)};
}

// A pose with these axes, made orthonormal, forward kept.
Mat34 PoseOf(Vec3 position, Vec3 forward, Vec3 up) {
  return LookAt(position, position + forward, up);
}

struct MeanCamera {
  Vec3 position{0, 0, 0}, forward{0, 0, 0}, up{0, 0, 0};
};

MeanCamera MeanOf(const std::vector<CaptureCamera>& cameras) {
  MeanCamera mean;
  const float share = 1 / static_cast<float>(cameras.size());
  for (const CaptureCamera& camera : cameras) {
    mean.position = mean.position + camera.position() * share;
    mean.forward = mean.forward + camera.forward() * share;
    mean.up = mean.up + camera.up() * share;
  }
  return mean;
}

// Of the cameras from their mean position: root mean square.
float SpreadOf(const std::vector<CaptureCamera>& cameras, Vec3 mean) {
  float sum = 0;
  for (const CaptureCamera& camera : cameras) {
    const Vec3 offset = camera.position() - mean;
    sum += Dot(offset, offset) / static_cast<float>(cameras.size());
  }
  return std::sqrt(sum);
}

// By how much a camera at the pose has to move away from `target`, which it looks at, to show the
// points: a factor for its distance, 1 if it shows them. Infinite for a lens that sees to one side.
float DistanceToShow(const std::vector<Vec3>& points, const CaptureCamera& lens, const Mat34& pose,
                     Vec3 target) {
  const float distance = Norm(target - pose.Column(3));
  const float edges[2][2] = {{lens.right, -lens.left}, {lens.top, -lens.bottom}};
  float farthest = 1;
  for (const Vec3& point : points) {
    const Vec3 offset = point - target;
    const float behind = -Dot(offset, pose.Column(2));  // the target, seen from the camera
    for (int axis = 0; axis < 2; ++axis) {
      const float across = Dot(offset, pose.Column(axis));
      const float edge = kFittedView * edges[axis][across < 0 ? 1 : 0];
      const float needed =
          edge > 0 ? std::abs(across) / edge - behind : std::numeric_limits<float>::infinity();
      farthest = std::max(farthest, needed / distance);
    }
  }
  return farthest;
}

Vec3 MiddleOf(const std::vector<Vec3>& points) {
  Vec3 low = points.front(), high = points.front();
  for (const Vec3& point : points) {
    for (int axis = 0; axis < 3; ++axis) {
      low[axis] = std::min(low[axis], point[axis]);
      high[axis] = std::max(high[axis], point[axis]);
    }
  }
  return (low + high) * 0.5f;
}

// Makes an orbit around `center` show the whole object, if it does not and may: its cameras look at
// the object's middle and move away from it, all by the same factor.
void ShowObject(const PathScene& scene, Vec3 center, std::vector<Mat34>* poses) {
  if (scene.object.empty() || scene.cameras.empty()) return;
  const CaptureCamera& lens = scene.cameras.front();
  const auto needed = [&](const std::vector<Mat34>& cameras, Vec3 target) {
    float factor = 1;
    for (const Mat34& pose : cameras)
      factor = std::max(factor, DistanceToShow(scene.object, lens, pose, target));
    return factor;
  };
  if (needed(*poses, center) <= 1) return;
  const Vec3 middle = MiddleOf(scene.object);
  std::vector<Mat34> turned;
  for (const Mat34& pose : *poses) turned.push_back(LookAt(pose.Column(3), middle, scene.up));
  const float factor = needed(turned, middle);
  if (!(factor <= kMaxRetreat)) return;
  for (size_t i = 0; i < turned.size(); ++i) {
    const Vec3 position = middle + (turned[i].Column(3) - middle) * factor;
    (*poses)[i] = LookAt(position, middle, scene.up);
  }
}

CameraPath Orbit(const PathScene& scene, Vec3 center, int n) {
  const auto [first, second] = Across(scene.up);
  struct Place {
    float angle, radius, height;
  };
  std::vector<Place> places;
  for (const CaptureCamera& camera : scene.cameras) {
    const Vec3 offset = camera.position() - center;
    const float x = Dot(offset, first), y = Dot(offset, second);
    places.push_back({std::atan2(y, x), std::hypot(x, y), Dot(offset, scene.up)});
  }
  CameraPath path{PathKind::kOrbit, true, {}};
  for (int i = 0; i < n; ++i) {
    const float angle = 2 * kPi * static_cast<float>(i) / static_cast<float>(n);
    float radius = 0, height = 0, weights = 0;
    for (const Place& place : places) {
      const float off = std::remainder(angle - place.angle, 2 * kPi) / kOrbitBlend;
      // The last term counts all cameras alike, for directions without a camera.
      const float weight = std::exp(-0.5f * off * off) + 1e-3f;
      radius += weight * place.radius;
      height += weight * place.height;
      weights += weight;
    }
    radius = weights > 0 ? radius / weights : 1;
    height = weights > 0 ? height / weights : 0;
    // Straight above the center there is no side to go around to.
    radius = std::max(radius, 0.2f * std::abs(height));
    if (!(radius > 0)) radius = 1;
    const Vec3 around = first * std::cos(angle) + second * std::sin(angle);
    path.poses.push_back(LookAt(center + around * radius + scene.up * height, center, scene.up));
  }
  ShowObject(scene, center, &path.poses);
  return path;
}

CameraPath Spiral(const PathScene& scene, Vec3 focus, int n) {
  const MeanCamera mean = MeanOf(scene.cameras);
  const Mat34 middle = PoseOf(mean.position, focus - mean.position, UnitOr(mean.up, scene.up));
  float radius[2];
  for (int axis = 0; axis < 2; ++axis) {
    std::vector<float> offsets;
    for (const CaptureCamera& camera : scene.cameras) {
      offsets.push_back(std::abs(Dot(camera.position() - mean.position, middle.Column(axis))));
    }
    std::sort(offsets.begin(), offsets.end());
    radius[axis] = kSpiralRadius * offsets[offsets.size() * 9 / 10];
  }
  const int turns = n < kFewViews ? 1 : kSpiralTurns;
  CameraPath path{PathKind::kSpiral, true, {}};
  for (int i = 0; i < n; ++i) {
    const float turn = static_cast<float>(i) / static_cast<float>(n);
    const float angle = 2 * kPi * static_cast<float>(turns) * turn;
    // Inwards and then outwards, so that it closes.
    const float size = 0.65f + 0.35f * std::cos(2 * kPi * turn);
    const Vec3 position = mean.position + middle.Column(0) * (radius[0] * size * std::cos(angle)) +
                          middle.Column(1) * (radius[1] * size * std::sin(angle));
    path.poses.push_back(LookAt(position, focus, middle.Column(1)));
  }
  return path;
}

// Cameras with a number along a way, which need not be evenly spaced.
struct Stop {
  float at;
  const CaptureCamera* camera;
};

// n poses evenly along the way, each an average of the stops near it.
CameraPath Along(const std::vector<Stop>& stops, const PathScene& scene, PathKind kind, int n) {
  CameraPath path{kind, false, {}};
  const float length = stops.back().at - stops.front().at;
  std::vector<float> steps;
  for (size_t i = 1; i < stops.size(); ++i) steps.push_back(stops[i].at - stops[i - 1].at);
  const float width = std::max({kSmoothing * length, kFewSteps * Median(steps), 1e-6f});
  for (int i = 0; i < n; ++i) {
    const float share = n > 1 ? static_cast<float>(i) / static_cast<float>(n - 1) : 0.5f;
    const float at = stops.front().at + share * length;
    Vec3 position{0, 0, 0}, forward{0, 0, 0}, up{0, 0, 0};
    float weights = 0;
    for (const Stop& stop : stops) {
      const float off = (stop.at - at) / width;
      const float weight = std::exp(-0.5f * off * off) + 1e-9f;
      position = position + stop.camera->position() * weight;
      forward = forward + stop.camera->forward() * weight;
      up = up + stop.camera->up() * weight;
      weights += weight;
    }
    path.poses.push_back(PoseOf(position * (1 / weights),
                                UnitOr(forward, stops.front().camera->forward()),
                                UnitOr(up, scene.up)));
  }
  return path;
}

// Positions in units of `unit`, turns in radians.
float StepBetween(const CaptureCamera& a, const CaptureCamera& b, float unit) {
  const float cosine = std::clamp(Dot(a.forward(), b.forward()), -1.0f, 1.0f);
  return Norm(a.position() - b.position()) / unit + std::acos(cosine);
}

using Order = std::vector<size_t>;

float LengthOf(const std::vector<const CaptureCamera*>& cameras, const Order& order, float unit) {
  float length = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    length += StepBetween(*cameras[order[i - 1]], *cameras[order[i]], unit);
  }
  return length;
}

// A short open way through all: always on to the nearest one, then turned around in pieces while
// that shortens it.
Order ShortTour(const std::vector<const CaptureCamera*>& cameras, float unit) {
  const size_t n = cameras.size();
  Order order = {0};
  std::vector<bool> is_done(n);
  is_done[0] = true;
  while (order.size() < n) {
    size_t nearest = n;
    float least = 0;
    for (size_t i = 0; i < n; ++i) {
      if (is_done[i]) continue;
      const float step = StepBetween(*cameras[order.back()], *cameras[i], unit);
      if (nearest == n || step < least) nearest = i, least = step;
    }
    is_done[nearest] = true;
    order.push_back(nearest);
  }
  constexpr int kMaxPasses = 20;
  bool has_changed = true;
  for (int pass = 0; pass < kMaxPasses && has_changed; ++pass) {
    has_changed = false;
    for (size_t i = 0; i + 1 < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const auto step = [&](size_t a, size_t b) {
          return StepBetween(*cameras[order[a]], *cameras[order[b]], unit);
        };
        const float before = (i > 0 ? step(i - 1, i) : 0) + (j + 1 < n ? step(j, j + 1) : 0);
        const float after = (i > 0 ? step(i - 1, j) : 0) + (j + 1 < n ? step(i, j + 1) : 0);
        if (after + 1e-6f >= before) continue;
        std::reverse(order.begin() + static_cast<int64_t>(i),
                     order.begin() + static_cast<int64_t>(j) + 1);
        has_changed = true;
      }
    }
  }
  return order;
}

CameraPath AlongCameras(const PathScene& scene, Vec3 focus, int n) {
  std::vector<const CaptureCamera*> cameras;
  const size_t stride = (scene.cameras.size() + kMaxTour - 1) / kMaxTour;
  for (size_t i = 0; i < scene.cameras.size(); i += stride) cameras.push_back(&scene.cameras[i]);
  std::vector<float> distances;
  for (const CaptureCamera* camera : cameras) {
    distances.push_back(Norm(camera->position() - focus));
  }
  const float unit = std::max(Median(distances), 1e-6f);
  Order by_name(cameras.size());
  std::iota(by_name.begin(), by_name.end(), size_t{0});
  Order order = ShortTour(cameras, unit);
  if (LengthOf(cameras, by_name, unit) <= kSequential * LengthOf(cameras, order, unit)) {
    order = by_name;
  }
  std::vector<Stop> stops;
  float at = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0) at += StepBetween(*cameras[order[i - 1]], *cameras[order[i]], unit);
    stops.push_back({at, cameras[order[i]]});
  }
  return Along(stops, scene, PathKind::kCameras, n);
}

CameraPath Flyby(const PathScene& scene, int n) {
  std::vector<std::array<double, 3>> positions;
  for (const CaptureCamera& camera : scene.cameras) {
    const Vec3 p = camera.position();
    positions.push_back({p.x, p.y, p.z});
  }
  const PrincipalAxes axes = PrincipalAxesOf(positions);
  const Vec3 axis{static_cast<float>(axes.axes[0][0]), static_cast<float>(axes.axes[0][1]),
                  static_cast<float>(axes.axes[0][2])};
  std::vector<Stop> stops;
  for (const CaptureCamera& camera : scene.cameras) {
    stops.push_back({Dot(camera.position(), axis), &camera});
  }
  std::stable_sort(stops.begin(), stops.end(),
                   [](const Stop& a, const Stop& b) { return a.at < b.at; });
  CameraPath path = Along(stops, scene, PathKind::kFlyby, n);
  // Straight: the averages of positions wander across the axis.
  const MeanCamera mean = MeanOf(scene.cameras);
  for (Mat34& pose : path.poses) {
    const float along = Dot(pose.Column(3) - mean.position, axis);
    for (int row = 0; row < 3; ++row) pose.m[row][3] = mean.position[row] + axis[row] * along;
  }
  return path;
}

}  // namespace

std::string_view PathKindName(PathKind kind) {
  constexpr std::string_view kNames[] = {"auto", "orbit", "spiral", "flyby", "cameras"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<PathKind> ParsePathKind(std::string_view name) {
  for (const PathKind kind : {PathKind::kAuto, PathKind::kOrbit, PathKind::kSpiral,
                              PathKind::kFlyby, PathKind::kCameras}) {
    if (PathKindName(kind) == name) return kind;
  }
  return std::nullopt;
}

Mat34 LookAt(Vec3 position, Vec3 target, Vec3 up) {
  const Vec3 backward = UnitOr(position - target, up);
  Vec3 right = Cross(up, backward);
  if (Norm(right) < 1e-4f) right = Across(backward)[0];
  right = Normalized(right);
  const Vec3 top = Cross(backward, right);
  Mat34 pose;
  for (int row = 0; row < 3; ++row) {
    pose.m[row][0] = right[row];
    pose.m[row][1] = top[row];
    pose.m[row][2] = backward[row];
    pose.m[row][3] = position[row];
  }
  return pose;
}

CameraPath MakePath(const PathScene& scene, PathKind kind, int n) {
  if (n <= 0) return {kind == PathKind::kAuto ? PathKind::kOrbit : kind, false, {}};
  const std::optional<Vec3> focus = FocusOf(scene.cameras);
  const Vec3 center = focus.value_or(scene.center);
  if (scene.cameras.empty()) return Orbit(scene, center, n);
  if (kind == PathKind::kAuto) {
    const MeanCamera mean = MeanOf(scene.cameras);
    const float distance = Norm(center - mean.position);
    if (GoAround(scene.cameras, center, scene.up)) {
      kind = PathKind::kOrbit;
    } else if (focus.has_value() && Norm(mean.forward) > kOneWayMean &&
               SpreadOf(scene.cameras, mean.position) < kSpiralSpread * distance) {
      kind = PathKind::kSpiral;
    } else {
      kind = PathKind::kCameras;
    }
  }
  switch (kind) {
    case PathKind::kSpiral:
      return Spiral(scene, center, n);
    case PathKind::kFlyby:
      return Flyby(scene, n);
    case PathKind::kCameras:
      return AlongCameras(scene, center, n);
    case PathKind::kAuto:
    case PathKind::kOrbit:
      break;
  }
  return Orbit(scene, center, n);
}

}  // namespace nerf
