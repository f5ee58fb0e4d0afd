#include "engine/export/splats/model_splats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "engine/base/philox.h"
#include "engine/export/mesh/surface_points.h"
#include "engine/methods/splats/fit_splats.h"
#include "engine/methods/splats/harmonics.h"
#include "engine/views/path/spline.h"

namespace nerf {
namespace {

constexpr double kMaxSide = 800;        // pixels of a view
constexpr size_t kMaxCameras = 150;     // evenly chosen
constexpr size_t kMeasureEvery = 8;     // of the views between cameras, one is kept to measure by
constexpr float kMinTurn = 0.5f;        // cosine, of cameras that a view lies between
constexpr double kMaxPixels = 64e6;     // of all views
constexpr size_t kMaxSeen = 4'000'000;  // pixels that splats are drawn from
constexpr uint64_t kSeed = 1;

// Of a view that places splats: pixels that show something, beside others of about the same depth.
constexpr int kMinSeenOpacity = 128;  // of 255
constexpr float kMaxDepthStep = 0.05f;

constexpr double kSplatsPerPixel = 4;  // of what a view shows
// Of a splat at the start: its standard deviation in distances from the next one, and its opacity.
constexpr float kFirstScale = 0.5f, kFirstOpacity = 0.5f;
constexpr float kWidth = 0.2f;  // SplatCloud::widths, in pixels of the view that placed it

// Steps of views of so many pixels or more; of smaller ones there is less to find.
constexpr double kSteps = 2000, kPixelsOfSteps = 20'000;

// For each camera the one halfway to the nearest other that looks about the same way.
std::vector<Camera> CamerasBetween(std::span<const Camera> cameras) {
  std::vector<Camera> made;
  for (const Camera& camera : cameras) {
    const Mat34& pose = camera.camera_to_world;
    const Mat34* nearest = nullptr;
    float least = INFINITY;
    for (const Camera& other : cameras) {
      const Mat34& other_pose = other.camera_to_world;
      const float turn = Dot(Normalized(pose.Column(2)), Normalized(other_pose.Column(2)));
      const float distance = Norm(pose.Column(3) - other_pose.Column(3)) * (2 - turn);
      if (turn < kMinTurn || distance >= least || !(distance > 0)) continue;
      least = distance;
      nearest = &other_pose;
    }
    if (nearest == nullptr) continue;
    Camera between = camera;
    Mat34& halfway = between.camera_to_world;
    SetRotation(Slerp(QuaternionOf(pose), QuaternionOf(*nearest), 0.5f), &halfway);
    for (int row = 0; row < 3; ++row)
      halfway.m[row][3] = 0.5f * (pose.m[row][3] + nearest->m[row][3]);
    made.push_back(between);
  }
  return made;
}

// Views of the model: those to fit to, then those to measure by.
struct ViewsToSee {
  std::vector<Camera> fitted, measured;
};

ViewsToSee ViewsOf(std::span<const Camera> cameras) {
  ViewsToSee views;
  const size_t n = std::min(cameras.size(), kMaxCameras);
  const double side = std::min(kMaxSide, std::sqrt(kMaxPixels / (2.0 * static_cast<double>(n))));
  for (size_t i = 0; i < n; ++i) {
    views.fitted.push_back(PinholeIn(cameras[i * cameras.size() / n], static_cast<int>(side)));
  }
  const std::vector<Camera> between = CamerasBetween(views.fitted);
  for (size_t i = 0; i < between.size(); ++i)
    (i % kMeasureEvery == kMeasureEvery / 2 ? views.measured : views.fitted).push_back(between[i]);
  return views;
}

uint8_t ByteOf(float value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0f, 1.0f) * 255));
}

SplatView SplatViewOf(const Camera& camera, const RenderedView& rendered) {
  SplatView view;
  view.camera = camera;
  view.rgba.reserve(4 * rendered.colors.size());
  for (size_t i = 0; i < rendered.colors.size(); ++i) {
    const Vec3 color = rendered.colors[i];
    for (const float value : {color.x, color.y, color.z, rendered.opacities[i]})
      view.rgba.push_back(ByteOf(value));
  }
  return view;
}

// A pixel that shows a surface.
struct SeenPixel {
  const SplatView* view;
  uint32_t x, y;
  float depth;  // along its ray

  const uint8_t* rgba() const {
    return view->rgba.data() + 4 * (static_cast<size_t>(y) * view->camera.width + x);
  }
};

// Pixels that show surfaces: how many there are, and each so many-th of them.
class SeenPixels {
 public:
  explicit SeenPixels(size_t every) : every_(every) {}

  void Add(const SplatView& view, const std::vector<float>& depths) {
    const auto width = static_cast<uint32_t>(view.camera.width);
    const auto height = static_cast<uint32_t>(view.camera.height);
    for (uint32_t y = 1; y + 1 < height; ++y) {
      for (uint32_t x = 1; x + 1 < width; ++x) {
        const size_t pixel = static_cast<size_t>(y) * width + x;
        const SeenPixel at{&view, x, y, depths[pixel]};
        if (at.rgba()[3] < kMinSeenOpacity || !(at.depth > 0)) continue;
        float most = 0;  // at an edge, where a mean of depths lies on no surface
        for (const size_t beside : {pixel - 1, pixel + 1, pixel - width, pixel + width})
          most = std::max(most, std::abs(depths[beside] - at.depth));
        if (most > kMaxDepthStep * at.depth) continue;
        if (n_seen_++ % every_ == 0) kept_.push_back(at);
      }
    }
  }

