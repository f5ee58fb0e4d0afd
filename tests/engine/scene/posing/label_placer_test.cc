#include "engine/scene/posing/label_placer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nerf {
namespace {

TEST(LabelPlacerTest, LoneLabelStandsWhereItIsWanted) {
  LabelPlacer placer(200);
  placer.Keep(100, 100);
  const auto left = placer.Place(100, 100, -1, 0, 14, 10);
  ASSERT_TRUE(left.has_value());
  EXPECT_LT(left->right, 100);
  EXPECT_GT(left->right, 90);
  EXPECT_LT(left->top, 100);
  EXPECT_GT(left->bottom, 100);
}

TEST(LabelPlacerTest, LabelsOfOnePlaceDoNotOverlap) {
  LabelPlacer placer(200);
  placer.Keep(100, 100);
  std::vector<LabelBox> boxes;
  for (int i = 0; i < 500; ++i) {
    const auto box = placer.Place(100, 100, 1, 0, 14, 10);
    if (box.has_value()) boxes.push_back(*box);
  }
  EXPECT_GE(boxes.size(), 8u);
  EXPECT_LT(boxes.size(), 100u) << "labels without room are left out";
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_FALSE(boxes[i].Contains(100, 100));
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(boxes[i].Overlaps(boxes[j])) << i << " " << j;
  }
}

TEST(LabelPlacerTest, LabelsStayInThePictureAndSpareWhatTheyCan) {
  LabelPlacer placer(200);
  const auto corner = placer.Place(1, 1, -1, -1, 14, 10);
  ASSERT_TRUE(corner.has_value());
  EXPECT_GE(corner->left, 0);
  EXPECT_GE(corner->top, 0);
  placer.Spare(112, 100);
  const auto moved = placer.Place(100, 100, 1, 0, 14, 10);
  ASSERT_TRUE(moved.has_value());
  EXPECT_FALSE(moved->Contains(112, 100));
  EXPECT_FALSE(placer.Place(-500, 100, 1, 0, 14, 10).has_value());
  EXPECT_FALSE(placer.Place(std::nan(""), 100, 1, 0, 14, 10).has_value());
}

}  // namespace
}  // namespace nerf
