#include "engine/export/splats/model_splats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/philox.h"
#include "engine/export/mesh/surface_points.h"
#include "engine/export/splats/photograph_view.h"
#include "engine/methods/splats/fit_splats.h"
#include "engine/methods/splats/harmonics.h"
#include "engine/views/path/spline.h"

namespace nerf {
namespace {

constexpr double kMaxSide = 800;     // pixels of a view
constexpr size_t kMaxCameras = 150;  // evenly chosen; a panorama has six
// Of the views between cameras and the nearest ones, one in eight is kept to measure by.
constexpr size_t kMeasureEvery = 8, kMeasureFirst = 2;
constexpr size_t kFewCameras = 60, kMaxNearest = 4;  // of fewer, more views lie between
constexpr float kMinTurn = 0.5f;                     // cosine, of cameras that a view lies between
constexpr double kMaxPixels = 64e6;                  // of all views
constexpr size_t kMaxTestViews = 50;                 // evenly chosen
constexpr size_t kMaxSeen = 4'000'000;               // pixels that splats are drawn from
constexpr uint64_t kSeed = 1;

// Of a view that places splats: pixels that show something, beside others of about the same depth.
constexpr float kMinSeenOpacity = 0.5f;
constexpr float kMaxDepthStep = 0.05f;

// Distance of the backdrop, in distances of what is farthest.
constexpr float kBackdrop = 3;

constexpr double kSplatsPerPixel = 4;  // of what a view shows
// Of a splat at the start: its standard deviation in distances from the next one, and its opacity.
constexpr float kFirstScale = 0.5f, kFirstOpacity = 0.5f;
constexpr float kWidth = 0.2f;  // SplatCloud::widths, in pixels of the view that placed it

// Steps of views of so many pixels or more; of smaller ones there is less to find.
constexpr double kSteps = 2000, kPixelsOfSteps = 20'000;

// The camera halfway between two, with the first one's lens.
Camera Halfway(const Camera& a, const Camera& b) {
  Camera between = a;
  Mat34& pose = between.camera_to_world;
  SetRotation(Slerp(QuaternionOf(a.camera_to_world), QuaternionOf(b.camera_to_world), 0.5f), &pose);
  for (int row = 0; row < 3; ++row)
    pose.m[row][3] = 0.5f * (a.camera_to_world.m[row][3] + b.camera_to_world.m[row][3]);
  return between;
}

// Numbers of the other cameras that look about the same way, the nearest first.
std::vector<size_t> NearestTo(size_t camera, std::span<const Camera> cameras) {
  const Mat34& pose = cameras[camera].camera_to_world;
  std::vector<std::pair<float, size_t>> others;  // by distance
  for (size_t i = 0; i < cameras.size(); ++i) {
    const Mat34& other = cameras[i].camera_to_world;
    const float turn = Dot(Normalized(pose.Column(2)), Normalized(other.Column(2)));
    const float distance = Norm(pose.Column(3) - other.Column(3)) * (2 - turn);
    if (turn >= kMinTurn && distance > 0) others.emplace_back(distance, i);
  }
  std::sort(others.begin(), others.end());
  std::vector<size_t> numbers;
  for (const auto& [distance, number] : others) numbers.push_back(number);
  return numbers;
}

// Views of the model: those to fit to, then those to measure by.
struct ViewsToSee {
  std::vector<Camera> fitted, measured;
  // The cameras that the first of `fitted` have their places from.
  std::vector<size_t> sources;
  double pixels = 0;  // of a camera's view, mean
};

ViewsToSee ViewsOf(std::span<const Camera> cameras) {
  ViewsToSee views;
  const bool has_panoramas = std::ranges::any_of(
      cameras, [](const Camera& camera) { return camera.lens == LensModel::kEquirectangular; });
  const size_t faces = has_panoramas ? 6 : 1;
  const size_t n = std::min(cameras.size(), kMaxCameras / faces);
  const double side =
      std::min(kMaxSide, std::sqrt(kMaxPixels / (2.0 * static_cast<double>(n * faces))));
  for (size_t i = 0; i < n; ++i) {
    const size_t source = i * cameras.size() / n;
    for (const Camera& made : PinholesIn(cameras[source], static_cast<int>(side))) {
      views.fitted.push_back(made);
      views.sources.push_back(source);
    }
  }
  const std::vector<Camera> seen = views.fitted;
  for (const Camera& camera : seen)
    views.pixels += static_cast<double>(camera.width) * camera.height / seen.size();
  // Between each camera and its nearest ones; no view twice.
  const size_t n_nearest = std::clamp<size_t>(kFewCameras / seen.size(), 1, kMaxNearest);
  std::set<std::pair<size_t, size_t>> pairs;
  size_t n_between = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    const std::vector<size_t> nearest = NearestTo(i, seen);
    for (size_t k = 0; k < std::min(n_nearest, nearest.size()); ++k) {
      if (!pairs.insert(std::minmax(i, nearest[k])).second) continue;
      const Camera between = Halfway(seen[i], seen[nearest[k]]);
      if (k > 0) {  // more directions matter more than more pixels
        views.fitted.push_back(Resized(between, (between.width + 1) / 2, (between.height + 1) / 2));
      } else if (n_between++ % kMeasureEvery == kMeasureFirst) {
        views.measured.push_back(between);
      } else {
        views.fitted.push_back(between);
      }
    }
  }
  return views;
}

uint8_t ByteOf(float value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0f, 1.0f) * 255));
}