  size_t n_seen() const { return n_seen_; }
  const std::vector<SeenPixel>& kept() const { return kept_; }

 private:
  const size_t every_;
  size_t n_seen_ = 0;
  std::vector<SeenPixel> kept_;
};

// n splats on pixels that are drawn at random.
SplatCloud PlacedSplats(const std::vector<SeenPixel>& seen, size_t n, int degree,
                        double pixels_per_view) {
  SplatCloud cloud;
  cloud.degree = degree;
  cloud.numbers.resize(n * static_cast<size_t>(cloud.row_size()));
  cloud.widths.resize(n);
  // Half of all are on the side that a view shows.
  const auto spacing =
      static_cast<float>(std::sqrt(pixels_per_view / (0.5 * static_cast<double>(n))));
  for (size_t i = 0; i < n; ++i) {
    const auto words = RandomWords(kSeed, RandomUse::kInit, 0, static_cast<uint32_t>(i));
    const SeenPixel& at = seen[UniformIndex64(words[0], words[1], seen.size())];
    const Ray ray = CameraRay(at.view->camera, static_cast<float>(at.x) + UniformFloat(words[2]),
                              static_cast<float>(at.y) + UniformFloat(words[3]));
    const Vec3 position = ray.origin + ray.direction * at.depth;
    const float pixel_width = at.depth / at.view->camera.fl_x;
    float* const row = cloud.row(i);
    for (int axis = 0; axis < 3; ++axis) {
      row[SplatCloud::kPosition + axis] = position[axis];
      row[SplatCloud::kLogScale + axis] = std::log(kFirstScale * spacing * pixel_width);
      row[SplatCloud::kColor + axis] =
          (static_cast<float>(at.rgba()[axis]) / 255 - 0.5f) / kFirstSplatHarmonic;
    }
    row[SplatCloud::kRotation] = 1;
    row[SplatCloud::kOpacity] = OpacityNumber(kFirstOpacity);
    cloud.widths[i] = kWidth * pixel_width;
  }
  return cloud;
}

float MedianDepth(const std::vector<SeenPixel>& seen) {
  std::vector<float> depths;
  for (const SeenPixel& at : seen) depths.push_back(at.depth);
  const auto middle = depths.begin() + static_cast<std::ptrdiff_t>(depths.size() / 2);
  std::nth_element(depths.begin(), middle, depths.end());
  return *middle;
}

}  // namespace

absl::StatusOr<ModelSplats> MakeModelSplats(
    const TrainedModel& model, std::span<const Camera> cameras, const ModelSplatsOptions& options,
    ThreadPool* pool, const std::stop_token& stop,
    const std::function<void(std::string_view step, double share)>& progress) {
  const ViewsToSee cameras_to_see = ViewsOf(cameras);
  const size_t n_fitted = cameras_to_see.fitted.size();
  const size_t n_views = n_fitted + cameras_to_see.measured.size();
  std::vector<SplatView> views;
  views.reserve(n_views);  // pixels point into it
  double n_pixels = 0;
  for (const Camera& camera : cameras_to_see.fitted)
    n_pixels += static_cast<double>(camera.width) * camera.height;
  SeenPixels seen(1 + static_cast<size_t>(n_pixels) / kMaxSeen);
  for (size_t i = 0; i < n_views; ++i) {
    const Camera& camera =
        i < n_fitted ? cameras_to_see.fitted[i] : cameras_to_see.measured[i - n_fitted];
    ViewRender view(model, options.near, camera, options.render(camera));
    if (!view.Advance(pool, nullptr, stop))
      return absl::CancelledError("the export was interrupted");
    const RenderedView rendered = view.TakeView();
    views.push_back(SplatViewOf(camera, rendered));
    if (i < n_fitted) seen.Add(views.back(), rendered.depths);
    progress("views", static_cast<double>(views.size()) / static_cast<double>(n_views));
  }
  if (seen.kept().empty()) {
    return absl::InvalidArgumentError("no splat: the model's views show nothing but background");
  }
  const auto per_view = [&](double n) { return n / static_cast<double>(n_fitted); };
  const double seen_per_view = per_view(static_cast<double>(seen.n_seen()));
  const auto wanted = static_cast<size_t>(std::ceil(kSplatsPerPixel * seen_per_view));
  ModelSplats made;
  made.n_views = static_cast<int>(n_fitted);
  made.cloud = PlacedSplats(seen.kept(), std::min({options.max_splats, wanted, seen.n_seen()}),
                            options.degree, seen_per_view);
  SplatFitOptions fit;
  fit.n_steps =
      static_cast<int>(kSteps * std::min(1.0, std::sqrt(per_view(n_pixels) / kPixelsOfSteps)));
  fit.seed = kSeed;
  fit.extent = MedianDepth(seen.kept());
  const std::span<const SplatView> all = views;
  FitSplats(
      all.first(n_fitted), fit, pool, stop,
      [&](int n_steps) { progress("splats", n_steps / static_cast<double>(fit.n_steps)); },
      &made.cloud);
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  if (n_views > n_fitted) made.psnr = SplatPsnr(made.cloud, all.subspan(n_fitted), pool);
  return made;
}

}  // namespace nerf
