#include "engine/export/mesh/surface_points.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

namespace nerf {
namespace {

constexpr float kMinOpacity = 0.5f;      // of a pixel that shows a surface
constexpr int kMinAgreeing = 2;          // other views
constexpr float kMaxDepthError = 0.01f;  // of the distance
constexpr float kMaxSlope = 0.1f;        // cosine of the angle between normal and view, at least

struct DepthView {
  Camera camera;
  RenderedView rendered;

  size_t PixelAt(int x, int y) const { return static_cast<size_t>(y) * camera.width + x; }
  bool HasSurface(size_t pixel) const {
    return rendered.opacities[pixel] >= kMinOpacity && rendered.depths[pixel] > 0;
  }
  // The point that a pixel shows.
  std::optional<Vec3> PointAt(int x, int y) const {
    if (x < 0 || y < 0 || x >= camera.width || y >= camera.height) return std::nullopt;
    const size_t pixel = PixelAt(x, y);
    if (!HasSurface(pixel)) return std::nullopt;
    const Ray ray = CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
    return ray.origin + ray.direction * rendered.depths[pixel];
  }
};

// The normal at a pixel, from the points of its neighbors.
std::optional<Vec3> NormalAt(const DepthView& view, int x, int y, Vec3 point) {
  const auto slope = [&](int dx, int dy) -> std::optional<Vec3> {
    const std::optional<Vec3> after = view.PointAt(x + dx, y + dy);
    const std::optional<Vec3> before = view.PointAt(x - dx, y - dy);
    if (!after.has_value() || !before.has_value()) return std::nullopt;
    return *after - *before;
  };
  const std::optional<Vec3> right = slope(1, 0), down = slope(0, 1);
  if (!right.has_value() || !down.has_value()) return std::nullopt;
  const Vec3 normal = Cross(*down, *right);
  const float length = Norm(normal);
  if (!(length > 0)) return std::nullopt;
  const Vec3 back = Normalized(view.camera.camera_to_world.Column(3) - point);
  const float cosine = Dot(normal, back) / length;
  // Depths beside each other that belong to different things make steep slopes.
  if (!(cosine > kMaxSlope)) return std::nullopt;
  return normal * (1 / length);
}

// Whether the view's depth where it sees the point is the point's distance.
bool Agrees(const DepthView& view, Vec3 point, float tolerance) {
  const Mat34& pose = view.camera.camera_to_world;
  const Vec3 offset = point - pose.Column(3);
  const float along = -Dot(offset, pose.Column(2));
  if (!(along > 0)) return false;
  const float u = view.camera.cx + view.camera.fl_x * Dot(offset, pose.Column(0)) / along;
  const float v = view.camera.cy - view.camera.fl_y * Dot(offset, pose.Column(1)) / along;
  if (!(u >= 0 && v >= 0 && u < static_cast<float>(view.camera.width) &&
        v < static_cast<float>(view.camera.height))) {
    return false;
  }
  const size_t pixel = view.PixelAt(static_cast<int>(u), static_cast<int>(v));
  const float distance = Norm(offset);
  return view.HasSurface(pixel) && std::abs(view.rendered.depths[pixel] - distance) <=
                                       std::max(tolerance, kMaxDepthError * distance);
}

// Points of a cell, added up.
struct PointSum {
  Vec3 position, normal, color;
  int n = 0;
};

// Of the box's frame.
float CellsPerUnit(const SurfacePointOptions& options) {
  return 1 / (options.cell * Norm(options.to_box.ApplyToDirection({1, 0, 0})));
}

// The cameras of the views that are rendered.
std::vector<Camera> PointCameras(std::span<const Camera> cameras,
                                 const SurfacePointOptions& options) {
  const size_t n_views = std::min(cameras.size(), static_cast<size_t>(options.max_views));
  std::vector<Camera> chosen;
  for (size_t i = 0; i < n_views; ++i)
    chosen.push_back(PinholeIn(cameras[i * cameras.size() / n_views], kMaxPointViewSide));
  return chosen;
}

// Sums of points by the cells of a grid, in the order of their first points.
class CellSums {
 public:
  explicit CellSums(const SurfacePointOptions& options)
      : options_(options), cells_per_unit_(CellsPerUnit(options)) {}

  void Add(const SurfacePoint& point) {
    const Vec3 place = options_.to_box.ApplyToPoint(point.position);
    if (!options_.box.Contains(place)) return;
    uint64_t key = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const float along = (place[axis] - options_.box.min[axis]) * cells_per_unit_;
      key = key << 21 | static_cast<uint64_t>(std::clamp(along, 0.0f, 2097151.0f));
    }
    const auto [found, is_new] = index_.try_emplace(key, sums_.size());
    if (is_new) sums_.emplace_back();
    PointSum& sum = sums_[found->second];
    sum.position = sum.position + point.position;
    sum.normal = sum.normal + point.normal;
    sum.color = sum.color + point.color;
    ++sum.n;
  }

