#include "engine/scene/cameras/camera_file.h"

#include <string>

#include "engine/scene/pose.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

std::string Frame(double x) { return "{\"transform_matrix\":" + MatrixJson(x, 0, 0) + "}"; }

TEST(CameraFileTest, FileLevelIntrinsicsServeEveryFrame) {
  const auto cameras =
      ParseCameras(R"({"w":80,"h":60,"fl_x":100,"fl_y":110,"cx":41,"cy":29,"k1":0.1,"frames":[)" +
                   Frame(1) + "," + Frame(2) + "]}");
  ASSERT_TRUE(cameras.ok()) << cameras.status();
  ASSERT_EQ(cameras->size(), 2u);
  const Camera& camera = (*cameras)[1];
  EXPECT_EQ(camera.width, 80);
  EXPECT_EQ(camera.height, 60);
  EXPECT_EQ(camera.fl_x, 100);
  EXPECT_EQ(camera.fl_y, 110);
  EXPECT_EQ(camera.cx, 41);
  EXPECT_EQ(camera.cy, 29);
  EXPECT_EQ(camera.lens, LensModel::kOpenCv);
  EXPECT_EQ(camera.camera_to_world.m[0][3], 2);
}

TEST(CameraFileTest, FrameLevelIntrinsicsComeFirst) {
  const auto cameras =
      ParseCameras(R"({"w":80,"h":60,"camera_angle_x":1.5707963267948966,"frames":[)"
                   R"({"w":40,"h":30,"fl_x":77,"transform_matrix":)" +
                   MatrixJson(0, 0, 0) + "}," + Frame(1) + "]}");
  ASSERT_TRUE(cameras.ok()) << cameras.status();
  EXPECT_EQ((*cameras)[0].width, 40);
  EXPECT_EQ((*cameras)[0].fl_x, 77);
  EXPECT_EQ((*cameras)[0].fl_y, 77);
  EXPECT_EQ((*cameras)[0].cx, 20);
  EXPECT_EQ((*cameras)[0].lens, LensModel::kPinhole);
  EXPECT_NEAR((*cameras)[1].fl_x, 40, 1e-4);
}

TEST(CameraFileTest, FramesMayStateATimeFromZeroToOne) {
  const auto with_time = [](const std::string& time) {
    return ParseCameras(R"({"w":8,"h":6,"fl_x":10,"frames":[{"time":)" + time +
                        R"(,"transform_matrix":)" + MatrixJson(0, 0, 0) + "}," + Frame(1) + "]}");
  };
  const auto cameras = with_time("0.25");
  ASSERT_TRUE(cameras.ok()) << cameras.status();
  EXPECT_EQ((*cameras)[0].time, 0.25f);
  EXPECT_EQ((*cameras)[1].time, 0) << "no time is the first moment";
  for (const char* bad : {"1.5", "-0.1", "\"now\""}) {
    EXPECT_THAT(std::string(with_time(bad).status().message()), HasSubstr("frames[0].time")) << bad;
  }
}

TEST(CameraFileTest, BlenderFileWithoutSizeTakesTheRequestedOne) {
  const std::string json = R"({"camera_angle_x":1.5707963267948966,"frames":[)" + Frame(1) + "]}";
  const auto cameras = ParseCameras(json, "transforms_test.json", {80, 60});
  ASSERT_TRUE(cameras.ok()) << cameras.status();
  const Camera& camera = cameras->front();
  EXPECT_EQ(camera.width, 80);
  EXPECT_EQ(camera.height, 60);
  EXPECT_NEAR(camera.fl_x, 40, 1e-4) << "0.5 * 80 / tan(45 degrees)";
  EXPECT_EQ(camera.fl_y, camera.fl_x);
  EXPECT_EQ(camera.cx, 40);
  EXPECT_EQ(camera.cy, 30);
}

TEST(CameraFileTest, RequestedSizeNeedsBothSidesAndTheFilesSizeWins) {
  const std::string bare = R"({"camera_angle_x":1,"frames":[)" + Frame(1) + "]}";
  for (const PictureSize size : {PictureSize{}, {80, 0}, {0, 60}}) {
    EXPECT_THAT(std::string(ParseCameras(bare, "c", size).status().message()),
                HasSubstr("frames[0].w: is missing"));
  }
  const std::string two = R"({"camera_angle_x":1,"frames":[)" + Frame(1) + "," + Frame(2) + "]}";
  EXPECT_EQ(ParseCameras(two, "c", {0, 60}).status().message(),
            "c: frames[0].w: is missing, and h too, as in 1 more frame: --width is needed beside "
            "--height");
  const auto half =
      ParseCameras(R"({"w":800,"camera_angle_x":1,"frames":[)" + Frame(1) + "]}", "c", {80, 60});
  EXPECT_THAT(std::string(half.status().message()), HasSubstr("frames[0].h: is missing"));
  const auto stated =
      ParseCameras(R"({"w":8,"h":6,"fl_x":9,"frames":[)" + Frame(1) + "]}", "c", {80, 60});
  ASSERT_TRUE(stated.ok()) << stated.status();
  EXPECT_EQ(stated->front().width, 8);
  EXPECT_EQ(stated->front().fl_x, 9);
}

TEST(CameraFileTest, ReadFromFileNamesItInMessages) {
  const TempFolder folder;
  folder.Write("cameras.json", R"({"w":8,"h":6,"fl_x":10,"frames":[)" + Frame(1) + "]}");
  EXPECT_TRUE(ReadCameraFile(folder.PathOf("cameras.json")).ok());
  EXPECT_EQ(ReadCameraFile(folder.PathOf("none.json")).status().code(),
            absl::StatusCode::kNotFound);
  folder.Write("bad.json", "{}");
  EXPECT_THAT(std::string(ReadCameraFile(folder.PathOf("bad.json")).status().message()),
              HasSubstr("bad.json: frames: is missing"));
}

