#include "server/rpc/convert/scene_descriptions.h"

#include <gtest/gtest.h>

#include <memory>

namespace nerf {
namespace {

SceneDescriptions::Description Some() { return std::make_shared<v1::DescribeSceneResponse>(); }

TEST(SceneDescriptionsTest, TheOnesAskedForLastStayWithinTheLimit) {
  SceneDescriptions kept(100);
  const auto one = Some(), two = Some(), three = Some();
  kept.Add({1, {}}, one, 40);
  kept.Add({2, {}}, two, 40);
  EXPECT_EQ(kept.Find({1, {}}), one);
  kept.Add({3, {}}, three, 40);
  EXPECT_EQ(kept.Find({1, {}}), one);
  EXPECT_EQ(kept.Find({2, {}}), nullptr);
  EXPECT_EQ(kept.Find({3, {}}), three);
}

TEST(SceneDescriptionsTest, SplitsAreKeptApartAndLargeOnesNot) {
  SceneDescriptions kept(100);
  const auto one = Some();
  kept.Add({1, 0}, one, 10);
  kept.Add({1, 0}, Some(), 10);
  EXPECT_EQ(kept.Find({1, 0}), one);
  EXPECT_EQ(kept.Find({1, {}}), nullptr);
  kept.Add({2, {}}, Some(), 101);
  EXPECT_EQ(kept.Find({2, {}}), nullptr);
  EXPECT_EQ(kept.Find({1, 0}), one);
}

}  // namespace
}  // namespace nerf
