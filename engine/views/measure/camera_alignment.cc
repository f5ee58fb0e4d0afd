#include "engine/views/measure/camera_alignment.h"

#include <array>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/field/files/checkpoint.h"
#include "engine/views/measure/image_metrics.h"
#include "engine/views/measure/least_squares.h"

namespace nerf {
namespace {

constexpr int kFreedoms = 6;  // a turn about the camera's axes, a shift along them
constexpr int kMaxSteps = 6;
constexpr double kProbePixels = 0.7;  // by which a probe moves the picture
constexpr double kDamping = 1e-3;     // of the normal equations' diagonal

using Motion = std::array<double, kFreedoms>;

// The camera turned and shifted along its own axes; the turn is small.
Camera Moved(const Camera& camera, const Motion& motion) {
  Camera moved = camera;
  const auto& m = camera.camera_to_world.m;
  const double angle =
      std::sqrt(motion[0] * motion[0] + motion[1] * motion[1] + motion[2] * motion[2]);
  const double sine = angle > 1e-9 ? std::sin(angle) / angle : 1;
  const double versine = angle > 1e-9 ? (1 - std::cos(angle)) / (angle * angle) : 0.5;
  const double skew[3][3] = {
      {0, -motion[2], motion[1]}, {motion[2], 0, -motion[0]}, {-motion[1], motion[0], 0}};
  double turn[3][3];
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double square = motion[i] * motion[j] - (i == j ? angle * angle : 0);
      turn[i][j] = (i == j ? 1 : 0) + sine * skew[i][j] + versine * square;
    }
  }
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += m[row][k] * turn[k][column];
      moved.camera_to_world.m[row][column] = static_cast<float>(sum);
      moved.camera_to_world.m[row][3] += static_cast<float>(m[row][column] * motion[3 + column]);
    }
  }
  return moved;
}

// The Gauss-Newton step from a picture and those of probes, each moved by `probes[i]` along freedom
// i. Pixels that `photograph` masks do not count.
bool StepOf(const ImageU8& photograph, const ImageU8& picture,
            const std::array<ImageU8, kFreedoms>& moved, const Motion& probes, Motion* step) {
  double a[kFreedoms][kFreedoms] = {}, b[kFreedoms] = {};
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    const double residual = double{1} * photograph.pixels[i] - picture.pixels[i];
    double slopes[kFreedoms];
    for (int j = 0; j < kFreedoms; ++j)
      slopes[j] = (double{1} * moved[j].pixels[i] - picture.pixels[i]) / probes[j];
    for (int j = 0; j < kFreedoms; ++j) {
      b[j] += slopes[j] * residual;
      for (int k = 0; k <= j; ++k) a[j][k] += slopes[j] * slopes[k];
    }
  }
  for (int j = 0; j < kFreedoms; ++j) a[j][j] *= 1 + kDamping;
  return SolvePositiveDefinite(a, b, step->data());
}

}  // namespace

absl::StatusOr<Camera> AlignedCamera(SceneRenderer* renderer, const View& view, float distance,
                                     const EvaluationOptions& options, std::stop_token stop) {
  const Vec3 background = BackgroundColor(options.background);
  RenderOptions render_options;
  render_options.background = background;
  render_options.min_transmittance = options.min_transmittance;
  render_options.rays_per_pixel =
      RaysOfPixel(options.rays_per_pixel, options.picture_pixel, view.camera);
  // Masked pixels are copied from the photograph, so that they have no residual.
  const ImageU8 photograph =
      options.alpha_is_mask ? WithoutAlpha(view.image) : CompositedOn(view.image, background);
  const auto render = [&](const Camera& camera, ImageU8* image) {
    ViewPicture picture;
    if (!renderer->Render(camera, render_options, stop, &picture))
      return absl::CancelledError("evaluation was interrupted");
    *image = ColorsOf(picture);
    if (options.alpha_is_mask) *image = WithMaskedPixels(*image, view.image);
    return absl::OkStatus();
  };
  Camera camera = view.camera;
  ImageU8 picture;
  NERF_RETURN_IF_ERROR(render(camera, &picture));
  double psnr = Psnr(picture, photograph);
  const double turn = kProbePixels / camera.fl_x;
  const Motion probes = {turn, turn, turn, turn * distance, turn * distance, turn * distance};
  for (int n = 0; n < kMaxSteps; ++n) {
    std::array<ImageU8, kFreedoms> moved;
    for (int i = 0; i < kFreedoms; ++i) {
      Motion motion = {};
      motion[i] = probes[i];
      NERF_RETURN_IF_ERROR(render(Moved(camera, motion), &moved[i]));
    }
    Motion step;
    if (!StepOf(photograph, picture, moved, probes, &step)) break;
    const Camera next = Moved(camera, step);
    ImageU8 next_picture;
    NERF_RETURN_IF_ERROR(render(next, &next_picture));
    const double next_psnr = Psnr(next_picture, photograph);
    if (!(next_psnr > psnr)) break;
    const bool is_settled = next_psnr < psnr + 0.01;
    camera = next;
    picture = std::move(next_picture);
    psnr = next_psnr;
    if (is_settled) break;
  }
  return camera;
}

}  // namespace nerf
