#include "engine/program/session/picture_limits.h"

#include <vector>

#include "gtest/gtest.h"

namespace nerf {
namespace {

SceneDescription Pictures(int n, int width, int height) {
  SceneDescription description;
  description.train.resize(static_cast<size_t>(n));
  for (ViewDescription& view : description.train) {
    view.camera.width = width;
    view.camera.height = height;
  }
  return description;
}

TrainConfig WithBudget(BudgetKind kind, double amount) {
  TrainConfig config;
  config.budget = {kind, amount};
  return config;
}

TEST(MaxSideTest, BudgetLimitsLargePictures) {
  // 40 M samples for 50 pictures: 2.4 megapixels each.
  const int side = MaxSideOf(WithBudget(BudgetKind::kSamples, 40e6), Pictures(50, 3000, 4000), {});
  EXPECT_NEAR(side * side * 0.75, 2.4e6, 1e4);
  EXPECT_EQ(MaxSideOf(WithBudget(BudgetKind::kSamples, 40e6), Pictures(50, 1080, 1920), {}), 0);
  EXPECT_EQ(MaxSideOf(WithBudget(BudgetKind::kSamples, 1e9), Pictures(50, 3000, 4000), {}), 0);
}

TEST(MaxSideTest, PicturesOfAMegapixelAreNeverReduced) {
  EXPECT_EQ(MaxSideOf(WithBudget(BudgetKind::kSteps, 1), Pictures(500, 1024, 1024), {}), 0);
  const int side = MaxSideOf(WithBudget(BudgetKind::kSteps, 1), Pictures(500, 4096, 4096), {});
  EXPECT_EQ(side, 1024);
}

TEST(MaxSideTest, SecondsOnAGpuPayForMore) {
  const TrainConfig config = WithBudget(BudgetKind::kSeconds, 20);
  const SceneDescription pictures = Pictures(50, 3000, 4000);
  EXPECT_GT(MaxSideOf(config, pictures, {}), 1000);
  EXPECT_EQ(MaxSideOf(config, pictures, {kOnCuda, 132, 1980, uint64_t{80} << 30}), 0)
      << "as they are";
}

TEST(MaxSideTest, MaxSideOfTheConfigIsTaken) {
  TrainConfig config = WithBudget(BudgetKind::kSteps, 1);
  config.max_side = 0;
  EXPECT_EQ(MaxSideOf(config, Pictures(500, 4096, 4096), {}), 0);
  config.max_side = 700;
  EXPECT_EQ(MaxSideOf(config, Pictures(500, 4096, 4096), {}), 700);
}

TEST(PixelsAlongBoxTest, AreTheMedianOverTheViews) {
  SceneDescription description = Pictures(3, 800, 800);
  description.geometry.box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
  const float distances[] = {4, 100, 2};
  for (int i = 0; i < 3; ++i) {
    Camera& camera = description.train[i].camera;
    camera.fl_x = 1000;
    camera.camera_to_world.m[2][3] = distances[i];
  }
  EXPECT_NEAR(PixelsAlongBox(description), 750, 1e-3) << "1000 * 3 / 4";
  for (ViewDescription& view : description.train) view.camera.camera_to_world.m[2][3] = 0;
  EXPECT_NEAR(PixelsAlongBox(description), 2000, 1e-3) << "from within, at half a side";
  EXPECT_EQ(PixelsAlongBox(SceneDescription()), 0);
}

// Cameras on the x axis.
SceneDescription PanoramasAt(const std::vector<float>& places) {
  SceneDescription description = Pictures(static_cast<int>(places.size()), 1024, 512);
  for (size_t i = 0; i < places.size(); ++i) {
    description.train[i].camera.lens = LensModel::kEquirectangular;
    description.train[i].camera.camera_to_world.m[0][3] = places[i];
  }
  return description;
}

TEST(PanoramaSpacingTest, IsTheMedianDistanceToTheNearestCamera) {
  EXPECT_FLOAT_EQ(PanoramaSpacing(PanoramasAt({0, 1, 3, 10})), 2) << "1, 1, 2, 7";
  EXPECT_FLOAT_EQ(PanoramaSpacing(PanoramasAt({5, 0.5f})), 4.5f);
}

TEST(PanoramaSpacingTest, OtherScenesHaveNone) {
  EXPECT_EQ(PanoramaSpacing(SceneDescription()), 0);
  EXPECT_EQ(PanoramaSpacing(PanoramasAt({3})), 0);
  EXPECT_EQ(PanoramaSpacing(PanoramasAt({3, 3, 3, 8})), 0) << "from a tripod";
  EXPECT_EQ(PanoramaSpacing(Pictures(4, 1024, 512)), 0);
  SceneDescription mixed = PanoramasAt({0, 1, 2, 3});
  mixed.train[0].camera.lens = mixed.train[1].camera.lens = LensModel::kPinhole;
  EXPECT_EQ(PanoramaSpacing(mixed), 0) << "not most of them";
  mixed.train[1].camera.lens = LensModel::kEquirectangular;
  EXPECT_EQ(PanoramaSpacing(mixed), 1);
}

TEST(PanoramaNearTest, IsHalfOfTheSpacingWithinBounds) {
  const auto near_of = [](const std::vector<float>& places) {
    SceneDescription description = PanoramasAt(places);
    description.geometry.box = {{-1, -1, -1}, {1, 1, 1}};
    description.geometry.near = 0.05f;
    return PanoramaNear(description);
  };
  EXPECT_FLOAT_EQ(near_of({-1, -0.6f, -0.2f, 0.2f, 0.6f, 1}), 0.2f);
  EXPECT_FLOAT_EQ(near_of({-1, 1}), 0.3f) << "not half of 2";
  EXPECT_EQ(near_of({0, 0.06f, 1, 1.06f}), 0) << "pairs, for both eyes: the scene's own";
  EXPECT_EQ(near_of({0}), 0);
}

TEST(PanoramaNearTest, PointsSayWhereTheSceneIs) {
  SceneDescription description = PanoramasAt({-1, 1});
  description.geometry.box = {{-1, -1, -1}, {1, 1, 1}};
  description.points.push_back({0, {0, 0, 1}});
  EXPECT_EQ(PanoramaNear(description), 0);
}

TEST(NearOfViewsTest, BoundsSayWhereRaysBeginAndHowFineTheBoxIsSeen) {
  SceneDescription description = Pictures(3, 400, 300);
  description.geometry.box = {{-1, -1, -1}, {1, 1, 1}};
  for (ViewDescription& view : description.train) view.camera.fl_x = 300;
  EXPECT_FALSE(FacesOneWay(description));
  EXPECT_EQ(NearOfViews(description), 0);
  const double by_box = PixelsAlongBox(description);
  description.nearest = 2;
  description.farthest = 6;
  ASSERT_TRUE(FacesOneWay(description));
  EXPECT_FLOAT_EQ(NearOfViews(description), 1.2f);
  EXPECT_NEAR(PixelsAlongBox(description), description.train[0].camera.fl_x * 2 / 3, 1e-3);
  EXPECT_NE(PixelsAlongBox(description), by_box);
  Mat34& turned = description.train[1].camera.camera_to_world;
  for (auto& row : turned.m) row[0] = -row[0], row[2] = -row[2];
  EXPECT_FALSE(FacesOneWay(description)) << "around a place";
  for (auto& row : turned.m) row[0] = -row[0], row[2] = -row[2];
  float& right = description.train[1].camera.camera_to_world.m[0][3];
  right += 2;
  EXPECT_FALSE(FacesOneWay(description)) << "far apart, for what lies 2 away: one is 1.33 off";
  right -= 2;
  description.farthest = 1;
  EXPECT_FALSE(FacesOneWay(description)) << "nonsense";
}

TEST(SamplesOfBudgetTest, SecondsCountAtAUsualRate) {
  const DeviceFacts l4{kOnCuda, 58, 2040, uint64_t{24} << 30};
  const DeviceFacts h100{kOnCuda, 132, 1980, uint64_t{80} << 30};
  EXPECT_EQ(SamplesOfBudget(WithBudget(BudgetKind::kSamples, 5e6), {}), 5e6);
  EXPECT_EQ(SamplesOfBudget(WithBudget(BudgetKind::kSamples, 5e6), h100), 5e6);
  EXPECT_EQ(SamplesOfBudget(WithBudget(BudgetKind::kSteps, 10), {}), 81920);
  EXPECT_EQ(SamplesOfBudget(WithBudget(BudgetKind::kSeconds, 30), {}), 75e6);
  EXPECT_EQ(SamplesOfBudget(WithBudget(BudgetKind::kSeconds, 30), l4), 1200e6);
  EXPECT_EQ(SamplesOfBudget(WithBudget(BudgetKind::kSeconds, 30), h100), 3300e6);
}

TEST(ReductionTextTest, SaysBothSizes) {
  EXPECT_EQ(ReductionText({{3000, 4000}, {1152, 1536}}), "3000x4000 pixels reduced to 1152x1536");
  EXPECT_EQ(ReductionText({}), "");
}

TEST(PictureLimitsTest, SideThatFitsIsTheLargest) {
  ViewDescription view;
  view.camera.width = 6000;
  view.camera.height = 4000;
  view.header.n_channels = 3;
  const std::vector<ViewDescription> views(100, view);
  EXPECT_EQ(SideThatFits(views, 100.0 * 3000 * 2000 * 3), 3000);
  EXPECT_EQ(SideThatFits(views, 1e4), 0);
  EXPECT_EQ(SideThatFits(views, -1), 0);
  EXPECT_GE(SideThatFits(views, 1e15), 6000);
}

}  // namespace
}  // namespace nerf
