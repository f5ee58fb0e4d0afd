#pragma once

#include <functional>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/parameters/lens_scales.h"
#include "engine/scene/scene.h"
#include "engine/views/measure/specks.h"
#include "engine/views/render/render_device.h"

namespace nerf {

class Lpips;

struct ImageScore {
  std::string file;  // of the view
  double psnr = 0;   // dB
  double ssim = 0;   // NaN where the image is smaller than the window, or it was not asked for
  double psnr_color_aligned = 0;  // color_alignment.h; NaN where it was not asked for
  // NaN where the image is smaller than Lpips::kMinSide, or it was not asked for.
  double lpips = std::numeric_limits<double>::quiet_NaN();
};

struct EvaluationResult {
  std::vector<ImageScore> images;
  double psnr = 0;                // mean over images
  double ssim = 0;                // mean over the images that have one; NaN where none has
  double psnr_color_aligned = 0;  // mean; NaN where it was not asked for
  double lpips = 0;               // mean over the images that have one; NaN where none has
  double seconds_per_image = 0;   // of rendering
  Specks specks;                  // of all images; none where alpha is a mask
};

struct EvaluationOptions {
  Background background = Background::kWhite;  // kWhite or kBlack
  float min_transmittance = kMinTransmittance;
  int rays_per_pixel = 1;      // of a pixel as wide as picture_pixel; see RaysOfPixel
  float picture_pixel = 0;     // of the training pictures
  bool alpha_is_mask = false;  // Scene::alpha_is_mask: masked pixels do not count
  bool with_ssim = true;
  bool with_color_alignment = false;
  // Of the training: views have the focal lengths that it found. Outlives the evaluation.
  std::span<const LensScale> lenses;
  const Lpips* lpips = nullptr;  // where images get one; outlives the evaluation
  // Called with each rendered view, 8 bits, on the background.
  std::function<absl::Status(const View&, const ImageU8&)> on_image;
};

// Median over points of |rendered depth - distance| / distance, each seen from the position of its
// view. A ray that stops less than a tenth of the light has depth 0. NaN without points. Errors:
// Cancelled after a stop.
absl::StatusOr<double> MedianDepthError(SceneRenderer* renderer, std::span<const View> views,
                                        std::span<const SeenPoint> points,
                                        const EvaluationOptions& options, std::stop_token stop);

// How long EvaluateViews is going to render, measured on small pictures of a few of the views.
// Requires views. Errors: Cancelled when `stop` was requested before the end.
absl::StatusOr<absl::Duration> ForecastEvaluation(SceneRenderer* renderer,
                                                  std::span<const View> views,
                                                  const EvaluationOptions& options,
                                                  const Clock& clock, std::stop_token stop);

// Renders each view and compares it, rounded to 8 bits, with the view's picture composited on the
// same background. Requires views. Errors: Cancelled when `stop` was requested before the end;
// those of on_image.
absl::StatusOr<EvaluationResult> EvaluateViews(SceneRenderer* renderer, std::span<const View> views,
                                               const EvaluationOptions& options, ThreadPool* pool,
                                               const Clock& clock, std::stop_token stop);

}  // namespace nerf
