#include "engine/scene/placement.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/scene/camera_focus.h"

namespace nerf {
namespace {

constexpr double kNgpCenter = 0.5;  // each coordinate, of instant-ngp's boxes
constexpr int kOuterLevels = 4;     // of nerfstudio and COLMAP scenes: the outermost box is +-8
// Half of the usual number: for the same work a step then trains more rays, which gives better
// pictures (docs/inside/measured.md).
constexpr float kStepsPerDiagonal = 512;
constexpr float kCone = 1.0f / 128;

// Half side of the level-0 box over the median distance of its points from their center: half of
// what the photographs show lies within two thirds of it, so most of it lies in the box.
constexpr double kHalfSidePerPointDistance = 1.5;
constexpr size_t kMinPoints = 30;  // fewer say nothing
// Half side of the level-0 box over the cameras' median distance from what they look at. In the
// synthetic scenes that the field tunes on it is 1.5 / 4.03.
constexpr double kHalfSidePerCameraDistance = 0.375;
// Cameras look at a point if most of them have it within this angle of their axes.
constexpr double kMaxLookDegrees = 25, kMinLookShare = 0.75;
// Length of the mean of the cameras' axes above which they say nothing of where the scene is: they
// all look the same way, as from a drone.
constexpr double kMaxMeanAxis = 0.97;

// A cube in the frame after the up rotation.
struct TurnedCube {
  Vec3d center = {0, 0, 0};
  double half_side = 1;
};

// The value at which half of the weight lies below. Sorts.
double WeightedMedian(std::vector<std::pair<double, double>>* values) {
  std::sort(values->begin(), values->end());
  double total = 0, below = 0;
  for (const auto& [value, weight] : *values) total += weight;
  for (const auto& [value, weight] : *values) {
    below += weight;
    if (2 * below >= total) return value;
  }
  return values->empty() ? 0 : values->back().first;
}

// How much a point counts: once for each photograph that shows it. Points of other programs may
// name none.
double WeightOf(const ScenePoint& point) { return std::max<uint32_t>(1, point.n_views); }

// A cube around what the photographs show.
std::optional<TurnedCube> CubeOfPoints(const std::vector<ScenePoint>& points,
                                       const Similarity& turn) {
  if (points.size() < kMinPoints) return std::nullopt;
  TurnedCube cube;
  std::vector<std::pair<double, double>> values(points.size());
  for (int axis = 0; axis < 3; ++axis) {
    for (size_t i = 0; i < points.size(); ++i)
      values[i] = {turn.ApplyToPoint(points[i].position)[axis], WeightOf(points[i])};
    cube.center[axis] = WeightedMedian(&values);
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const Vec3d place = turn.ApplyToPoint(points[i].position);
    double distance = 0;
    for (int axis = 0; axis < 3; ++axis)
      distance = std::max(distance, std::abs(place[axis] - cube.center[axis]));
    values[i] = {distance, WeightOf(points[i])};
  }
  cube.half_side = kHalfSidePerPointDistance * WeightedMedian(&values);
  if (!(cube.half_side > 1e-9)) return std::nullopt;
  return cube;
}

double MeanAxisLength(const std::vector<Pose>& poses) {
  double squared = 0;
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (const Pose& pose : poses) sum += pose.m[i][2];
    squared += sum * sum;
  }
  return std::sqrt(squared) / static_cast<double>(poses.size());
}

// A cube around what most cameras look at; none if they look at different things, or all the same
// way.
std::optional<TurnedCube> CubeOfFocus(const std::vector<Pose>& turned) {
  const std::optional<Vec3d> focus = ClosestPointToAxes(turned);
  if (!focus.has_value()) return std::nullopt;
  if (ShareLookingAt(turned, *focus, kMaxLookDegrees) < kMinLookShare) return std::nullopt;
  if (MeanAxisLength(turned) > kMaxMeanAxis) return std::nullopt;
  const double half_side = kHalfSidePerCameraDistance * MedianDistance(turned, *focus);
  if (!(half_side > 1e-9)) return std::nullopt;
  return TurnedCube{*focus, half_side};
}

// The rotation that turns an own axis (Placement::up_axis) to +z.
Similarity AxisUp(int up_axis) {
  Pose camera;  // whose up vector, its column 1, is the axis
  const double sign = up_axis < 3 ? 1 : -1;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) camera.m[i][j] = 0;
  }
  const int axis = up_axis % 3;
  camera.m[axis][1] = sign;
  camera.m[(axis + 1) % 3][2] = 1;
  camera.m[(axis + 2) % 3][0] = sign;
  Similarity turn = NormalizingPlacement(std::vector<Pose>{camera});
  turn.scale = 1;
  turn.translation = {0, 0, 0};
  return turn;
}

