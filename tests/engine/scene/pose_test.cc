#include "engine/scene/pose.h"

#include <cmath>

#include "gtest/gtest.h"

namespace nerf {
namespace {

Pose MakePose(double angle, Vec3d position) {
  Pose pose;
  const double c = std::cos(angle), s = std::sin(angle);
  const double rows[3][3] = {{c, 0, s}, {s * 0.6, 0.8, -c * 0.6}, {-s * 0.8, 0.6, c * 0.8}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) pose.m[i][j] = rows[i][j];
    pose.m[i][3] = position[i];
  }
  return pose;
}

TEST(PoseTest, NgpPlacementCyclesAxesAfterScaleAndOffset) {
  const Similarity placement = NgpPlacement(0.33, {0.5, 0.6, 0.7});
  const Vec3d placed = placement.ApplyToPoint({1, 2, 3});
  EXPECT_NEAR(placed[0], 0.33 * 2 + 0.6, 1e-12);
  EXPECT_NEAR(placed[1], 0.33 * 3 + 0.7, 1e-12);
  EXPECT_NEAR(placed[2], 0.33 * 1 + 0.5, 1e-12);
}

TEST(PoseTest, NormalizingPlacementTurnsUpCentersAndScales) {
  std::vector<Pose> poses;
  for (int i = 0; i < 7; ++i) poses.push_back(MakePose(0.4 * i, {10.0 + 3 * i, -4.0 + i * i, 2.0}));
  const Similarity placement = NormalizingPlacement(poses);
  Vec3d up = {0, 0, 0}, mean = {0, 0, 0};
  double extent = 0;
  for (const Pose& pose : poses) {
    const Pose placed = placement.ApplyToPose(pose);
    for (int i = 0; i < 3; ++i) {
      up[i] += placed.m[i][1];
      mean[i] += placed.m[i][3];
      extent = std::max(extent, std::abs(placed.m[i][3]));
    }
  }
  EXPECT_NEAR(up[0], 0, 1e-9);
  EXPECT_NEAR(up[1], 0, 1e-9);
  EXPECT_GT(up[2], 0);
  for (const double coordinate : mean) EXPECT_NEAR(coordinate, 0, 1e-9);
  EXPECT_NEAR(extent, 1, 1e-12);
}

TEST(PoseTest, NormalizingPlacementOfUpsideDownCamerasTurnsThemRound) {
  Pose pose;
  pose.m[1][1] = pose.m[2][2] = 0;
  pose.m[1][2] = 1;  // up is -z
  pose.m[2][1] = -1;
  const Pose placed = NormalizingPlacement(std::vector<Pose>{pose, pose}).ApplyToPose(pose);
  EXPECT_NEAR(placed.m[2][1], 1, 1e-12);
}

TEST(PoseTest, InverseOfASceneFrameLeadsBack) {
  const Similarity placement =
      NormalizingPlacement(std::vector<Pose>{MakePose(0.3, {1, 2, 3}), MakePose(1.3, {-4, 2, 5})});
  const Similarity stored = FromSceneFrame(ToSceneFrame(placement));
  const Vec3d back = Inverse(stored).ApplyToPoint(stored.ApplyToPoint({0.5, -7, 3}));
  EXPECT_NEAR(back[0], 0.5, 1e-5);
  EXPECT_NEAR(back[1], -7, 1e-5);
  EXPECT_NEAR(back[2], 3, 1e-5);
}

TEST(PoseTest, OrthonormalizeTakesOutUniformScaleAndRefusesTheRest) {
  const Pose good = MakePose(0.7, {1, 2, 3});
  double scale = 0;
  Pose scaled = good;
  for (auto& row : scaled.m) {
    for (int j = 0; j < 3; ++j) row[j] *= 2.5;
  }
  ASSERT_TRUE(Orthonormalize(&scaled, &scale));
  EXPECT_NEAR(scale, 2.5, 1e-12);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_NEAR(scaled.m[i][j], good.m[i][j], 1e-12);
  }
  Pose mirrored = good;
  for (auto& row : mirrored.m) row[0] = -row[0];
  EXPECT_FALSE(Orthonormalize(&mirrored, &scale));
  Pose sheared = good;
  for (auto& row : sheared.m) row[0] += 0.05 * row[1];
  EXPECT_FALSE(Orthonormalize(&sheared, &scale));
  Pose uneven = good;
  for (auto& row : uneven.m) row[2] *= 1.1;
  EXPECT_FALSE(Orthonormalize(&uneven, &scale));
  Pose zero;
  for (auto& row : zero.m) row[0] = row[1] = row[2] = 0;
  EXPECT_FALSE(Orthonormalize(&zero, &scale));
}

}  // namespace
}  // namespace nerf
