#include "engine/program/session/picture_limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/config/step_size.h"
#include "engine/base/config/view_limits.h"
#include "engine/scene/view_frustum.h"
#include "engine/train/empty_cells.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxSpacings = 1000;        // each is compared with all cameras
constexpr float kMinCosineOfOneSide = 0.5f;  // between the cameras' axes and their mean
constexpr float kNearPerSpacing = 0.5f, kMaxNearPerHalfSide = 0.3f;

// 0 without values.
template <typename T>
T MedianOf(std::vector<T> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double SamplesOfBudget(const TrainConfig& config, const DeviceFacts& device) {
  switch (config.budget.kind) {
    case BudgetKind::kSamples:
      return config.budget.amount;
    case BudgetKind::kSteps:
      return config.budget.amount * StepSizeOf(config).target_samples;
    case BudgetKind::kSeconds:
      break;
  }
  return config.budget.amount * UsualSamplesPerSecond(ClassOf(device));
}

double PixelsAlongBox(const SceneDescription& description) {
  const Aabb& box = description.geometry.box;
  const float side = box.Size().x;
  const bool faces_one_way = FacesOneWay(description);
  std::vector<double> pixels;
  for (const ViewDescription& view : description.train) {
    const Vec3 from = view.camera.camera_to_world.Column(3);
    // Cameras that look past the box: the middle, by disparity, of what they show.
    const float distance = faces_one_way ? 2 / (1 / description.nearest + 1 / description.farthest)
                                         : std::max(Norm(from - box.Center()), side / 2);
    pixels.push_back(static_cast<double>(view.camera.fl_x) * side / distance);
  }
  return MedianOf(std::move(pixels));
}

double PixelsAlongFrustum(const SceneDescription& description) {
  const Frustum& frustum = description.geometry.frustum;
  if (frustum.empty()) return 0;
  std::vector<double> pixels;
  for (const ViewDescription& view : description.train)
    pixels.push_back(2.0 * frustum.slope * view.camera.fl_x);
  return MedianOf(std::move(pixels));
}

float PanoramaSpacing(const SceneDescription& description) {
  std::vector<Vec3> places;
  for (const ViewDescription& view : description.train) {
    if (view.camera.lens == LensModel::kEquirectangular)
      places.push_back(view.camera.camera_to_world.Column(3));
  }
  if (places.size() < 2 || 2 * places.size() <= description.train.size()) return 0;
  std::vector<float> distances;
  const size_t stride = (places.size() + kMaxSpacings - 1) / kMaxSpacings;
  for (size_t i = 0; i < places.size(); i += stride) {
    float nearest = std::numeric_limits<float>::max();
    for (size_t j = 0; j < places.size(); ++j)
      if (i != j) nearest = std::min(nearest, Norm(places[i] - places[j]));
    distances.push_back(nearest);
  }
  return MedianOf(std::move(distances));
}

bool FacesOneWay(const SceneDescription& description) {
  if (!(description.nearest > 0) || !(description.farthest > description.nearest)) return false;
  Vec3 axes, places;  // sums over the cameras
  for (const ViewDescription& view : description.train) {
    axes = axes + view.camera.camera_to_world.Column(2);
    places = places + view.camera.camera_to_world.Column(3);
  }
  const Vec3 middle = places * (1 / static_cast<float>(description.train.size()));
  return std::all_of(description.train.begin(), description.train.end(), [&](const auto& view) {
    const Mat34& pose = view.camera.camera_to_world;
    return Dot(pose.Column(2), axes) > kMinCosineOfOneSide * Norm(axes) &&
           Norm(pose.Column(3) - middle) <= kNearOfNearest * description.nearest;
  });
}

float NearOfViews(const SceneDescription& description) {
  if (FacesOneWay(description)) return kNearOfNearest * description.nearest;
  return PanoramaNear(description);
}

float PanoramaNear(const SceneDescription& description) {
  if (!description.points.empty() || !description.held_out_points.empty()) return 0;
  const SceneGeometry& geometry = description.geometry;
  const float most = kMaxNearPerHalfSide * geometry.box.Size().x / 2;
  const float near = std::min(kNearPerSpacing * PanoramaSpacing(description), most);
  return near > geometry.near ? near : 0;
}

SceneFacts FactsOfScene(const SceneDescription& description, double n_samples) {
  const std::vector<ViewDescription>& views = description.train;
  double n_pixels = 0;
  for (const ViewDescription& view : views)
    n_pixels += static_cast<double>(view.camera.width) * view.camera.height;
  const auto tells = [&](const ViewDescription& view) {
    return TellsEmptyCells(view.camera, views[0].camera);
  };
  return {.has_alpha = description.has_alpha,
          .may_have_hull = description.has_alpha && description.geometry.n_levels == 1 &&
                           std::all_of(views.begin(), views.end(), tells),
          .pixels_along_box = PixelsAlongBox(description),
          .n_pixels = n_pixels,
          .n_samples = n_samples,
          .step = description.geometry.step,
          .cone = description.geometry.cone,
          .near = NearOfViews(description),
          .faces_one_way = FacesOneWay(description),
          .has_frustum = !description.geometry.frustum.empty(),
          .pixels_along_frustum = PixelsAlongFrustum(description)};
}

int MaxSideOf(const TrainConfig& config, const SceneDescription& description,
              const DeviceFacts& device) {
  if (config.max_side >= 0) return config.max_side;
  double largest = 0;
  int side = 0;
  for (const ViewDescription& view : description.train) {
    const double area = static_cast<double>(view.camera.width) * view.camera.height;
    if (area <= largest) continue;
    largest = area;
    side = std::max(view.camera.width, view.camera.height);
  }
  const auto n_views = static_cast<double>(std::max<size_t>(description.train.size(), 1));
  const double limit =
      std::max(kMaxDefaultViewPixels, kPixelsPerSample * SamplesOfBudget(config, device) / n_views);
  if (largest <= limit) return 0;
  return std::max(1, static_cast<int>(side * std::sqrt(limit / largest)));
}

int SideThatFits(const std::vector<ViewDescription>& views, double n_bytes) {
  constexpr int kLeast = 64, kMost = 1 << 16;
  const auto bytes_at = [&](int side) {
    double bytes = 0;
    for (const ViewDescription& view : views) {
      const double shrink =
          std::min(1.0, side / double(std::max(view.camera.width, view.camera.height)));
      bytes += static_cast<double>(view.DecodedBytes()) * shrink * shrink;
    }
    return bytes;
  };
  int fits = 0;
  for (int low = kLeast, high = kMost; low <= high;) {
    const int side = (low + high) / 2;
    if (bytes_at(side) <= n_bytes) {
      fits = side;
      low = side + 1;
    } else {
      high = side - 1;
    }
  }
  return fits;
}

std::string ReductionText(const Reduction& reduction) {
  if (reduction.from.width == 0) return "";
  return fmt::format("{}x{} pixels reduced to {}x{}", reduction.from.width, reduction.from.height,
                     reduction.to.width, reduction.to.height);
}

}  // namespace nerf