SplatView SplatViewOf(const Camera& camera, const RenderedView& rendered, bool has_backdrop) {
  SplatView view;
  view.camera = camera;
  view.rgba.reserve(4 * rendered.colors.size());
  for (size_t i = 0; i < rendered.colors.size(); ++i) {
    const Vec3 color = rendered.colors[i];
    const float opacity = has_backdrop ? 1 : rendered.opacities[i];
    for (const float value : {color.x, color.y, color.z, opacity})
      view.rgba.push_back(ByteOf(value));
  }
  return view;
}

// A pixel that shows a surface or the backdrop.
struct SeenPixel {
  const SplatView* view;
  uint32_t x, y;
  float depth;  // along its ray; 0: the backdrop

  const uint8_t* rgba() const {
    return view->rgba.data() + 4 * (static_cast<size_t>(y) * view->camera.width + x);
  }
};

// Pixels that show something: how many there are, and each so many-th of them.
class SeenPixels {
 public:
  SeenPixels(size_t every, bool has_backdrop) : every_(every), has_backdrop_(has_backdrop) {}

  void Add(const SplatView& view, const RenderedView& rendered) {
    const std::vector<float>& depths = rendered.depths;
    const auto width = static_cast<uint32_t>(view.camera.width);
    const auto height = static_cast<uint32_t>(view.camera.height);
    for (uint32_t y = 1; y + 1 < height; ++y) {
      for (uint32_t x = 1; x + 1 < width; ++x) {
        const size_t pixel = static_cast<size_t>(y) * width + x;
        const bool is_surface = rendered.opacities[pixel] >= kMinSeenOpacity && depths[pixel] > 0;
        if (!is_surface && !has_backdrop_) continue;
        const float depth = is_surface ? depths[pixel] : 0;
        float most = 0;  // at an edge, where a mean of depths lies on no surface
        for (const size_t beside : {pixel - 1, pixel + 1, pixel - width, pixel + width})
          most = std::max(most, std::abs(depths[beside] - depth));
        if (is_surface && most > kMaxDepthStep * depth) continue;
        if (n_seen_++ % every_ == 0) kept_.push_back({&view, x, y, depth});
      }
    }
  }

  size_t n_seen() const { return n_seen_; }
  const std::vector<SeenPixel>& kept() const { return kept_; }

 private:
  const size_t every_;
  const bool has_backdrop_;
  size_t n_seen_ = 0;
  std::vector<SeenPixel> kept_;
};

// Of the surfaces that are seen, the largest; 0 where there is none.
float LargestDepth(const std::vector<SeenPixel>& seen) {
  float largest = 0;
  for (const SeenPixel& at : seen) largest = std::max(largest, at.depth);
  return largest;
}

