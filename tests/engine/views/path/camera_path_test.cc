#include "engine/views/path/camera_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/engine/views/path/captures.h"

namespace nerf {
namespace {

PathScene SceneOf(std::vector<CaptureCamera> cameras) {
  PathScene scene;
  scene.up = UpOf(cameras, Vec3{0, 0, 1}, std::nullopt);
  scene.cameras = std::move(cameras);
  return scene;
}

float DistanceToNearest(const PathScene& scene, const Mat34& pose) {
  float nearest = 1e9f;
  for (const CaptureCamera& camera : scene.cameras) {
    nearest = std::min(nearest, Norm(camera.position() - pose.Column(3)));
  }
  return nearest;
}

void ExpectSound(const CameraPath& path, int n) {
  ASSERT_EQ(path.poses.size(), static_cast<size_t>(n));
  EXPECT_NE(path.kind, PathKind::kAuto);
  for (const Mat34& pose : path.poses) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(Norm(pose.Column(i)), 1, 1e-4);
      EXPECT_NEAR(Dot(pose.Column(i), pose.Column((i + 1) % 3)), 0, 1e-4);
    }
    EXPECT_NEAR(Dot(Cross(pose.Column(0), pose.Column(1)), pose.Column(2)), 1, 1e-4);
    EXPECT_TRUE(std::isfinite(Norm(pose.Column(3))));
  }
}

TEST(MakePathTest, RingBecomesAnOrbitAtItsHeight) {
  const PathScene scene = SceneOf(Ring(30, 0, 1));
  const CameraPath path = MakePath(scene, PathKind::kAuto, 12);
  ExpectSound(path, 12);
  EXPECT_EQ(path.kind, PathKind::kOrbit);
  EXPECT_TRUE(path.is_closed);
  for (const Mat34& pose : path.poses) {
    EXPECT_NEAR(pose.m[2][3], 1, 0.05);
    EXPECT_NEAR(std::hypot(pose.m[0][3], pose.m[1][3]), 4, 0.05);
    EXPECT_GT(Dot(pose.Column(2), Normalized(pose.Column(3))), 0.999) << "looks at the center";
  }
}

TEST(MakePathTest, OrbitFollowsCamerasThatStandFurtherOffOnOneSide) {
  std::vector<CaptureCamera> cameras = Ring(40, 0, 1);
  for (CaptureCamera& camera : cameras) {
    const Vec3 p = camera.position();
    if (p.x > 0) camera = CameraAt(p * 2.0f, {0, 0, 0});
  }
  const CameraPath path = MakePath(SceneOf(cameras), PathKind::kOrbit, 60);
  float nearest = 1e9f, farthest = 0;
  for (const Mat34& pose : path.poses) {
    nearest = std::min(nearest, Norm(pose.Column(3)));
    farthest = std::max(farthest, Norm(pose.Column(3)));
  }
  EXPECT_LT(nearest, 4.6);
  EXPECT_GT(farthest, 7.5);
}

// The corners of a box.
std::vector<Vec3> Box(Vec3 low, Vec3 high) {
  std::vector<Vec3> corners;
  for (int i = 0; i < 8; ++i) {
    corners.push_back({i & 1 ? low.x : high.x, i & 2 ? low.y : high.y, i & 4 ? low.z : high.z});
  }
  return corners;
}

bool ShowsAll(const std::vector<Vec3>& points, const Mat34& pose) {
  CaptureCamera camera;  // the lens of the tests' captures
  camera.camera_to_world = pose;
  return std::all_of(points.begin(), points.end(), [&](Vec3 p) { return Sees(camera, p); });
}

TEST(MakePathTest, OrbitMovesAwayFromAnObjectThatItWouldCut) {
  PathScene scene = SceneOf(Ring(30, 0, 1));
  scene.object = Box({-1, -1, -2.5f}, {1, 1, 1});
  for (const Mat34& pose : MakePath(scene, PathKind::kOrbit, 12).poses)
    EXPECT_TRUE(ShowsAll(scene.object, pose));
  PathScene unaware = scene;
  unaware.object.clear();
  const std::vector<Mat34> cut = MakePath(unaware, PathKind::kOrbit, 12).poses;
  EXPECT_FALSE(ShowsAll(scene.object, cut[0]));
}

TEST(MakePathTest, OrbitOfAnObjectThatFitsIsThatOfTheCameras) {
  PathScene scene = SceneOf(Ring(30, 0, 1));
  const std::vector<Mat34> poses = MakePath(scene, PathKind::kOrbit, 12).poses;
  scene.object = Box({-1, -1, -1}, {1, 1, 1});
  EXPECT_EQ(MakePath(scene, PathKind::kOrbit, 12).poses, poses);
}

TEST(MakePathTest, OrbitDoesNotLeaveItsCamerasForAnObjectTooLarge) {
  PathScene scene = SceneOf(Ring(30, 0, 1));
  const std::vector<Mat34> poses = MakePath(scene, PathKind::kOrbit, 12).poses;
  scene.object = Box({-5, -5, -5}, {5, 5, 5});
  EXPECT_EQ(MakePath(scene, PathKind::kOrbit, 12).poses, poses);
  scene.object = {{0, 0, -3}, {0, 0, 3}};
  scene.cameras.front().bottom = 0;  // a lens that sees upwards only
  EXPECT_EQ(MakePath(scene, PathKind::kOrbit, 12).poses, poses);
}

