#include "engine/views/measure/scene_measures.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/median.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/views/measure/camera_alignment.h"
#include "engine/views/measure/color_alignment.h"
#include "engine/views/measure/image_metrics.h"
#include "engine/views/measure/photograph_matches.h"
#include "engine/views/measure/seen_points.h"

namespace nerf {
namespace {

constexpr double kSmallPixels = 20'000;   // of small pictures
constexpr double kAlignedPixels = 3'000;  // of those by which cameras are aligned
constexpr double kTinyPixels = 1'500;     // to find cameras that are far off
constexpr size_t kAlignedTest = 5, kAlignedTraining = 6;
constexpr int kFewViews = 3;   // that see a pixel: fewer are few
constexpr size_t kBeside = 6;  // photographs whose sharpness is compared

// n of `size` indices, evenly.
std::vector<size_t> Evenly(size_t size, size_t n) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < std::min(n, size); ++i) chosen.push_back(i * size / std::min(n, size));
  return chosen;
}

View Reduced(const View& view, double max_pixels) {
  const ReducedSize size = FitPixels(view.camera.width, view.camera.height, max_pixels);
  return {view.file, Resized(view.camera, size.width, size.height),
          AreaResized(view.image, size.width, size.height)};
}

// RGB on the background, as views are compared with.
ImageU8 Colors(const View& view, const EvaluationOptions& options) {
  return options.alpha_is_mask ? WithoutAlpha(view.image)
                               : CompositedOn(view.image, BackgroundColor(options.background));
}

std::vector<float> Gray(const ImageU8& colors) {
  std::vector<float> gray(colors.pixels.size() / 3);
  for (size_t i = 0; i < gray.size(); ++i) {
    const uint8_t* pixel = colors.pixels.data() + 3 * i;
    gray[i] = static_cast<float>(pixel[0] + 2 * pixel[1] + pixel[2]) / 1020;
  }
  return gray;
}

double Energy(const ImageU8& image, const ImageU8& coarser) {
  double sum = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const int u = std::min(x / 2, coarser.width - 1), v = std::min(y / 2, coarser.height - 1);
      const double difference = double{1} * image.Pixel(x, y)[1] - coarser.Pixel(u, v)[1];
      sum += difference * difference;
    }
  }
  return sum / (double{1} * image.width * image.height) + 1e-3;
}

ImageU8 Halved(const ImageU8& image) {
  return AreaResized(image, std::max(1, image.width / 2), std::max(1, image.height / 2));
}

// Energy of detail of one pixel over that of two pixels, dB.
double Detail(const ImageU8& colors) {
  const ImageU8 half = Halved(colors);
  return 10 * std::log10(Energy(colors, half) / Energy(half, Halved(half)));
}

// Detail of each view over the median of those beside it.
void CompareSharpness(std::span<const View* const> views, std::span<const double> details,
                      std::span<ViewMeasure> measures) {
  for (size_t i = 0; i < views.size(); ++i) {
    std::vector<std::pair<float, double>> beside;
    const Mat34& pose = views[i]->camera.camera_to_world;
    for (size_t k = 0; k < views.size(); ++k) {
      const Mat34& other = views[k]->camera.camera_to_world;
      if (k != i && Dot(pose.Column(2), other.Column(2)) > 0)
        beside.push_back({Norm(pose.Column(3) - other.Column(3)), details[k]});
    }
    std::sort(beside.begin(), beside.end());
    std::vector<double> values;
    for (size_t k = 0; k < std::min(kBeside, beside.size()); ++k)
      values.push_back(beside[k].second);
    measures[i].sharpness = details[i] - Median(std::move(values));
  }
}

class Measurer {
 public:
  Measurer(SceneRenderer* renderer, const EvaluationOptions& options, float distance,
           const std::stop_token& stop)
      : renderer_(renderer), options_(options), distance_(distance), stop_(stop) {}