// n splats on pixels that are drawn at random.
SplatCloud PlacedSplats(const std::vector<SeenPixel>& seen, size_t n, int degree,
                        double pixels_per_view, float backdrop) {
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
    const float depth = at.depth > 0 ? at.depth : backdrop;
    const Vec3 position = ray.origin + ray.direction * depth;
    const float pixel_width = depth / at.view->camera.fl_x;
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

// The model's view from a camera. Errors: Cancelled.
absl::StatusOr<RenderedView> ViewOf(const TrainedModel& model, const Camera& camera,
                                    const ModelSplatsOptions& options, ThreadPool* pool,
                                    const std::stop_token& stop) {
  ViewRender view(model, options.near, camera, options.render(camera));
  if (!view.Advance(pool, nullptr, stop)) return absl::CancelledError("the export was interrupted");
  return view.TakeView();
}

// Compares splats and model with the test photographs, at most kMaxTestViews.
absl::Status MeasureByPhotographs(const TrainedModel& model, const ModelSplatsOptions& options,
                                  ThreadPool* pool, const std::stop_token& stop,
                                  const ProgressOfSplats& progress, ModelSplats* made) {
  const size_t n = std::min(options.test.size(), kMaxTestViews);
  double splats = 0, field = 0;
  for (size_t i = 0; i < n; ++i) {
    progress("test views", static_cast<double>(i) / static_cast<double>(n));
    const View& test = options.test[i * options.test.size() / n];
    if (!CanShowPhotograph(test.camera)) continue;
    const Camera camera = PinholeIn(test.camera, static_cast<int>(kMaxSide));
    NERF_ASSIGN_OR_RETURN(const RenderedView rendered, ViewOf(model, camera, options, pool, stop));
    const SplatView of_model = SplatViewOf(camera, rendered, options.has_backdrop);
    SplatView photograph = of_model;
    ShowPhotograph(test.camera, test.image, options.alpha_is_mask, &photograph);
    splats += SplatPsnr(made->cloud, std::span(&photograph, 1), pool);
    field += ViewPsnr(of_model, photograph);
    ++made->n_test;
  }
  if (made->n_test == 0) return absl::OkStatus();
  made->test_psnr = splats / made->n_test;
  made->model_test_psnr = field / made->n_test;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSplats> MakeModelSplats(const TrainedModel& model,
                                            std::span<const Camera> cameras,
                                            const ModelSplatsOptions& options, ThreadPool* pool,
                                            const std::stop_token& stop,
                                            const ProgressOfSplats& progress) {
  const ViewsToSee cameras_to_see = ViewsOf(cameras);
  const size_t n_fitted = cameras_to_see.fitted.size();
  const size_t n_views = n_fitted + cameras_to_see.measured.size();
  std::vector<SplatView> views;
  views.reserve(n_views);  // pixels point into it
  double n_pixels = 0;
  int n_photographs = 0;
  for (const Camera& camera : cameras_to_see.fitted)
    n_pixels += static_cast<double>(camera.width) * camera.height;
  SeenPixels seen(1 + static_cast<size_t>(n_pixels) / kMaxSeen, options.has_backdrop);
  for (size_t i = 0; i < n_views; ++i) {
    const Camera& camera =
        i < n_fitted ? cameras_to_see.fitted[i] : cameras_to_see.measured[i - n_fitted];
    NERF_ASSIGN_OR_RETURN(const RenderedView rendered, ViewOf(model, camera, options, pool, stop));
    views.push_back(SplatViewOf(camera, rendered, options.has_backdrop));
    if (i < cameras_to_see.sources.size() && !options.photographs.empty()) {
      const size_t source = cameras_to_see.sources[i];
      const ImageU8* const photograph = options.photographs[source];
      if (photograph != nullptr && CanShowPhotograph(cameras[source])) {
        ShowPhotograph(cameras[source], *photograph, options.alpha_is_mask, &views.back());
        ++n_photographs;
      }
    }
    if (i < n_fitted) seen.Add(views.back(), rendered);
    progress("views", static_cast<double>(views.size()) / static_cast<double>(n_views));
  }
  const float largest_depth = LargestDepth(seen.kept());
  if (!(largest_depth > 0)) {
    return absl::InvalidArgumentError(
        "no splat: no pixel of the model's views has an opacity of 0.5 or more and a depth like "
        "its "
        "neighbors'");
  }
  const double seen_per_view =
      static_cast<double>(seen.n_seen()) / n_pixels * cameras_to_see.pixels;
  const auto wanted = static_cast<size_t>(std::ceil(kSplatsPerPixel * seen_per_view));
  ModelSplats made;
  made.n_views = static_cast<int>(n_fitted);
  made.n_photographs = n_photographs;
  made.cloud = PlacedSplats(seen.kept(), std::min({options.max_splats, wanted, seen.n_seen()}),
                            options.degree, seen_per_view, kBackdrop * largest_depth);
  SplatFitOptions fit;
  fit.n_steps =
      static_cast<int>(kSteps * std::min(1.0, std::sqrt(cameras_to_see.pixels / kPixelsOfSteps)));
  fit.seed = kSeed;
  const std::span<const SplatView> all = views;
  FitSplats(
      all.first(n_fitted), fit, pool, stop,
      [&](int n_steps) { progress("splats", n_steps / static_cast<double>(fit.n_steps)); },
      &made.cloud);
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  if (n_views > n_fitted) made.psnr = SplatPsnr(made.cloud, all.subspan(n_fitted), pool);
  NERF_RETURN_IF_ERROR(MeasureByPhotographs(model, options, pool, stop, progress, &made));
  return made;
}

}  // namespace nerf