// x -> (x - center) / half_side after `turn`.
Similarity ToUnitBox(const TurnedCube& cube, const Similarity& turn) {
  Similarity shrink;
  shrink.scale = 1 / cube.half_side;
  for (int i = 0; i < 3; ++i) shrink.translation[i] = -cube.center[i] / cube.half_side;
  return Compose(shrink, turn);
}

// Smaller, if what the cameras see would reach beyond the outermost box. far_bound: how far they
// see, own units; 0: not known.
Similarity WithinBoxes(double far_bound, Similarity placement) {
  const double outermost = std::ldexp(1.0, kOuterLevels - 1);
  const double factor = placement.scale * far_bound / outermost;
  if (factor <= 1) return placement;
  placement.scale /= factor;
  for (double& coordinate : placement.translation) coordinate /= factor;
  return placement;
}

// The placement of a scene whose own frame means nothing: by points, focus or positions.
Similarity PlaceByContents(const ListedViews& listed, const Placement& wanted) {
  Similarity world;
  if (listed.flavor == SceneFlavor::kColmap) world = ColmapWorldToZUp();
  std::vector<Pose> poses;
  for (const ListedView& view : listed.views) poses.push_back(world.ApplyToPose(view.pose));
  const Similarity by_positions =
      WithinBoxes(listed.far_bound, Compose(NormalizingPlacement(poses), world));
  Similarity turn = by_positions;
  if (wanted.up_axis >= 0) turn = AxisUp(wanted.up_axis);
  turn.scale = 1;
  turn.translation = {0, 0, 0};
  poses.clear();
  for (const ListedView& view : listed.views) poses.push_back(turn.ApplyToPose(view.pose));
  std::optional<TurnedCube> cube = CubeOfPoints(listed.points, turn);
  // Where far depths are known, the cameras look to one side.
  if (!cube.has_value() && listed.far_bound <= 0) cube = CubeOfFocus(poses);
  if (cube.has_value()) return ToUnitBox(*cube, turn);
  if (wanted.up_axis < 0) return by_positions;
  // As by_positions, but for the rotation: it is upright already.
  Similarity centered = NormalizingPlacement(poses);
  const Vec3d mean = Inverse(centered).translation;
  TurnedCube positions{mean, 1 / centered.scale};
  return WithinBoxes(listed.far_bound, ToUnitBox(positions, turn));
}

// Moves and scales a placement, so that the wanted box becomes the level-0 box.
Similarity WithBox(const OwnCube& box, const Vec3d& origin, const Aabb& level0,
                   Similarity placement) {
  placement.scale = double{level0.Size().x} / box.side;
  placement.translation = {0, 0, 0};
  const Vec3d center =
      placement.ApplyToPoint(Difference({box.center[0], box.center[1], box.center[2]}, origin));
  const Vec3 target = level0.Center();
  for (int i = 0; i < 3; ++i) placement.translation[i] = double{target[i]} - center[i];
  return placement;
}

int LevelsOfAabbScale(int aabb_scale) {
  int n_levels = 1;
  for (int scale = aabb_scale; scale > 1; scale /= 2) ++n_levels;
  return n_levels;
}

