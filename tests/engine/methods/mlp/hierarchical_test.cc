#include "engine/methods/mlp/hierarchical.h"

#include <cmath>
#include <vector>

#include "engine/methods/mlp/describe/mlp_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

TEST(HierarchicalTest, UniformSamplesReachBothEnds) {
  std::vector<float> ts(5);
  UniformSamples(2, 6, 5, nullptr, ts.data());
  EXPECT_THAT(ts, ElementsAre(2, 3, 4, 5, 6));
}

TEST(HierarchicalTest, JitteredSamplesStayBetweenTheMiddles) {
  std::vector<float> ts(3);
  const float jitters[] = {0.5f, 0, 0.25f};
  UniformSamples(0, 2, 3, jitters, ts.data());
  EXPECT_THAT(ts, ElementsAre(0.25f, 0.5f, 1.625f));
}

// Worked by hand: middles 0.5, 1.5, 2.5, 3.5; the weights inside are 0, 1 and 1, so that half of
// the distribution lies in [1.5, 2.5] and half in [2.5, 3.5].
TEST(HierarchicalTest, ImportanceSamplesLieWhereTheWeightsAre) {
  const float ts[] = {0, 1, 2, 3, 4}, weights[] = {9, 0, 1, 1, 9}, us[] = {0.25f, 0.5f, 0.75f};
  std::vector<float> merged(8);
  ImportanceSamples(5, ts, weights, 3, us, merged.data());
  EXPECT_THAT(merged,
              Pointwise(FloatNear(1e-3f), {0.0f, 1.0f, 2.0f, 2.0f, 2.5f, 3.0f, 3.0f, 4.0f}));
}

TEST(HierarchicalTest, WithoutWeightsTheSamplesAreEven) {
  const float ts[] = {0, 1, 2, 3}, weights[] = {0, 0, 0, 0};
  std::vector<float> merged(7);
  ImportanceSamples(4, ts, weights, 3, nullptr, merged.data());
  EXPECT_THAT(merged, Pointwise(FloatNear(1e-3f), {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 2.5f, 3.0f}));
}

TEST(HierarchicalTest, TheLastIntervalHasNoEnd) {
  const float ts[] = {1, 1.5f, 3};
  std::vector<float> lengths(3);
  SampleLengths(3, ts, lengths.data());
  EXPECT_THAT(lengths, ElementsAre(0.5f, 1.5f, 1e10f));
}

TEST(HierarchicalTest, DepthPlanesLieFurtherAlongSlantedRays) {
  TrainConfig config;
  config.method = "mlp";
  SceneGeometry geometry;
  geometry.box = {{-1, -1, -1}, {1, 1, 1}};
  geometry.near = 2;
  Mlp(config).far = 6;
  const Vec3 axis{0, 0, -1};
  const float half = std::sqrt(0.5f);
  const Ray ray{{0, 0, 4}, {half, 0, -half}};
  EXPECT_EQ(BoundsOfRay(config, geometry, ray, axis).t_near, 2);
  Mlp(config).depth_planes = 1;
  EXPECT_FLOAT_EQ(BoundsOfRay(config, geometry, ray, axis).t_near, 2 / half);
  EXPECT_FLOAT_EQ(BoundsOfRay(config, geometry, ray, axis).t_far, 6 / half);
}

TEST(HierarchicalTest, WithoutFarTheBoxBoundsTheRay) {
  TrainConfig config;
  config.method = "mlp";
  SceneGeometry geometry;
  geometry.box = {{-1, -1, -1}, {1, 1, 1}};
  const RayBounds through = BoundsOfRay(config, geometry, {{0, 0, 4}, {0, 0, -1}}, {});
  EXPECT_FLOAT_EQ(through.t_near, 3);
  EXPECT_FLOAT_EQ(through.t_far, 5);
  EXPECT_TRUE(BoundsOfRay(config, geometry, {{3, 0, 4}, {0, 0, -1}}, {}).IsEmpty());
}

}  // namespace
}  // namespace nerf
