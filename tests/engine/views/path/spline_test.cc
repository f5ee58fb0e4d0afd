#include "engine/views/path/spline.h"

#include <gtest/gtest.h>

#include "tests/engine/views/path/captures.h"

namespace nerf {
namespace {

std::vector<Mat34> Keyframes() {
  std::vector<Mat34> keys;
  for (const CaptureCamera& camera : Ring(5, 0, 0.9)) keys.push_back(camera.camera_to_world);
  return keys;
}

void ExpectNear(const Mat34& a, const Mat34& b) {
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      EXPECT_NEAR(a.m[row][column], b.m[row][column], 2e-4) << row << column;
    }
  }
}

void ExpectOrthonormal(const Mat34& pose) {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_NEAR(Dot(pose.Column(i), pose.Column(j)), i == j ? 1 : 0, 1e-4);
    }
  }
}

TEST(SplineTest, OpenCurveGoesThroughEachKeyframe) {
  const std::vector<Mat34> keys = Keyframes();
  const std::vector<Mat34> poses = SplineThrough(keys, 4 * 8 + 1, false);
  ASSERT_EQ(poses.size(), 33u);
  for (size_t i = 0; i < keys.size(); ++i) ExpectNear(poses[8 * i], keys[i]);
  for (const Mat34& pose : poses) ExpectOrthonormal(pose);
}

TEST(SplineTest, ClosedCurveLeadsBackWithoutRepeating) {
  const std::vector<Mat34> keys = Keyframes();
  const std::vector<Mat34> poses = SplineThrough(keys, 5 * 8, true);
  ASSERT_EQ(poses.size(), 40u);
  for (size_t i = 0; i < keys.size(); ++i) ExpectNear(poses[8 * i], keys[i]);
  const float step = Norm(poses[1].Column(3) - poses[0].Column(3));
  EXPECT_LT(Norm(poses[39].Column(3) - poses[0].Column(3)), 3 * step);
}

TEST(SplineTest, DoubleAndSingleKeyframesAreNoTrouble) {
  const std::vector<Mat34> keys = Keyframes();
  for (const Mat34& pose : SplineThrough(std::vector<Mat34>(3, keys[0]), 7, false)) {
    ExpectNear(pose, keys[0]);
  }
  for (const Mat34& pose : SplineThrough(std::vector<Mat34>{keys[1]}, 3, true)) {
    ExpectNear(pose, keys[1]);
  }
  std::vector<Mat34> doubled = keys;
  doubled.insert(doubled.begin(), keys[0]);
  for (const Mat34& pose : SplineThrough(doubled, 50, false)) ExpectOrthonormal(pose);
  EXPECT_TRUE(SplineThrough(keys, 0, false).empty());
  ExpectNear(SplineThrough(keys, 1, false)[0], keys[0]);
}

TEST(QuaternionTest, EveryTurnComesBack) {
  for (const CaptureCamera& camera : Ring(12, 0, 1, 2, -3)) {
    Mat34 pose = camera.camera_to_world;
    SetRotation(QuaternionOf(camera.camera_to_world), &pose);
    ExpectNear(pose, camera.camera_to_world);
  }
  for (const Quaternion& half : {Quaternion{0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}) {
    Mat34 pose, back;
    SetRotation(half, &pose);
    SetRotation(QuaternionOf(pose), &back);
    ExpectNear(pose, back);
  }
}

}  // namespace
}  // namespace nerf
