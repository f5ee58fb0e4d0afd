// Tests of view_request.h, view_writer.h and rgbaz_file.h.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/program/bench/synthetic_scene.h"
#include "engine/program/written_views/rgbaz_file.h"
#include "engine/program/written_views/view_request.h"
#include "engine/program/written_views/view_writer.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pose.h"
#include "engine/views/depth_colors.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

TrainState State() {
  TrainState state;
  const Scene scene = SyntheticBallScene(2, 0, 60);
  state.geometry = scene.geometry;
  state.reference_camera = scene.train[0].camera;
  state.reference_camera.height = 30;
  return state;
}

constexpr char kCamera[] =
    R"({"w":40,"h":20,"fl_x":50,"fl_y":50,"cx":20,"cy":10,
        "frames":[{"transform_matrix":[[1,0,0,2],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})";

TEST(ViewRequestTest, CameraIsCarriedIntoTheTrainingFrame) {
  TrainState state = State();
  state.geometry.frame.scale = 0.5f;
  for (int i = 0; i < 3; ++i) state.geometry.frame.own_to_training.m[i][i] = 0.5f;
  state.geometry.frame.own_to_training.m[0][3] = 3;
  const auto cameras = CamerasFromText(kCamera, "camera", state, 0, 0);
  ASSERT_THAT(cameras, IsOk());
  ASSERT_EQ(cameras->size(), 1u);
  EXPECT_EQ((*cameras)[0].width, 40);
  EXPECT_NEAR((*cameras)[0].camera_to_world.m[0][3], 4, 1e-6);  // 0.5 * 2 + 3
  EXPECT_NEAR((*cameras)[0].camera_to_world.m[0][0], 1, 1e-6) << "axes stay of unit length";
}

TEST(ViewRequestTest, OneLengthKeepsTheAspectBothRescale) {
  const auto by_width = CamerasFromText(kCamera, "camera", State(), 80, 0);
  ASSERT_THAT(by_width, IsOk());
  EXPECT_EQ((*by_width)[0].height, 40);
  EXPECT_EQ((*by_width)[0].fl_x, 100);
  const auto by_height = CamerasFromText(kCamera, "camera", State(), 0, 10);
  ASSERT_THAT(by_height, IsOk());
  EXPECT_EQ((*by_height)[0].width, 20);
  const auto both = CamerasFromText(kCamera, "camera", State(), 10, 10);
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ((*both)[0].fl_x, 12.5f);
  EXPECT_EQ((*both)[0].fl_y, 25);
}

TEST(ViewRequestTest, FramesWithoutSizeAreSeenAtTheOneAskedFor) {
  constexpr char kBlender[] =
      R"({"camera_angle_x":1.5707963267948966,
          "frames":[{"transform_matrix":[[1,0,0,2],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})";
  const auto cameras = CamerasFromText(kBlender, "camera", State(), 80, 60);
  ASSERT_THAT(cameras, IsOk());
  EXPECT_EQ((*cameras)[0].width, 80);
  EXPECT_EQ((*cameras)[0].height, 60);
  EXPECT_NEAR((*cameras)[0].fl_x, 40, 1e-4);
  EXPECT_THAT(CamerasFromText(kBlender, "camera", State(), 80, 0),
              StatusIs(StatusCode::kInvalidArgument, "frames[0].w"));
}

TEST(ViewRequestTest, HugeViewsAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_THAT(CamerasFromText(kCamera, "camera", State(), 20000, 0),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(CamerasFromText(kCamera, "camera", State(), 16384, 0),
              StatusIs(StatusCode::kInvalidArgument, "pixels"));
  EXPECT_THAT(CamerasFromText("{}", "camera", State(), 0, 0),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(ViewWriterTest, FarIsTheLargestDepthRoundedUpToTwoDigits) {
  EXPECT_FLOAT_EQ(FarOf(4.21f), 4.3f);
  EXPECT_FLOAT_EQ(FarOf(4.3f), 4.3f);
  EXPECT_FLOAT_EQ(FarOf(123), 130);
  EXPECT_FLOAT_EQ(FarOf(0.00987f), 0.0099f);
  EXPECT_EQ(FarOf(0), 1);
  EXPECT_EQ(FarOf(INFINITY), 1);
  for (float depth = 0.013f; depth < 1e6f; depth *= 1.37f) ASSERT_GE(FarOf(depth), depth);
}

TEST(ViewWriterTest, DepthIsDividedByTheScaleAndByFar) {
  const ViewPicture view{{3, 1, 4, {1, 2, 3, 0, 4, 5, 6, 128, 7, 8, 9, 255}}, {0, 1, 2}};
  const std::vector<float> own = OwnDepths(view, 0.5f);
  EXPECT_EQ(own, (std::vector<float>{0, 2, 4}));
  EXPECT_EQ(DepthToGray(own, 4), (std::vector<uint16_t>{0, 32768, 65535}));
  EXPECT_EQ(OpacityImage(view).pixels, (std::vector<uint8_t>{0, 128, 255}));
}

// A row vector times a matrix, divided by w.
Vec3 Transformed(const Vec3& point, const ExrMatrix& matrix) {
  float row[4];
  for (size_t j = 0; j < 4; ++j) {
    row[j] =
        point.x * matrix[j] + point.y * matrix[4 + j] + point.z * matrix[8 + j] + matrix[12 + j];
  }
  return Vec3{row[0], row[1], row[2]} * (1 / row[3]);
}

TEST(RgbazFileTest, HeaderProjectsPointsOfTheDataSetToTheirPixels) {
  Camera own;
  own.width = 40, own.height = 20;
  own.fl_x = 50, own.fl_y = 60;
  own.cx = 18, own.cy = 11;
  // Looks along +x, up is +z.
  own.camera_to_world = {{{0, 0, -1, 2}, {-1, 0, 0, 3}, {0, 1, 0, 4}}};
  Similarity half;
  half.scale = 0.5;
  half.translation = {1, 2, 3};
  SceneFrame frame = ToSceneFrame(half);
  frame.origin = {500000, 0, 0};
  const Camera camera = ToTrainingFrame(own, frame);
  const ExrCamera seen = ExrCameraOf({camera, frame});
  EXPECT_EQ(seen.origin, frame.origin);
  const Vec3 point{12, 3.5f, 3};  // 10 ahead, 0.5 to the left, 1 below
  const Vec3 in_camera = Transformed(point, seen.world_to_camera);
  EXPECT_NEAR(in_camera.x, -0.5f, 1e-5);
  EXPECT_NEAR(in_camera.y, -1, 1e-5);
  EXPECT_NEAR(in_camera.z, 10, 1e-5);
  ASSERT_TRUE(seen.world_to_ndc.has_value());
  const Vec3 ndc = Transformed(point, *seen.world_to_ndc);
  EXPECT_NEAR(ndc.x * 40, 18 - 50 * 0.05f, 1e-4);
  EXPECT_NEAR(ndc.y * 20, 11 + 60 * 0.1f, 1e-4);

  Camera other = camera;
  other.lens = LensModel::kOpenCv;
  EXPECT_TRUE(ExrCameraOf({other, frame}).world_to_ndc.has_value());
  other.k1 = 0.1f;
  EXPECT_FALSE(ExrCameraOf({other, frame}).world_to_ndc.has_value()) << "no matrix can say it";
  other.lens = LensModel::kEquirectangular;
  EXPECT_FALSE(ExrCameraOf({other, frame}).world_to_ndc.has_value());
}

}  // namespace
}  // namespace nerf