  absl::StatusOr<ViewPicture> Render(const Camera& camera) {
    RenderOptions render;
    render.background = BackgroundColor(options_.background);
    render.min_transmittance = options_.min_transmittance;
    render.rays_per_pixel = RaysOfPixel(options_.rays_per_pixel, options_.picture_pixel, camera);
    ViewPicture picture;
    if (!renderer_->Render(camera, render, stop_, &picture))
      return absl::CancelledError("the measurement was interrupted");
    return picture;
  }

  double PsnrOf(const View& view, const ImageU8& rendered) const {
    return PsnrAgainst(view.image, BackgroundColor(options_.background), options_.alpha_is_mask,
                       rendered);
  }
  double ColorPsnr(const View& view, const ImageU8& rendered) const {
    return ColorAlignedPsnr(view.image, BackgroundColor(options_.background),
                            options_.alpha_is_mask, rendered);
  }
  absl::StatusOr<Camera> Align(const View& view) {
    return AlignedCamera(renderer_, view, distance_, options_, stop_);
  }

  // Fills what is measured on small pictures, but for `small_camera`.
  absl::StatusOr<DepthView> Small(const View& view, ViewMeasure* measure) {
    const View small = Reduced(view, kSmallPixels);
    NERF_ASSIGN_OR_RETURN(ViewPicture picture, Render(small.camera));
    const ImageU8 rendered = ColorsOf(picture), photograph = Colors(small, options_);
    measure->small_psnr = PsnrOf(small, rendered);
    measure->small_color = ColorPsnr(small, rendered);
    const ImageU8 compared =
        options_.alpha_is_mask ? WithMaskedPixels(rendered, small.image) : rendered;
    measure->region = FindErrorRegion(photograph, compared);
    double photograph_sums[3] = {}, view_sums[3] = {}, opacity = 0;
    for (size_t i = 0; i < picture.depths.size(); ++i) {
      opacity += picture.rgba.pixels[4 * i + 3] / 255.0;
      if (picture.rgba.pixels[4 * i + 3] < 128 ||
          !PixelCounts(small.image, options_.alpha_is_mask, i))
        continue;
      for (int c = 0; c < 3; ++c) {
        photograph_sums[c] += photograph.pixels[3 * i + c];
        view_sums[c] += rendered.pixels[3 * i + c];
      }
    }
    for (int c = 0; c < 3; ++c) measure->gains[c] = (photograph_sums[c] + 1) / (view_sums[c] + 1);
    measure->exposure = std::cbrt(measure->gains[0] * measure->gains[1] * measure->gains[2]);
    measure->light_left = 1 - opacity / static_cast<double>(picture.depths.size());
    return DepthView{small.camera, std::move(picture.depths), Gray(photograph)};
  }

  // The small picture's PSNR with its camera aligned, by way of a tiny one.
  absl::StatusOr<double> SmallAligned(const View& view) {
    View small = Reduced(view, kSmallPixels), aligned = Reduced(view, kAlignedPixels);
    NERF_ASSIGN_OR_RETURN(const Camera rough, Align(Reduced(view, kTinyPixels)));
    aligned.camera.camera_to_world = rough.camera_to_world;
    NERF_ASSIGN_OR_RETURN(const Camera camera, Align(aligned));
    small.camera.camera_to_world = camera.camera_to_world;
    NERF_ASSIGN_OR_RETURN(const ViewPicture picture, Render(small.camera));
    return PsnrOf(small, ColorsOf(picture));
  }

  // Fills what is measured at full size. few: of the view's small picture, empty where unknown.
  absl::Status Full(const View& view, bool with_camera, const DepthView& small,
                    const std::vector<uint8_t>& seeing, ViewMeasure* measure) {
    const View full = Reduced(view, kMaxMeasuredPixels);
    NERF_ASSIGN_OR_RETURN(const ViewPicture picture, Render(full.camera));
    const ImageU8 rendered = ColorsOf(picture);
    measure->psnr = PsnrOf(full, rendered);
    measure->psnr_color = ColorPsnr(full, rendered);
    const View half = Reduced(full, std::max(1.0, 0.25 * full.image.width * full.image.height));
    measure->psnr_half = PsnrOf(half, AreaResized(rendered, half.image.width, half.image.height));
    if (!seeing.empty()) CountSeen(full, rendered, small.camera, seeing, measure);
    if (!with_camera) return absl::OkStatus();
    NERF_ASSIGN_OR_RETURN(const Camera aligned, Align(Reduced(view, kAlignedPixels)));
    Camera camera = full.camera;
    camera.camera_to_world = aligned.camera_to_world;
    NERF_ASSIGN_OR_RETURN(const ViewPicture moved, Render(camera));
    measure->psnr_camera = std::max(measure->psnr, PsnrOf(full, ColorsOf(moved)));
    return absl::OkStatus();
  }

