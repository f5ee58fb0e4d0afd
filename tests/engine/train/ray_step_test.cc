#include "engine/train/ray_step.h"

#include <gtest/gtest.h>

#include "engine/program/bench/synthetic_scene.h"
#include "engine/scene/camera.h"
#include "engine/train/batch/coarse_views.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/schedule.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Records its batches. Each ray marches and trains eight samples.
class RecordingStep final : public RayStep {
 public:
  using RayStep::ray_count;
  using RayStep::RayStep;
  StepResult RunRays(const RayBatch& batch) override {
    batches.push_back(batch);
    StepResult result;
    result.n_rays = batch.n_rays;
    result.n_marched = result.n_trained = int64_t{8} * batch.n_rays;
    return result;
  }
  void Save(TensorFile* file) const override { ray_count().Save(file); }
  absl::Status Load(const TensorFile& file) override { return absl::OkStatus(); }
  void SaveModel(TensorFile* file) const override {}
  absl::Status Initialize(const TensorFile& file) override { return absl::OkStatus(); }
  std::unique_ptr<TrainedModel> Snapshot() const override { return nullptr; }

  std::vector<RayBatch> batches;
};

struct RayStepFixture {
  Scene scene = SyntheticBallScene(3, 0, 16);
  TrainConfig config;
  ThreadPool pool{2};
  PixelSampler sampler{scene.train, Background::kRandom, 1};
  RecordingStep step{config, scene.geometry, scene.train, &pool};

  // Step `step` of a hundred.
  const RayBatch& Run(uint32_t i, float rate_factor = 1) {
    PixelBatch batch;
    sampler.Fill(i, step.NextPixels(i / 100.0), &pool, &batch);
    batch.fraction = i / 100.0;
    batch.rate_factor = rate_factor;
    step.Run(batch);
    return step.batches.back();
  }
};

TEST(RayStepTest, RaysGoThroughTheCentersOfTheirPixels) {
  RayStepFixture f;
  PixelBatch pixels;
  f.sampler.Fill(3, 300, &f.pool, &pixels);
  f.step.Run(pixels);
  const RayBatch& rays = f.step.batches.back();
  ASSERT_EQ(rays.rays.size(), 300u);
  for (size_t i = 0; i < 300; ++i) {
    const Pixel& pixel = pixels.pixels[i];
    const Ray expected =
        CameraRay(f.scene.train[pixel.view].camera, pixel.x + 0.5f, pixel.y + 0.5f);
    ASSERT_EQ(rays.rays[i].origin, expected.origin);
    ASSERT_EQ(rays.rays[i].direction, expected.direction);
    ASSERT_EQ(rays.rays[i].t_near, f.scene.geometry.near);
    ASSERT_GE(rays.jitters[i], 0);
    ASSERT_LT(rays.jitters[i], 1);
  }
  EXPECT_EQ(rays.targets, pixels.targets);
  EXPECT_EQ(rays.backgrounds, pixels.backgrounds);
}

TEST(RayStepTest, PixelsHaveFourRaysFromHalfOfTheBudgetOn) {
  RayStepFixture f;
  f.config.rays_per_pixel = 4;
  RecordingStep step(f.config, f.scene.geometry, f.scene.train, &f.pool);
  EXPECT_EQ(step.NextPixels(0.49), 256);
  EXPECT_EQ(step.NextPixels(0.5), 64);
  PixelBatch pixels;
  f.sampler.Fill(3, 64, &f.pool, &pixels);
  pixels.fraction = 0.5;
  step.Run(pixels);
  const RayBatch& rays = step.batches.back();
  EXPECT_EQ(rays.rays_per_pixel, 4);
  EXPECT_EQ(rays.n_rays, 256);
  ASSERT_EQ(rays.rays.size(), 256u);
  for (size_t i = 0; i < 256; ++i) {
    const Pixel& pixel = pixels.pixels[i / 4];
    const float x = pixel.x + (i % 2 == 0 ? 0.25f : 0.75f);
    const float y = pixel.y + (i / 2 % 2 == 0 ? 0.25f : 0.75f);
    const Ray expected = CameraRay(f.scene.train[pixel.view].camera, x, y);
    ASSERT_EQ(rays.rays[i].direction, expected.direction) << i;
    ASSERT_EQ(rays.targets[i], pixels.targets[i / 4]);
    ASSERT_EQ(rays.backgrounds[i], pixels.backgrounds[i / 4]);
    ASSERT_EQ(rays.views[i], pixel.view);
    ASSERT_NE(rays.jitters[i], rays.jitters[i == 0 ? 1 : i - 1]);
  }
  pixels.fraction = 0.49;
  step.Run(pixels);
  EXPECT_EQ(step.batches.back().rays_per_pixel, 1);
  EXPECT_EQ(step.batches.back().n_rays, 64);
}

