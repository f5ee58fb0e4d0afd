#include "engine/views/measure/evaluation.h"

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

// Takes a microsecond for a pixel. Shows nothing.
class SlowRenderer final : public SceneRenderer {
 public:
  explicit SlowRenderer(FakeClock* clock) : clock_(clock) {}
  std::unique_ptr<PictureRender> Begin(const Camera& camera,
                                       const RenderOptions& options) override {
    n_pixels_ += camera.width * camera.height;
    rays_per_pixel_ = options.rays_per_pixel;
    return std::make_unique<Picture>(camera, clock_);
  }
  Aabb OccupiedBox() const override { return {}; }
  int n_pixels() const { return n_pixels_; }
  int rays_per_pixel() const { return rays_per_pixel_; }

 private:
  class Picture final : public PictureRender {
   public:
    Picture(const Camera& camera, FakeClock* clock) : camera_(camera), clock_(clock) {}
    bool Advance(const std::function<bool()>&, const std::stop_token& stop) override {
      clock_->Advance(absl::Microseconds(camera_.width * camera_.height));
      return finished_ = !stop.stop_requested();
    }
    bool finished() const override { return finished_; }
    ViewPicture TakePicture() override {
      const size_t n = static_cast<size_t>(camera_.width) * camera_.height;
      return {{camera_.width, camera_.height, 4, std::vector<uint8_t>(4 * n)},
              std::vector<float>(n)};
    }

   private:
    const Camera camera_;
    FakeClock* const clock_;
    bool finished_ = false;
  };
  FakeClock* const clock_;
  int n_pixels_ = 0, rays_per_pixel_ = 0;
};

TEST(EvaluationTest, ForecastIsThatOfAllPixelsAndCostsFew) {
  FakeClock clock;
  SlowRenderer renderer(&clock);
  std::vector<View> views(10, FacingView(200, {0, 0, 0, 255}));
  views.push_back(FacingView(16, {0, 0, 0, 255}));
  const auto forecast = ForecastEvaluation(&renderer, views, {}, clock, {});
  ASSERT_THAT(forecast, IsOk());
  EXPECT_NEAR(absl::ToDoubleSeconds(*forecast), (10 * 200 * 200 + 16 * 16) / 1e6, 1e-6);
  EXPECT_LE(renderer.n_pixels(), 3 * 4096);
}

TEST(EvaluationTest, PixelsShowAsManyRaysAsTheModelHas) {
  FakeClock clock;
  ThreadPool pool(1);
  EvaluationOptions options;
  options.rays_per_pixel = 4;
  const std::vector<View> views = {FacingView(12, {0, 0, 0, 255})};
  SlowRenderer of_forecast(&clock), of_views(&clock);
  EXPECT_THAT(ForecastEvaluation(&of_forecast, views, options, clock, {}), IsOk());
  EXPECT_EQ(of_forecast.rays_per_pixel(), 4);
  EXPECT_THAT(EvaluateViews(&of_views, views, options, &pool, clock, {}), IsOk());
  EXPECT_EQ(of_views.rays_per_pixel(), 4);
}

TEST(EvaluationTest, StoppedForecastIsCancelled) {
  FakeClock clock;
  SlowRenderer renderer(&clock);
  std::stop_source source;
  source.request_stop();
  const std::vector<View> views = {FacingView(4, {0, 0, 0, 255})};
  EXPECT_THAT(ForecastEvaluation(&renderer, views, {}, clock, source.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

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

TEST(EvaluationTest, SpecksAreOfPixelsThatSeeNothing) {
  // One pixel of object: of 8 x 8 pixels, 5 x 5 around it see its edge.
  View view = FacingView(8, {9, 9, 9, 0});
  view.image.pixels[4 * (3 * 8 + 3) + 3] = 1;
  ThreadPool pool(1);
  const auto specks_of = [&](float sigma, const EvaluationOptions& options) {
    const auto result = EvaluateViews(Fog(sigma, {}).renderer(), std::vector<View>{view}, options,
                                      &pool, FakeClock(), {});
    EXPECT_THAT(result, IsOk());
    return result->specks;
  };
  const Specks clear = specks_of(0, {}), foggy = specks_of(0.05f, {});
  EXPECT_EQ(clear.n_pixels(), 64 - 25);
  EXPECT_EQ(clear.Mean(), 0);
  EXPECT_EQ(clear.Percentile(0.999), 0);
  EXPECT_NEAR(foggy.Mean(), 1 - std::exp(-0.05 * 2), 0.003) << "the box is 2 long";
  EXPECT_NEAR(foggy.Percentile(0.999), foggy.Mean(), 0.004);
  EvaluationOptions masked;
  masked.alpha_is_mask = true;
  EXPECT_EQ(specks_of(0.05f, masked).n_pixels(), 0);
  EXPECT_TRUE(std::isnan(specks_of(0.05f, masked).Mean()));
  EXPECT_TRUE(std::isnan(specks_of(0.05f, masked).Percentile(0.999)));
}

TEST(EvaluationTest, PercentileOfSpecksIsExceededByFewPixels) {
  const ImageU8 photograph{1000, 1, 4, std::vector<uint8_t>(4000, 0)};
  ImageU8 rendered = photograph;
  rendered.pixels[3] = 255;
  Specks specks;
  specks.Add(photograph, rendered);
  EXPECT_EQ(specks.Percentile(0.999), 0);
  EXPECT_EQ(specks.Percentile(1), 1);
  EXPECT_NEAR(specks.Mean(), 1e-3, 1e-9);
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
