#include "engine/views/measure/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/views/measure/color_alignment.h"
#include "engine/views/measure/image_metrics.h"
#include "engine/views/measure/lpips.h"

namespace nerf {

namespace {

// Of the pictures that ForecastEvaluation renders.
constexpr size_t kForecastViews = 3;
constexpr int64_t kForecastPixels = 4096;

// A picture of one pixel, whose ray goes from `position` to `target`.
Camera PixelTowards(Vec3 position, Vec3 target) {
  const Vec3 backward = Normalized(position - target);
  const Vec3 side = std::abs(backward.x) < 0.7f ? Vec3{1, 0, 0} : Vec3{0, 1, 0};
  const Vec3 right = Normalized(Cross(side, backward)), up = Cross(backward, right);
  Camera camera;
  camera.width = camera.height = 1;
  camera.fl_x = camera.fl_y = 1;
  camera.cx = camera.cy = 0.5f;
  for (int row = 0; row < 3; ++row) {
    camera.camera_to_world.m[row][0] = right[row];
    camera.camera_to_world.m[row][1] = up[row];
    camera.camera_to_world.m[row][2] = backward[row];
    camera.camera_to_world.m[row][3] = position[row];
  }
  return camera;
}

// Of the values that are there.
class Mean {
 public:
  void Add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++n_;
  }
  double value() const { return n_ > 0 ? sum_ / n_ : std::numeric_limits<double>::quiet_NaN(); }

 private:
  double sum_ = 0;
  int n_ = 0;
};

// Masked pixels agree for SSIM and LPIPS, which look at neighborhoods.
ImageScore ScoreOf(const View& view, const ImageU8& rendered, Vec3 background,
                   const EvaluationOptions& options, ThreadPool* pool) {
  const ImageU8& photograph = view.image;
  const bool has_mask = options.alpha_is_mask;
  ImageScore score{view.file, PsnrAgainst(photograph, background, has_mask, rendered), std::nan(""),
                   std::nan("")};
  if (options.with_color_alignment)
    score.psnr_color_aligned = ColorAlignedPsnr(photograph, background, has_mask, rendered);
  if (!options.with_ssim && options.lpips == nullptr) return score;
  const ImageU8 target = has_mask ? WithoutAlpha(photograph) : CompositedOn(photograph, background);
  const ImageU8 image = has_mask ? WithMaskedPixels(rendered, photograph) : rendered;
  if (options.with_ssim) score.ssim = Ssim(image, target, pool);
  if (options.lpips != nullptr) score.lpips = options.lpips->Distance(image, target, pool);
  return score;
}

}  // namespace

absl::StatusOr<double> MedianDepthError(SceneRenderer* renderer, std::span<const View> views,
                                        std::span<const SeenPoint> points,
                                        const EvaluationOptions& options, std::stop_token stop) {
  RenderOptions render_options;
  render_options.min_transmittance = options.min_transmittance;
  std::vector<double> errors;
  for (const SeenPoint& point : points) {
    const Vec3 position = views[point.view].camera.camera_to_world.Column(3);
    const float distance = Norm(point.position - position);
    if (!(distance > 0)) continue;
    ViewPicture picture;
    if (!renderer->Render(PixelTowards(position, point.position), render_options, stop, &picture))
      return absl::CancelledError("evaluation was interrupted");
    errors.push_back(std::abs(double{picture.depths[0]} - distance) / distance);
  }
  if (errors.empty()) return std::nan("");
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

absl::StatusOr<absl::Duration> ForecastEvaluation(SceneRenderer* renderer,
                                                  std::span<const View> views,
                                                  const EvaluationOptions& options,
                                                  const Clock& clock, std::stop_token stop) {
  NERF_CHECK(!views.empty());
  RenderOptions render_options;
  render_options.min_transmittance = options.min_transmittance;
  const size_t n_rendered = std::min(views.size(), kForecastViews);
  double n_pixels = 0;
  const SteadyTime begin = clock.Now();
  for (size_t i = 0; i < n_rendered; ++i) {
    const Camera& camera = views[i * views.size() / n_rendered].camera;
    render_options.rays_per_pixel =
        RaysOfPixel(options.rays_per_pixel, options.picture_pixel, camera);
    const ReducedSize size = FitPixels(camera.width, camera.height, kForecastPixels);
    ViewPicture picture;
    if (!renderer->Render(Resized(camera, size.width, size.height), render_options, stop, &picture))
      return absl::CancelledError("evaluation was interrupted");
    n_pixels += static_cast<double>(size.width) * size.height;
  }
  const absl::Duration spent = clock.Now() - begin;
  double n_wanted = 0;
  for (const View& view : views)
    n_wanted += static_cast<double>(view.camera.width) * view.camera.height;
  return spent * (n_wanted / n_pixels);
}

absl::StatusOr<EvaluationResult> EvaluateViews(SceneRenderer* renderer, std::span<const View> views,
                                               const EvaluationOptions& options, ThreadPool* pool,
                                               const Clock& clock, std::stop_token stop) {
  NERF_CHECK(!views.empty());
  const Vec3 background = BackgroundColor(options.background);
  RenderOptions render_options;
  render_options.background = background;
  render_options.min_transmittance = options.min_transmittance;

  EvaluationResult result;
  absl::Duration rendering;
  Mean psnr, ssim, psnr_color_aligned, lpips;
  for (const View& view : views) {
    const SteadyTime begin = clock.Now();
    ViewPicture picture;
    const Camera camera = WithFoundFocal(options.lenses, view.camera);
    render_options.rays_per_pixel =
        RaysOfPixel(options.rays_per_pixel, options.picture_pixel, camera);
    if (!renderer->Render(camera, render_options, stop, &picture))
      return absl::CancelledError("evaluation was interrupted");
    rendering += clock.Now() - begin;
    if (!options.alpha_is_mask) result.specks.Add(view.image, picture.rgba);
    const ImageU8 image = ColorsOf(picture);
    const ImageScore score = ScoreOf(view, image, background, options, pool);
    psnr.Add(score.psnr);
    ssim.Add(score.ssim);
    psnr_color_aligned.Add(score.psnr_color_aligned);
    lpips.Add(score.lpips);
    result.images.push_back(score);
    if (options.on_image) {
      NERF_RETURN_IF_ERROR(options.on_image(view, image));
    }
  }
  result.psnr = psnr.value();
  result.ssim = ssim.value();
  result.psnr_color_aligned = psnr_color_aligned.value();
  result.lpips = lpips.value();
  result.seconds_per_image = absl::ToDoubleSeconds(rendering) / static_cast<double>(views.size());
  return result;
}

}  // namespace nerf