  std::vector<SurfacePoint> Means() const {
    std::vector<SurfacePoint> points;
    for (const PointSum& sum : sums_) {
      const float length = Norm(sum.normal);
      if (!(length > 0)) continue;
      const float share = 1.0f / static_cast<float>(sum.n);
      points.push_back({sum.position * share, sum.normal * (1 / length), sum.color * share});
    }
    return points;
  }

 private:
  const SurfacePointOptions& options_;
  const float cells_per_unit_;
  std::unordered_map<uint64_t, size_t> index_;
  std::vector<PointSum> sums_;
};

// The points of a view that enough of the others agree on.
std::vector<SurfacePoint> AgreedPoints(const std::vector<DepthView>& views, size_t index,
                                       float tolerance) {
  const DepthView& view = views[index];
  const int wanted = std::min(kMinAgreeing, static_cast<int>(views.size()) - 1);
  std::vector<SurfacePoint> points;
  for (int y = 0; y < view.camera.height; ++y) {
    for (int x = 0; x < view.camera.width; ++x) {
      const std::optional<Vec3> point = view.PointAt(x, y);
      if (!point.has_value()) continue;
      const std::optional<Vec3> normal = NormalAt(view, x, y, *point);
      if (!normal.has_value()) continue;
      int n_agreeing = 0;
      for (size_t other = 0; other < views.size() && n_agreeing < wanted; ++other) {
        n_agreeing += other != index && Agrees(views[other], *point, tolerance);
      }
      if (n_agreeing < wanted) continue;
      points.push_back({*point, *normal, view.rendered.colors[view.PixelAt(x, y)]});
    }
  }
  return points;
}

}  // namespace

Camera PinholeIn(const Camera& camera, int max_side) {
  const float shrink =
      std::min(1.0f, static_cast<float>(max_side) /
                         static_cast<float>(std::max(camera.width, camera.height)));
  Camera pinhole =
      Resized(camera, std::max(1, static_cast<int>(static_cast<float>(camera.width) * shrink)),
              std::max(1, static_cast<int>(static_cast<float>(camera.height) * shrink)));
  pinhole.lens = LensModel::kPinhole;
  pinhole.k1 = pinhole.k2 = pinhole.k3 = pinhole.k4 = pinhole.k5 = pinhole.k6 = 0;
  pinhole.p1 = pinhole.p2 = 0;
  // What bends straight lines shows more than a pinhole can: its middle 90 degrees.
  if (camera.lens == LensModel::kFisheye || camera.lens == LensModel::kEquirectangular) {
    pinhole.width = pinhole.height = std::min(pinhole.width, pinhole.height);
    pinhole.cx = pinhole.cy = pinhole.fl_x = pinhole.fl_y =
        0.5f * static_cast<float>(pinhole.width);
  }
  return pinhole;
}

std::vector<Camera> PinholesIn(const Camera& camera, int max_side) {
  const Camera front = PinholeIn(camera, max_side);
  if (camera.lens != LensModel::kEquirectangular) return {front};
  const Vec3 right = front.camera_to_world.Column(0), up = front.camera_to_world.Column(1),
             back = front.camera_to_world.Column(2);
  const Vec3 faces[][3] = {
      {right, up, back},         {back, up, right * -1.0f}, {right * -1.0f, up, back * -1.0f},
      {back * -1.0f, up, right}, {right, back, up * -1.0f}, {right, back * -1.0f, up}};
  std::vector<Camera> pinholes;
  for (const auto& axes : faces) {
    Camera& face = pinholes.emplace_back(front);
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column)
        face.camera_to_world.m[row][column] = axes[column][row];
    }
  }
  return pinholes;
}

double MaxSurfacePoints(std::span<const Camera> cameras, const SurfacePointOptions& options) {
  double n_pixels = 0, n_cells = 1;
  for (const Camera& camera : PointCameras(cameras, options))
    n_pixels += static_cast<double>(camera.width) * camera.height;
  for (int axis = 0; axis < 3; ++axis)
    n_cells *= std::floor(double{options.box.Size()[axis]} * CellsPerUnit(options)) + 2;
  return std::min(n_pixels, n_cells);
}

std::vector<SurfacePoint> FindSurfacePoints(const TrainedModel& model,
                                            std::span<const Camera> cameras,
                                            const SurfacePointOptions& options, ThreadPool* pool,
                                            const std::stop_token& stop,
                                            const std::function<void(int n_views)>& after_view) {
  std::vector<DepthView> views;
  for (const Camera& camera : PointCameras(cameras, options)) {
    ViewRender render(model, options.near, camera, options.render);
    if (!render.Advance(pool, nullptr, stop)) return {};
    views.push_back({camera, render.TakeView()});
    after_view(static_cast<int>(views.size()));
  }
  std::vector<std::vector<SurfacePoint>> found(views.size());
  pool->ParallelFor(static_cast<int64_t>(views.size()), [&](int64_t index, int /*thread*/) {
    if (stop.stop_requested()) return;
    found[index] = AgreedPoints(views, static_cast<size_t>(index), 2 * options.cell);
  });
  if (stop.stop_requested()) return {};
  CellSums sums(options);
  for (const std::vector<SurfacePoint>& points : found) {
    for (const SurfacePoint& point : points) sums.Add(point);
  }
  return sums.Means();
}

}  // namespace nerf