 private:
  // Masks what few see.
  void CountSeen(const View& full, const ImageU8& rendered, const Camera& small,
                 const std::vector<uint8_t>& seeing, ViewMeasure* measure) const {
    const ImageU8 colors = Colors(full, options_);
    ImageU8 masked{colors.width, colors.height, 4, {}};
    double n = 0, n_few = 0;
    for (size_t i = 0; 3 * i < colors.pixels.size(); ++i) {
      const int x = static_cast<int>(i) % colors.width, y = static_cast<int>(i) / colors.width;
      const int u = x * small.width / colors.width, v = y * small.height / colors.height;
      const bool counts = PixelCounts(full.image, options_.alpha_is_mask, i);
      const bool is_few = seeing[static_cast<size_t>(v) * small.width + u] < kFewViews;
      n += counts ? 1 : 0;
      n_few += counts && is_few ? 1 : 0;
      masked.pixels.insert(masked.pixels.end(), colors.Pixel(x, y), colors.Pixel(x, y) + 3);
      masked.pixels.push_back(counts && !is_few ? 255 : 0);
    }
    measure->few_seen = n > 0 ? n_few / n : 0;
    measure->psnr_seen = PsnrAgainst(masked, {}, true, rendered);
  }

  SceneRenderer* const renderer_;
  const EvaluationOptions& options_;
  const float distance_;
  const std::stop_token stop_;
};

// Training views whose cameras may be off: the worst by PSNR and by matches.
std::set<size_t> Suspicious(std::span<const ViewMeasure> views) {
  std::vector<std::pair<double, size_t>> by_psnr, by_match;
  for (size_t i = 0; i < views.size(); ++i) {
    if (!std::isnan(views[i].small_color)) by_psnr.push_back({views[i].small_color, i});
    if (!std::isnan(views[i].match_error)) by_match.push_back({-views[i].match_error, i});
  }
  std::set<size_t> chosen;
  for (auto* order : {&by_psnr, &by_match}) {
    std::sort(order->begin(), order->end());
    for (size_t i = 0; i < std::min(order->size(), kAlignedTraining / 2); ++i)
      chosen.insert((*order)[i].second);
  }
  return chosen;
}

// Pixels that the training draws from: of objects, those that are not plainly empty.
double TrainingPixels(const Scene& scene) {
  double n = 0;
  for (const View& view : scene.train) {
    const size_t n_pixels = static_cast<size_t>(view.image.width) * view.image.height;
    if (!scene.has_alpha || view.image.n_channels != 4) {
      n += static_cast<double>(n_pixels);
      continue;
    }
    for (size_t i = 0; i < n_pixels; ++i) n += view.image.pixels[4 * i + 3] > 0 ? 1 : 0;
  }
  return n;
}

}  // namespace