// The boxes of a scene of instant-ngp whose file says how far it reaches, but names no box: the
// level-0 box goes around what the pictures show, in the frame of `placement`, and the outermost
// one holds the reach. Changes nothing if that is not known, or not within the reach.
void BoxNgpContents(const ListedViews& listed, const Similarity& placement,
                    SceneGeometry* geometry) {
  std::vector<Pose> poses;
  for (const ListedView& view : listed.views) poses.push_back(placement.ApplyToPose(view.pose));
  std::optional<TurnedCube> cube = CubeOfPoints(listed.points, placement);
  if (!cube.has_value()) cube = CubeOfFocus(poses);
  if (!cube.has_value()) return;
  double shift = 0;
  for (const double coordinate : cube->center)
    shift = std::max(shift, std::abs(coordinate - kNgpCenter));
  const double reach = 0.5 * listed.aabb_scale;
  if (std::max(shift, cube->half_side) >= reach) return;
  const Vec3 center{static_cast<float>(cube->center[0]), static_cast<float>(cube->center[1]),
                    static_cast<float>(cube->center[2])};
  const auto half = static_cast<float>(cube->half_side);
  geometry->box = {center - Vec3{half, half, half}, center + Vec3{half, half, half}};
  geometry->n_levels = 1;
  for (double side = cube->half_side; side < reach + shift && geometry->n_levels < kMaxBoxes;
       side *= 2) {
    ++geometry->n_levels;
  }
}

}  // namespace

void SubtractOrigin(ListedViews* listed) {
  // A frame whose box lies about 0 whatever the cameras are moves for coordinates of a map alone.
  constexpr double kOfMaps = 1e4;
  const bool is_fixed = listed->flavor == SceneFlavor::kBlender ||
                        (listed->flavor == SceneFlavor::kInstantNgp && !listed->has_ngp_box);
  std::vector<Vec3d> positions;
  double largest = 0;
  for (const ListedView& view : listed->views) {
    positions.push_back(view.pose.position());
    for (const double x : positions.back()) largest = std::max(largest, std::abs(x));
  }
  Vec3d origin = {0, 0, 0};
  if (listed->placement.has_value()) {
    origin = listed->placement->origin;
  } else if (!is_fixed || largest > kOfMaps) {
    origin = LocalOrigin(positions);
  }
  listed->origin = origin;
  if (origin == Vec3d{0, 0, 0}) return;
  for (size_t i = 0; i < positions.size(); ++i)
    listed->views[i].pose.set_position(Difference(positions[i], origin));
  for (ScenePoint& point : listed->points) point.position = Difference(point.position, origin);
  if (!listed->has_ngp_box) return;
  for (size_t i = 0; i < 3; ++i) listed->ngp_offset[i] += listed->ngp_scale * origin[i];
}

Similarity PlaceScene(const ListedViews& listed, const Placement& wanted, SceneGeometry* geometry,
                      std::vector<std::string>* warnings) {
  geometry->flavor = listed.flavor;
  Similarity placement;
  switch (listed.flavor) {
    case SceneFlavor::kBlender:
      geometry->box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
      geometry->n_levels = 1;
      geometry->near = 0;
      break;
    case SceneFlavor::kInstantNgp:
      placement = NgpPlacement(listed.ngp_scale, listed.ngp_offset);
      geometry->box = {{0, 0, 0}, {1, 1, 1}};
      geometry->n_levels = LevelsOfAabbScale(listed.aabb_scale);
      geometry->near = 0.1f;
      if (listed.aabb_scale > 1 && !listed.has_ngp_box && !wanted.box.has_value())
        BoxNgpContents(listed, placement, geometry);
      break;
    case SceneFlavor::kNerfstudio:
    case SceneFlavor::kColmap:
      placement = PlaceByContents(listed, wanted);
      geometry->box = {{-1, -1, -1}, {1, 1, 1}};
      geometry->n_levels = kOuterLevels;
      geometry->near = 0.05f;
      break;
  }
  if (listed.placement.has_value()) {
    placement = listed.placement->own_to_training;
    geometry->box = listed.placement->box;
    geometry->n_levels = listed.placement->n_levels;
  }
  const bool has_own_up =
      listed.flavor == SceneFlavor::kBlender || listed.flavor == SceneFlavor::kInstantNgp;
  if (wanted.up_axis >= 0 && has_own_up) {
    warnings->push_back("setting up has no effect: data sets of this flavor say what is up");
  }
  if (wanted.box.has_value())
    placement = WithBox(*wanted.box, listed.origin, geometry->box, placement);
  if (wanted.n_boxes > 0) geometry->n_levels = wanted.n_boxes;
  geometry->step = geometry->box.Diagonal() / kStepsPerDiagonal;
  geometry->cone = geometry->n_levels > 1 ? kCone : 0;
  geometry->frame = ToSceneFrame(placement);
  geometry->frame.origin = listed.origin;
  return placement;
}

}  // namespace nerf
