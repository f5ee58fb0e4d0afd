#include "engine/train/evaluation.h"

#include <cmath>
#include <limits>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/train/checkpoint.h"
#include "engine/train/image_metrics.h"

namespace nerf {

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
  double ssim_sum = 0;
  int n_with_ssim = 0, n_with_psnr = 0;
  for (const View& view : views) {
    const SteadyTime begin = clock.Now();
    ViewPicture picture;
    if (!renderer->Render(view.camera, render_options, stop, &picture))
      return absl::CancelledError("evaluation was interrupted");
    rendering += clock.Now() - begin;
    const ImageU8 image = ColorsOf(picture);
    ImageScore score{view.file, PsnrAgainst(view.image, background, options.alpha_is_mask, image),
                     std::numeric_limits<double>::quiet_NaN()};
    if (options.with_ssim && !options.alpha_is_mask)
      score.ssim = Ssim(image, CompositedOn(view.image, background), pool);
    if (options.with_ssim && options.alpha_is_mask)
      score.ssim = Ssim(WithMaskedPixels(image, view.image), WithoutAlpha(view.image), pool);
    if (!std::isnan(score.psnr)) {
      result.psnr += score.psnr;
      ++n_with_psnr;
    }
    if (!std::isnan(score.ssim)) {
      ssim_sum += score.ssim;
      ++n_with_ssim;
    }
    result.images.push_back(score);
    if (options.on_image) {
      NERF_RETURN_IF_ERROR(options.on_image(view, image));
    }
  }
  const auto n = static_cast<double>(views.size());
  result.psnr = n_with_psnr > 0 ? result.psnr / n_with_psnr : std::nan("");
  result.ssim = n_with_ssim > 0 ? ssim_sum / n_with_ssim : std::numeric_limits<double>::quiet_NaN();
  result.seconds_per_image = absl::ToDoubleSeconds(rendering) / n;
  return result;
}

}  // namespace nerf