absl::StatusOr<SceneMeasures> MeasureScene(SceneRenderer* renderer, const TrainState& state,
                                           const Scene& scene, const EvaluationOptions& options,
                                           ThreadPool* pool, const std::stop_token& stop,
                                           const std::function<void(size_t, size_t)>& on_part) {
  SceneMeasures result;
  result.held_out = !scene.test.empty();
  result.n_train_views = scene.train.size();
  result.n_trained = state.n_trained;
  const double pixels = std::max(1.0, TrainingPixels(scene));
  result.samples = static_cast<double>(state.n_trained) / pixels;
  result.rays = static_cast<double>(state.n_rays) / pixels;
  result.seen = result.rays / RaysPerPixel(state.config);

  std::vector<const View*> train, test;
  for (size_t i : Evenly(scene.train.size(), kMaxSmallViews)) train.push_back(&scene.train[i]);
  const std::vector<View>& held_out = result.held_out ? scene.test : scene.train;
  const size_t n_held_out = result.held_out ? held_out.size() : (held_out.size() + 7) / 8;
  for (size_t i : Evenly(held_out.size(), std::min(n_held_out, kMaxTestViews)))
    test.push_back(&held_out[i]);
  const std::vector<size_t> some = Evenly(train.size(), kMeasuredTraining);
  const std::vector<size_t> aligned = Evenly(test.size(), kAlignedTest);
  result.views.resize(train.size() + test.size());
  bool can_project = true;
  for (size_t i = 0; i < result.views.size(); ++i) {
    const View& view = i < train.size() ? *train[i] : *test[i - train.size()];
    result.views[i].file = view.file;
    result.views[i].is_test = i >= train.size();
    can_project = can_project && CanProject(view.camera);
  }

  size_t n_done = 0;
  const size_t n_parts = result.views.size() + 1 + kAlignedTraining + some.size() + test.size();
  const auto done = [&] { on_part(++n_done, n_parts); };
  on_part(0, n_parts);
  Measurer measurer(renderer, options, state.geometry.median_distance, stop);
  std::vector<DepthView> depths;
  std::vector<double> details(train.size());
  std::vector<Camera> cameras;
  std::vector<ErrorRegion> regions;
  for (size_t i = 0; i < result.views.size(); ++i) {
    const View& view = i < train.size() ? *train[i] : *test[i - train.size()];
    NERF_ASSIGN_OR_RETURN(DepthView depth, measurer.Small(view, &result.views[i]));
    depths.push_back(std::move(depth));
    done();
    if (result.views[i].is_test) continue;
    cameras.push_back(view.camera);
    regions.push_back(result.views[i].region);
    details[i] = Detail(Colors(view, options));
  }
  const std::span<ViewMeasure> train_measures(result.views.data(), train.size());
  const std::span<const DepthView> train_depths(depths.data(), train.size());
  CompareSharpness(train, details, train_measures);
  if (can_project) {
    const MatchErrors errors = MatchPhotographs(train_depths, pool);
    const Camera& first = depths[0].camera;
    const double side = std::max(first.width, first.height);
    for (size_t i = 0; i < train.size(); ++i) {
      result.views[i].match_error = errors.of_view[i] / side;
      if (!std::isnan(errors.exposures[i])) result.views[i].exposure = errors.exposures[i];
    }
    result.match_error = errors.error / side;
    result.match_error_at_scale = errors.error_at_scale / side;
    result.focal_scale = errors.focal_scale;
    const ErrorPlace place = MeetingPlace(cameras, regions, kMinRegionGain);
    result.place_views = place.views;
    result.n_showing_place = place.n_showing;
  }
  done();
  for (size_t i : Suspicious(train_measures)) {
    NERF_ASSIGN_OR_RETURN(result.views[i].small_camera, measurer.SmallAligned(*train[i]));
    done();
  }
  for (size_t i : some) {
    NERF_RETURN_IF_ERROR(measurer.Full(*train[i], false, depths[i], {}, &result.views[i]));
    done();
  }
  std::vector<std::vector<uint8_t>> seeing(test.size());
  if (can_project) {
    pool->ParallelFor(static_cast<int64_t>(test.size()), [&](int64_t i, int) {
      seeing[i] = CountSeeing(depths[train.size() + i], train_depths, kFewViews);
    });
  }
  for (size_t i = 0; i < test.size(); ++i) {
    const bool with_camera = std::find(aligned.begin(), aligned.end(), i) != aligned.end();
    NERF_RETURN_IF_ERROR(measurer.Full(*test[i], with_camera, depths[train.size() + i], seeing[i],
                                       &result.views[train.size() + i]));
    done();
  }
  return result;
}

}  // namespace nerf