// Reduced pictures: the rays of the reduced camera, also where sides are odd.
TEST(RayStepTest, RaysOfReducedPicturesGoThroughTheCentersOfTheirPixels) {
  RayStepFixture f;
  for (int v = 0; v < 3; ++v) {
    Camera& camera = f.scene.train[v].camera;
    camera = Resized(camera, 37 + v, 22 + v);
    camera.lens = v == 1 ? LensModel::kOpenCv : LensModel::kPinhole;
    camera.k1 = v == 1 ? 0.1f : 0;
  }
  RecordingStep step(f.config, f.scene.geometry, f.scene.train, &f.pool);
  for (const int level : {1, 2}) {
    PixelBatch pixels;
    pixels.picture_level = level;
    for (int v = 0; v < 3; ++v) {
      const ReducedSize size = PictureSizeAt(level, 37 + v, 22 + v);
      for (const Pixel& corner :
           {Pixel{v, 0, 0}, Pixel{v, size.width - 1, 0}, Pixel{v, size.width / 2, size.height - 1}})
        pixels.pixels.push_back(corner);
    }
    pixels.n_pixels = 9;
    pixels.targets.resize(9);
    pixels.backgrounds.resize(9);
    step.Run(pixels);
    const RayBatch& rays = step.batches.back();
    for (int i = 0; i < 9; ++i) {
      const Pixel& pixel = pixels.pixels[i];
      const Camera& full = f.scene.train[pixel.view].camera;
      const ReducedSize size = PictureSizeAt(level, full.width, full.height);
      const Ray expected =
          CameraRay(Resized(full, size.width, size.height), pixel.x + 0.5f, pixel.y + 0.5f);
      EXPECT_EQ(rays.rays[i].origin, expected.origin);
      EXPECT_LT(Norm(rays.rays[i].direction - expected.direction), 1e-6f) << level << ' ' << i;
      EXPECT_EQ(rays.rays[i].t_near, f.scene.geometry.near);
    }
  }
}

TEST(RayStepTest, RaysDependOnSeedStepAndIndexAlone) {
  RayStepFixture f;
  ThreadPool one(1);
  RecordingStep single(f.config, f.scene.geometry, f.scene.train, &one);
  TrainConfig other_seed = f.config;
  other_seed.seed = 2;
  RecordingStep other(other_seed, f.scene.geometry, f.scene.train, &one);
  PixelBatch few, many, next;
  f.sampler.Fill(5, 300, &one, &few);
  f.sampler.Fill(5, 900, &one, &many);
  f.sampler.Fill(6, 300, &one, &next);
  f.step.Run(many);
  single.Run(few);
  single.Run(next);
  other.Run(few);
  const std::vector<float>& jitters = single.batches[0].jitters;
  EXPECT_TRUE(std::equal(jitters.begin(), jitters.end(), f.step.batches[0].jitters.begin()));
  EXPECT_NE(jitters, single.batches[1].jitters);
  EXPECT_NE(jitters, other.batches[0].jitters);
}

TEST(RayStepTest, SchedulesFollowTheFractionOfTheBudget) {
  RayStepFixture f;
  for (uint32_t i = 0; i < 100; ++i) {
    const double fraction = i / 100.0;
    const RayBatch& batch = f.Run(i);
    ASSERT_EQ(batch.step, i);
    ASSERT_EQ(batch.fraction, fraction);
    ASSERT_EQ(batch.learning_rate, LearningRate(f.config, i, fraction));
    ASSERT_EQ(batch.step_scale, StepScale(f.config, fraction));
    ASSERT_EQ(batch.distortion, DistortionWeight(f.config, fraction));
    ASSERT_EQ(batch.target_samples, TargetSamples(f.config, fraction));
  }
  EXPECT_EQ(f.step.batches.front().step_scale, StepScale(f.config, 0));
  EXPECT_EQ(f.step.batches.back().step_scale, 1);
  EXPECT_EQ(f.Run(7, 0.5f).learning_rate, LearningRate(f.config, 7, 0.07) * 0.5f);
}

TEST(RayStepTest, RaysGrowWithTheSamplesOfAStep) {
  RayStepFixture f;
  for (uint32_t i = 0; i < 100; ++i) f.Run(i);
  EXPECT_GT(f.step.batches[99].n_rays, 3 * f.step.batches[29].n_rays);
  // Asking again changes nothing.
  EXPECT_EQ(f.step.NextPixels(1), f.step.NextPixels(1));
}

TEST(RayStepTest, TimeFollowsTheSamplesWhereTheBudgetCountsSteps) {
  RayStepFixture f;
  TrainConfig config;
  config.budget = {BudgetKind::kSteps, 100};
  const RecordingStep step(config, f.scene.geometry, f.scene.train, &f.pool);
  EXPECT_EQ(step.TimeFraction(0.4), ShareOfTime(config, 0.4));
  EXPECT_LT(step.TimeFraction(0.4), 0.3);
  EXPECT_EQ(step.TimeFraction(1), 1);
}

TEST(RayCountControllerTest, StateSurvivesAFileAndWrongOnesAreNamed) {
  RayCountController controller({256, 65536});
  controller.Restore({1024, 1e5 / 3, 2e5 / 3, 1024.5});
  TensorFile file;
  controller.Save(&file);
  const auto loaded = RayCountController::Load(file);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(*loaded, controller.state());
  for (const auto& [key, value] : {std::pair{"ray_count.next", "0"},
                                   {"ray_count.next", "x"},
                                   {"ray_count.sums", "1 2 nan"},
                                   {"ray_count.sums", "1 2"}}) {
    TensorFile wrong = file;
    wrong.metadata[key] = value;
    EXPECT_THAT(RayCountController::Load(wrong), StatusIs(absl::StatusCode::kInvalidArgument, key));
    wrong.metadata.erase(key);
    EXPECT_THAT(RayCountController::Load(wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, "is missing"));
  }
}

}  // namespace
}  // namespace nerf
