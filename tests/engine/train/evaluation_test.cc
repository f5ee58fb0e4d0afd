#include "engine/train/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/borrowed_field.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_training_step.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// A camera in front of the box [-1, 1]^3 that sees nothing else.
View FacingView(int size, std::vector<uint8_t> rgba) {
  View view;
  view.file = "v.png";
  view.camera.width = view.camera.height = size;
  view.camera.fl_x = view.camera.fl_y = 10.0f * static_cast<float>(size);
  view.camera.cx = view.camera.cy = 0.5f * static_cast<float>(size);
  view.camera.camera_to_world.m[2][3] = 5;
  view.image = {size, size, static_cast<int>(rgba.size()), {}};
  for (int i = 0; i < size * size; ++i) {
    view.image.pixels.insert(view.image.pixels.end(), rgba.begin(), rgba.end());
  }
  return view;
}

SceneGeometry Geometry() {
  SceneGeometry geometry;
  geometry.step = 0.01f;
  return geometry;
}

// A box full of fog, ready to be rendered on the CPU.
class Fog {
 public:
  Fog(float sigma, Vec3 color)
      : field_(sigma, color),
        device_(NewCpuRenderDevice(&pool_)),
        renderer_(device_->Load(ModelOf(field_, FullOccupancyGrid(Aabb{}, 1, 32), Geometry()),
                                Geometry(), RenderPrecision::kSingle)) {}
  SceneRenderer* renderer() { return renderer_.get(); }

 private:
  ThreadPool pool_{1};
  const ConstantField field_;
  const std::unique_ptr<RenderDevice> device_;
  const std::unique_ptr<SceneRenderer> renderer_;
};

TEST(EvaluationTest, OpaqueFogOfTheRightColorIsPerfect) {
  const std::vector<View> views = {FacingView(12, {51, 102, 204, 255})};
  ThreadPool pool(1);
  const auto result =
      EvaluateViews(Fog(1000, {0.2f, 0.4f, 0.8f}).renderer(), views, {}, &pool, FakeClock(), {});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->psnr, 100);
  EXPECT_NEAR(result->ssim, 1, 1e-9);
  ASSERT_EQ(result->images.size(), 1u);
  EXPECT_EQ(result->images[0].file, "v.png");
}

TEST(EvaluationTest, EmptyFieldShowsTheBackgroundThatWasAskedFor) {
  // The truth is transparent, so it shows the background, too.
  const std::vector<View> views = {FacingView(4, {9, 9, 9, 0})};
  ThreadPool pool(1);
  for (Background background : {Background::kWhite, Background::kBlack}) {
    EvaluationOptions options;
    options.background = background;
    std::vector<uint8_t> seen;
    options.on_image = [&](const View&, const ImageU8& image) {
      seen = image.pixels;
      return absl::OkStatus();
    };
    const auto result =
        EvaluateViews(Fog(0, {}).renderer(), views, options, &pool, FakeClock(), {});
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->psnr, 100);
    EXPECT_EQ(seen, std::vector<uint8_t>(48, background == Background::kWhite ? 255 : 0));
    EXPECT_TRUE(std::isnan(result->ssim)) << "4 x 4 pixels are too few for a window";
  }
}

TEST(EvaluationTest, MeanIsOverImagesNotOverPixels) {
  // Errors of 10 and of 40 gray levels, in images of different size.
  const std::vector<View> views = {FacingView(4, {10, 10, 10}), FacingView(16, {40, 40, 40})};
  ThreadPool pool(1);
  EvaluationOptions options;
  options.background = Background::kBlack;
  const auto result = EvaluateViews(Fog(0, {}).renderer(), views, options, &pool, FakeClock(), {});
  ASSERT_THAT(result, IsOk());
  const double expected = (20 * std::log10(255.0 / 10) + 20 * std::log10(255.0 / 40)) / 2;
  EXPECT_NEAR(result->psnr, expected, 1e-9);
  EXPECT_FALSE(std::isnan(result->ssim)) << "of the one image that has it";
}

TEST(EvaluationTest, StopAndObserverErrorEndIt) {
  const std::vector<View> views = {FacingView(8, {0, 0, 0})};
  ThreadPool pool(1);
  std::stop_source source;
  source.request_stop();
  EXPECT_THAT(
      EvaluateViews(Fog(0, {}).renderer(), views, {}, &pool, FakeClock(), source.get_token()),
      StatusIs(absl::StatusCode::kCancelled));
  EvaluationOptions options;
  options.on_image = [](const View&, const ImageU8&) { return absl::UnavailableError("full"); };
  EXPECT_THAT(EvaluateViews(Fog(0, {}).renderer(), views, options, &pool, FakeClock(), {}),
              StatusIs(absl::StatusCode::kUnavailable, "full"));
}

}  // namespace
}  // namespace nerf