TEST(CameraFileTest, EveryProblemIsListed) {
  const auto cameras = ParseCameras(
      R"({"w":80,"h":60,"fl_x":-1,"frames":[{},{"transform_matrix":[[1]]},7]})", "render.json");
  EXPECT_EQ(cameras.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(cameras.status().message());
  EXPECT_THAT(message, HasSubstr("render.json: fl_x: -1 must be greater than 0"));
  EXPECT_THAT(message, HasSubstr("render.json: frames[0].transform_matrix: is missing"));
  EXPECT_THAT(message, HasSubstr("render.json: frames[1].transform_matrix: must have 4 rows"));
  EXPECT_THAT(message, HasSubstr("render.json: frames[2]: must be an object, is number"));
}

TEST(CameraFileTest, TrainingFrameAndBackIsIdentity) {
  const SceneFrame frame = ToSceneFrame(NgpPlacement(0.33, {0.5, 0.4, 0.3}));
  Camera own;
  own.camera_to_world = {{{0, 0, 1, 3}, {1, 0, 0, 4}, {0, 1, 0, 5}}};
  const Camera training = ToTrainingFrame(own, frame);
  const Vec3 expected = frame.own_to_training.ApplyToPoint({3, 4, 5});
  EXPECT_NEAR(Norm(training.camera_to_world.Column(3) - expected), 0, 1e-6);
  EXPECT_NEAR(Norm(training.camera_to_world.Column(0)), 1, 1e-6);
  const Camera again = ToOwnFrame(training, frame);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(again.camera_to_world.m[i][j], own.camera_to_world.m[i][j], 1e-5);
    }
  }
}

// A folder gives the same cameras as its file, although nerfstudio's frame is moved, turned and
// scaled for training.
TEST(CameraFileTest, FolderGivesTheCamerasOfItsTestViewsInItsOwnFrame) {
  const TempFolder folder;
  std::string frames;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "p" + std::to_string(i) + ".png";
    folder.Write(name, MakePng(8, 6));
    frames += (i > 0 ? "," : "") + FrameJson(name, 3 * i, 1 + i * i, 2);
  }
  folder.Write("transforms.json",
               R"({"camera_model":"OPENCV","w":8,"h":6,"fl_x":9,"fl_y":10,"cx":4,"cy":3,"k1":0.1,)"
               R"("frames":[)" +
                   frames + "]}");
  const auto all = ReadCameraFile(folder.PathOf("transforms.json"));
  const auto held_out = ReadCameraFile(folder.path());
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_TRUE(held_out.ok()) << held_out.status();
  ASSERT_EQ(held_out->size(), 2u) << "every eighth";
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Camera expected = (*all)[8 * i], found = (*held_out)[i];
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 4; ++column) {
        EXPECT_NEAR(found.camera_to_world.m[row][column], expected.camera_to_world.m[row][column],
                    1e-4 * 70);
      }
    }
    found.camera_to_world = expected.camera_to_world = Mat34();
    EXPECT_EQ(found, expected);
  }
}

TEST(CameraFileTest, FolderWithoutADataSetSaysSo) {
  const TempFolder folder;
  const auto cameras = ReadCameraFile(folder.path());
  EXPECT_EQ(cameras.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cameras.status().message()), HasSubstr("transforms.json"));
}

struct HostileCameras {
  const char* name;
  std::string json;
  const char* words;
};

void PrintTo(const HostileCameras& cameras, std::ostream* out) { *out << cameras.name; }

class HostileCameraFileTest : public ::testing::TestWithParam<HostileCameras> {};

TEST_P(HostileCameraFileTest, IsRefusedWithItsReason) {
  const auto cameras = ParseCameras(GetParam().json, "c.json");
  EXPECT_EQ(cameras.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cameras.status().message()), HasSubstr(GetParam().words));
}

std::vector<HostileCameras> HostileCameraFiles() {
  const std::string frames = "\"frames\":[" + Frame(1) + "]}";
  return {
      {"Empty", "", "line 1: not valid JSON"},
      {"Array", "[]", "must be a JSON object, is array"},
      {"FramesAreAnObject", R"({"frames":{}})", "frames: must be a list, is object"},
      {"NoFrames", R"({"frames":[]})", "no image is listed"},
      {"NoSize", R"({"fl_x":10,)" + frames, "frames[0].w: is missing"},
      {"NoFocal", R"({"w":8,"h":8,)" + frames, "intrinsics are missing"},
      {"ZeroWidth", R"({"w":0,"h":8,"fl_x":10,)" + frames, "w: 0 must be between 1"},
      {"BrokenWidth", R"({"w":8.5,"h":8,"fl_x":10,)" + frames, "8.5 must be a whole number"},
      {"HugeWidth", R"({"w":60000,"h":8,"fl_x":10000,)" + frames, "up to 16384"},
      {"TextFocal", R"({"w":8,"h":8,"fl_x":"wide",)" + frames, "fl_x: must be a number, is string"},
      {"AbsurdFocal", R"({"w":800,"h":800,"fl_x":1,)" + frames, "is absurd for a picture of 800"},
      {"Fisheye", R"({"w":8,"h":8,"fl_x":9,"camera_model":"FOV",)" + frames,
       "camera model \"FOV\" is not supported"},
      {"HalfTurn", R"({"w":8,"h":8,"camera_angle_x":3.2,)" + frames, "between 0 and pi"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, HostileCameraFileTest, ::testing::ValuesIn(HostileCameraFiles()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nerf