TEST(MakePathTest, HalfARingIsFollowedAndNotLeft) {
  const PathScene scene = SceneOf(Ring(30, 0, 0.5));
  const CameraPath path = MakePath(scene, PathKind::kAuto, 20);
  ExpectSound(path, 20);
  EXPECT_EQ(path.kind, PathKind::kCameras);
  for (const Mat34& pose : path.poses) EXPECT_LT(DistanceToNearest(scene, pose), 0.6);
}

TEST(MakePathTest, CamerasBeforeAWallBecomeASpiral) {
  const PathScene scene = SceneOf(Wall(5));
  const CameraPath path = MakePath(scene, PathKind::kAuto, 30);
  ExpectSound(path, 30);
  EXPECT_EQ(path.kind, PathKind::kSpiral);
  for (const Mat34& pose : path.poses) {
    EXPECT_NEAR(pose.m[1][3], -5, 0.1);
    EXPECT_LT(std::hypot(pose.m[0][3], pose.m[2][3]), 0.6);
    EXPECT_GT(pose.m[2][1], 0.9) << "up stays up";
  }
}

TEST(MakePathTest, FewViewsOfASpiralAreAllDifferent) {
  const PathScene scene = SceneOf(Wall(5));
  for (const int n : {2, 3, 8, 16, 24}) {
    const std::vector<Mat34> poses = MakePath(scene, PathKind::kSpiral, n).poses;
    ASSERT_EQ(poses.size(), static_cast<size_t>(n));
    for (size_t i = 0; i < poses.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        EXPECT_GT(
            std::hypot(poses[i].m[0][3] - poses[j].m[0][3], poses[i].m[2][3] - poses[j].m[2][3]),
            0.02)
            << n << ": " << j << ", " << i;
      }
    }
  }
}

TEST(MakePathTest, FlightLooksDownAllTheWay) {
  const PathScene scene = SceneOf(Flight(4, 6));
  for (const PathKind kind : {PathKind::kAuto, PathKind::kFlyby}) {
    const CameraPath path = MakePath(scene, kind, 25);
    ExpectSound(path, 25);
    for (const Mat34& pose : path.poses) {
      EXPECT_NEAR(pose.m[2][3], 10, 0.01);
      EXPECT_GT(pose.m[2][2], 0.99) << "backward points up";
    }
  }
}

// What the outermost of few cameras show at the border, no other one shows.
TEST(MakePathTest, FlightOfFewCamerasStaysInsideOfTheOutermost) {
  const PathScene scene = SceneOf(Flight(3, 5));  // x from 0 to 8
  for (const Mat34& pose : MakePath(scene, PathKind::kCameras, 20).poses) {
    EXPECT_LT(std::abs(pose.m[0][3] - 4), 0.7f * 4);
  }
}

TEST(MakePathTest, CamerasInAnyOrderGiveAShortWay) {
  std::vector<CaptureCamera> cameras = Ring(40, 0, 0.6);
  std::mt19937 random(1);
  std::shuffle(cameras.begin(), cameras.end(), random);
  const CameraPath path = MakePath(SceneOf(cameras), PathKind::kCameras, 60);
  float length = 0;
  for (size_t i = 1; i < path.poses.size(); ++i) {
    length += Norm(path.poses[i].Column(3) - path.poses[i - 1].Column(3));
  }
  EXPECT_LT(length, 1.3 * 0.6 * 2 * std::numbers::pi * 4);
}

TEST(MakePathTest, EqualScenesGiveEqualPaths) {
  const PathScene scene = SceneOf(Ring(30, 0, 0.5));
  EXPECT_EQ(MakePath(scene, PathKind::kAuto, 9).poses, MakePath(scene, PathKind::kAuto, 9).poses);
}

// Captures that leave nothing to go by: each kind gives sound poses.
TEST(MakePathTest, DegenerateCapturesGiveSoundPoses) {
  const CaptureCamera one = CameraAt({1, 2, 3}, {0, 0, 0});
  const CaptureCamera down = CameraAt({0, 0, 3}, {0, 0, 0});
  for (const auto& cameras : {std::vector<CaptureCamera>{},
                              {one},
                              {one, one, one},
                              {down, down},
                              {CameraAt({0, 0, 3}, {0, 0, 0}), CameraAt({0, 0, 3}, {0, 0, 6})}}) {
    for (const PathKind kind : {PathKind::kAuto, PathKind::kOrbit, PathKind::kSpiral,
                                PathKind::kFlyby, PathKind::kCameras}) {
      for (const int n : {0, 1, 2, 7}) ExpectSound(MakePath(SceneOf(cameras), kind, n), n);
    }
  }
}

TEST(PathKindTest, NamesComeBack) {
  for (const PathKind kind : {PathKind::kAuto, PathKind::kOrbit, PathKind::kSpiral,
                              PathKind::kFlyby, PathKind::kCameras}) {
    EXPECT_EQ(ParsePathKind(PathKindName(kind)), kind);
  }
  EXPECT_EQ(ParsePathKind("circle"), std::nullopt);
}

}  // namespace
}  // namespace nerf
