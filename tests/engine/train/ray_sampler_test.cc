#include "engine/train/ray_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/scene/camera.h"

namespace nerf {
namespace {

// A view that looks along -Z from x = `index`, whose pixel colors encode view and position.
View MakeView(int index, int width, int height, uint8_t alpha = 255) {
  View view;
  view.camera.width = width;
  view.camera.height = height;
  view.camera.fl_x = view.camera.fl_y = 10;
  view.camera.cx = width / 2.0f;
  view.camera.cy = height / 2.0f;
  view.camera.camera_to_world.m[0][3] = static_cast<float>(index);
  view.image = {width, height, 4, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int value : {index * 50, x * 20, y * 20, int{alpha}}) {
        view.image.pixels.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return view;
}

bool operator==(const Ray& a, const Ray& b) {
  return a.origin == b.origin && a.direction == b.direction && a.t_near == b.t_near;
}

TEST(RaySamplerTest, TargetRayAndPixelBelongTogether) {
  const std::vector<View> views = {MakeView(0, 4, 3), MakeView(1, 5, 2)};
  const RaySampler sampler(views, Background::kBlack, 0.25f, 1);
  ThreadPool pool(1);
  Batch batch;
  sampler.Fill(3, 500, &pool, &batch);
  EXPECT_EQ(batch.step, 3u);
  ASSERT_EQ(batch.rays.size(), 500u);
  for (size_t i = 0; i < 500; ++i) {
    const int v = static_cast<int>(std::lround(batch.targets[i].x * 255)) / 50;
    const int x = static_cast<int>(std::lround(batch.targets[i].y * 255)) / 20;
    const int y = static_cast<int>(std::lround(batch.targets[i].z * 255)) / 20;
    Ray expected = CameraRay(views[v].camera, x + 0.5f, y + 0.5f);
    expected.t_near = 0.25f;
    ASSERT_TRUE(batch.rays[i] == expected) << i;
    ASSERT_EQ(batch.rays[i].origin.x, v);
  }
}

TEST(RaySamplerTest, EveryPixelOfEveryViewIsDrawnEquallyOften) {
  // 12 + 8 pixels: views of different sizes do not bias pixels.
  const std::vector<View> views = {MakeView(0, 4, 3), MakeView(1, 4, 2)};
  const RaySampler sampler(views, Background::kBlack, 0, 7);
  ThreadPool pool(1);
  Batch batch;
  constexpr int kRays = 20000;
  sampler.Fill(0, kRays, &pool, &batch);
  std::map<std::array<long, 3>, int> counts;
  for (const Vec3& target : batch.targets) {
    ++counts[{std::lround(target.x * 255), std::lround(target.y * 255),
              std::lround(target.z * 255)}];
  }
  ASSERT_EQ(counts.size(), 20u);
  // 1000 expected, standard deviation 31: five of them.
  for (const auto& [pixel, count] : counts) EXPECT_NEAR(count, kRays / 20, 155);
}

TEST(RaySamplerTest, BatchesDoNotDependOnThreads) {
  const std::vector<View> views = {MakeView(0, 4, 3), MakeView(1, 5, 2)};
  const RaySampler sampler(views, Background::kRandom, 0.1f, 1);
  ThreadPool one(1), three(3);
  Batch a, b;
  sampler.Fill(9, 3000, &one, &a);
  sampler.Fill(9, 3000, &three, &b);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.jitters, b.jitters);
  EXPECT_EQ(a.backgrounds, b.backgrounds);
  for (size_t i = 0; i < 3000; ++i) ASSERT_TRUE(a.rays[i] == b.rays[i]);
}

TEST(RaySamplerTest, RayDependsOnItsIndexAndNotOnHowManyThereAre) {
  const std::vector<View> views = {MakeView(0, 8, 8)};
  const RaySampler sampler(views, Background::kRandom, 0, 1);
  ThreadPool pool(1);
  Batch few, many;
  sampler.Fill(5, 64, &pool, &few);
  sampler.Fill(5, 640, &pool, &many);
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(few.targets[i], many.targets[i]);
    ASSERT_EQ(few.jitters[i], many.jitters[i]);
  }
}

TEST(RaySamplerTest, ResizedBatchIsWhatFillGives) {
  const std::vector<View> views = {MakeView(0, 8, 8)};
  const RaySampler sampler(views, Background::kRandom, 0, 1);
  ThreadPool pool(2);
  Batch resized;
  sampler.Fill(5, 300, nullptr, &resized);
  for (const int n_rays : {1000, 1000, 70, 0, 600}) {
    sampler.Resize(n_rays, &pool, &resized);
    Batch filled;
    sampler.Fill(5, n_rays, &pool, &filled);
    ASSERT_EQ(resized.n_rays, n_rays);
    ASSERT_EQ(resized.targets, filled.targets);
    ASSERT_EQ(resized.jitters, filled.jitters);
    ASSERT_EQ(resized.backgrounds, filled.backgrounds);
    ASSERT_EQ(resized.rays.size(), filled.rays.size());
    for (size_t i = 0; i < filled.rays.size(); ++i) {
      ASSERT_TRUE(resized.rays[i] == filled.rays[i]) << i;
    }
  }
}

TEST(RaySamplerTest, StepAndSeedChangeEverything) {
  const std::vector<View> views = {MakeView(0, 8, 8)};
  ThreadPool pool(1);
  Batch base, other_step, other_seed;
  RaySampler(views, Background::kRandom, 0, 1).Fill(0, 256, &pool, &base);
  RaySampler(views, Background::kRandom, 0, 1).Fill(1, 256, &pool, &other_step);
  RaySampler(views, Background::kRandom, 0, 2).Fill(0, 256, &pool, &other_seed);
  EXPECT_NE(base.jitters, other_step.jitters);
  EXPECT_NE(base.jitters, other_seed.jitters);
  EXPECT_NE(base.targets, other_step.targets);
  EXPECT_NE(base.targets, other_seed.targets);
}

TEST(RaySamplerTest, TargetIsCompositedOnTheRaysBackground) {
  const std::vector<View> views = {MakeView(1, 1, 1, /*alpha=*/51)};  // a fifth opaque
  ThreadPool pool(1);
  Batch batch;
  RaySampler(views, Background::kWhite, 0, 1).Fill(0, 64, &pool, &batch);
  EXPECT_EQ(batch.backgrounds[0], (Vec3{1, 1, 1}));
  EXPECT_NEAR(batch.targets[0].x, 50 / 255.0 * 0.2 + 0.8, 1e-6);
  EXPECT_NEAR(batch.targets[0].y, 0.8, 1e-6);
  RaySampler(views, Background::kBlack, 0, 1).Fill(0, 64, &pool, &batch);
  EXPECT_NEAR(batch.targets[0].x, 50 / 255.0 * 0.2, 1e-6);
  RaySampler(views, Background::kRandom, 0, 1).Fill(0, 4096, &pool, &batch);
  Vec3 mean{};
  for (size_t i = 0; i < 4096; ++i) {
    const Vec3 background = batch.backgrounds[i];
    ASSERT_NEAR(batch.targets[i].y, 0.8 * background.y, 1e-6);
    mean = mean + background * (1 / 4096.0f);
  }
  // Uniform in [0, 1]: standard deviation of the mean 0.0045.
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(mean[c], 0.5, 0.025);
}

TEST(RaySamplerTest, ImageWithoutAlphaIsOpaque) {
  View view = MakeView(0, 1, 1);
  view.image = {1, 1, 3, {51, 102, 255}};
  const std::vector<View> views = {view};
  ThreadPool pool(1);
  Batch batch;
  RaySampler(views, Background::kWhite, 0, 1).Fill(0, 1, &pool, &batch);
  EXPECT_NEAR(batch.targets[0].x, 0.2, 1e-6);
  EXPECT_NEAR(batch.targets[0].y, 0.4, 1e-6);
  EXPECT_NEAR(batch.targets[0].z, 1.0, 1e-6);
}

}  // namespace
}  // namespace nerf
