#include "engine/scene/read/scene_reader.h"
#include "engine/scene/decode_views.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/base/picture_names.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/scene/read/source.h"
#include "engine/scene/read/unposed_photographs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// n images 40x30 with full intrinsics ("keys" in front of the frames) on a line.
void WriteLine(const TempFolder& folder, int n, const std::string& keys) {
  std::string json = "{" + keys + "\"frames\":[";
  for (int i = 0; i < n; ++i) {
    const std::string file = absl::StrCat("images/", i, ".png");
    folder.Write(file, MakePng(40, 30));
    absl::StrAppend(&json, i > 0 ? "," : "", FrameJson(file, i, 2 * i, 5));
  }
  folder.Write("transforms.json", json + "]}");
}

constexpr char kFullKeys[] =
    R"("camera_model":"OPENCV","fl_x":50,"fl_y":51,"cx":20,"cy":15,"w":40,"h":30,)";

std::vector<std::string> FilesOf(const std::vector<ViewDescription>& views) {
  std::vector<std::string> files;
  for (const ViewDescription& view : views) files.push_back(view.file);
  return files;
}

double Distance(const Camera& a, const Camera& b) {
  return Norm(a.camera_to_world.Column(3) - b.camera_to_world.Column(3));
}

// cos of the angle between two viewing directions.
double ViewCosine(const Camera& a, const Camera& b) {
  return Dot(a.camera_to_world.Column(2), b.camera_to_world.Column(2));
}

TEST(SceneReaderTest, BlenderSceneIsReadWithoutPlacement) {
  const auto scene = LoadScene(kMic);
  ASSERT_TRUE(scene.ok()) << scene.status();
  EXPECT_EQ(scene->geometry.flavor, SceneFlavor::kBlender);
  EXPECT_EQ(scene->train.size(), 100u);
  EXPECT_EQ(scene->test.size(), 25u);
  EXPECT_TRUE(scene->has_alpha);
  EXPECT_EQ(scene->geometry.box.min, (Vec3{-1.5f, -1.5f, -1.5f}));
  EXPECT_EQ(scene->geometry.n_levels, 1);
  EXPECT_EQ(scene->geometry.cone, 0);
  EXPECT_EQ(scene->geometry.near, 0);
  EXPECT_FLOAT_EQ(scene->geometry.step, std::sqrt(3.0f) * 3 / 512);
  EXPECT_EQ(scene->geometry.frame, SceneFrame());
  const View& first = scene->test[0];
  EXPECT_EQ(first.file, "test/r_0.png");
  EXPECT_NEAR(first.camera.fl_x, 0.5 * 200 / std::tan(0.5 * 0.6911112070083618), 1e-3);
  EXPECT_EQ(first.camera.cx, 100);
  EXPECT_NEAR(first.camera.camera_to_world.m[1][3], 2.737260103225708, 1e-6);
  EXPECT_EQ(first.image.n_channels, 4);
  EXPECT_EQ(first.image.pixels.size(), 200u * 200 * 4);
  EXPECT_NEAR(scene->geometry.median_distance, 4.03, 0.01);
  EXPECT_THAT(scene->warnings, IsEmpty());
}

TEST(SceneReaderTest, LoadingIsTheSameWithOneThreadAndFour) {
  SceneOptions one, four;
  one.n_threads = 1;
  four.n_threads = 4;
  const auto a = LoadScene(kMic, one), b = LoadScene(kMic, four);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->geometry, b->geometry);
  for (size_t i = 0; i < a->train.size(); ++i) {
    EXPECT_EQ(a->train[i].file, b->train[i].file);
    EXPECT_EQ(a->train[i].image.pixels, b->train[i].image.pixels);
  }
}

TEST(SceneReaderTest, FoxIsPlacedAsInstantNgpDoesAndCountsMissingFiles) {
  const auto dir = TestData("fox");
  if (!dir) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  SceneOptions options;
  options.decode_images = false;
  const SceneDescription fox = DescribeScene(*dir, options);
  ASSERT_TRUE(fox.ok()) << SummaryOf(fox.problems);
  EXPECT_EQ(fox.geometry.flavor, SceneFlavor::kInstantNgp);
  EXPECT_EQ(fox.n_listed, 67);
  EXPECT_EQ(fox.n_missing, 17);
  EXPECT_THAT(fox.warnings, ElementsAre(HasSubstr("17 of 67 listed images do not exist")));
  EXPECT_EQ(fox.test.size(), 7u);  // every 8th of 50, the first included
  EXPECT_EQ(fox.train.size(), 43u);
  EXPECT_EQ(fox.geometry.n_levels, 3);  // aabb_scale 4
  // Around what the cameras look at, close to the middle of instant-ngp's unit cube.
  EXPECT_LT(Norm(fox.geometry.box.Center() - Vec3{0.5f, 0.5f, 0.5f}), 0.1f);
  EXPECT_NEAR(fox.geometry.box.Size().x, 1.25f, 0.05f);
  EXPECT_EQ(fox.geometry.cone, 1.0f / 128);
  EXPECT_EQ(fox.geometry.near, 0.1f);
  EXPECT_FALSE(fox.has_alpha);
  ASSERT_EQ(fox.test[0].file, "images/0001.jpg");
  const Camera& camera = fox.test[0].camera;
  EXPECT_NEAR(camera.camera_to_world.m[0][3], 0.33 * -5.4794898611466945 + 0.5, 1e-5);
  EXPECT_NEAR(camera.camera_to_world.m[1][3], 0.33 * -0.9791660699008925 + 0.5, 1e-5);
  EXPECT_NEAR(camera.camera_to_world.m[2][3], 0.33 * 3.168359405609479 + 0.5, 1e-5);
  EXPECT_NEAR(camera.camera_to_world.m[0][0], 0.4464189982715247, 1e-4);
  EXPECT_EQ(camera.fl_x, 1375.52f);
  EXPECT_EQ(camera.fl_y, 1374.49f);
  EXPECT_EQ(camera.lens, LensModel::kOpenCv);
  EXPECT_EQ(camera.p2, 0.00015575f);
}

TEST(SceneReaderTest, FoxQuarterHasTheRaysOfFox) {
  const auto dir = TestData("fox"), quarter_dir = TestData("fox_quarter");
  if (!dir || !quarter_dir) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  SceneOptions options;
  options.decode_images = false;
  const SceneDescription fox = DescribeScene(*dir, options);
  const auto quarter = LoadScene(*quarter_dir);
  ASSERT_TRUE(quarter.ok()) << quarter.status();
  ASSERT_EQ(quarter->train.size(), fox.train.size());
  for (size_t i = 0; i < fox.train.size(); ++i) {
    const Ray large = CameraRay(fox.train[i].camera, 200, 1000);
    const Ray small = CameraRay(quarter->train[i].camera, 50, 250);
    EXPECT_NEAR(Norm(large.origin - small.origin), 0, 1e-6);
    EXPECT_NEAR(Norm(large.direction - small.direction), 0, 1e-5);
  }
}

TEST(SceneReaderTest, Lego200IsRead) {
  const auto dir = TestData("lego_200");
  if (!dir) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  const auto scene = LoadScene(*dir);
  ASSERT_TRUE(scene.ok()) << scene.status();
  EXPECT_EQ(scene->train.size(), 100u);
  EXPECT_EQ(scene->test.size(), 25u);
  EXPECT_TRUE(scene->has_alpha);
}

TEST(SceneReaderTest, DroneTransformsAreNormalized) {
  const auto dir = TestData("drone_5");
  if (!dir) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  const auto scene = LoadScene(*dir);
  ASSERT_TRUE(scene.ok()) << scene.status();
  EXPECT_EQ(scene->geometry.flavor, SceneFlavor::kNerfstudio);
  EXPECT_EQ(scene->train.size(), 15u);
  EXPECT_EQ(scene->test.size(), 3u);
  EXPECT_EQ(scene->geometry.n_levels, 4);
  EXPECT_EQ(scene->geometry.near, 0.05f);
  EXPECT_NEAR(scene->geometry.mean_up.z, 1, 1e-5);
  float extent = 0;
  for (const auto* views : {&scene->train, &scene->test}) {
    for (const View& view : *views) {
      for (int i = 0; i < 3; ++i) {
        extent = std::max(extent, std::abs(view.camera.camera_to_world.m[i][3]));
      }
    }
  }
  EXPECT_NEAR(extent, 1, 1e-5);
}

// The same cameras as a COLMAP model and, in meters, as transforms.json: equal up to a similarity.
TEST(SceneReaderTest, DroneAsColmapAgreesWithItsTransforms) {
  const auto dir = TestData("drone_5");
  if (!dir) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  const TempFolder folder;
  for (const char* part : {"images", "sparse"}) {
    std::filesystem::copy(std::filesystem::path(*dir) / part, folder.PathOf(part),
                          std::filesystem::copy_options::recursive);
  }
  SceneOptions options;
  options.decode_images = false;
  options.test_every = 0;
  const SceneDescription colmap = DescribeScene(folder.path(), options);
  std::filesystem::copy(std::filesystem::path(*dir) / "transforms.json",
                        folder.PathOf("transforms.json"));
  const SceneDescription transforms = DescribeScene(folder.path(), options);
  ASSERT_TRUE(colmap.ok()) << SummaryOf(colmap.problems);
  ASSERT_TRUE(transforms.ok()) << SummaryOf(transforms.problems);
  EXPECT_EQ(colmap.geometry.flavor, SceneFlavor::kColmap);
  EXPECT_EQ(colmap.source, "sparse/0 (binary)");
  EXPECT_EQ(transforms.source, "transforms.json");
  ASSERT_EQ(colmap.train.size(), 18u);
  ASSERT_EQ(FilesOf(colmap.train), FilesOf(transforms.train));
  const double ratio = Distance(colmap.train[0].camera, colmap.train[17].camera) /
                       Distance(transforms.train[0].camera, transforms.train[17].camera);
  for (size_t i = 0; i < 18; ++i) {
    const Camera& a = colmap.train[i].camera;
    const Camera& b = transforms.train[i].camera;
    EXPECT_NEAR(a.fl_x, b.fl_x, 0.01);
    EXPECT_NEAR(a.k1, b.k1, 1e-6);
    EXPECT_NEAR(a.p2, b.p2, 1e-6);
    EXPECT_NEAR(a.camera_to_world.m[2][1], b.camera_to_world.m[2][1], 1e-4);  // tilt against up
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NEAR(Distance(a, colmap.train[j].camera),
                  ratio * Distance(b, transforms.train[j].camera), 1e-4);
      EXPECT_NEAR(ViewCosine(a, colmap.train[j].camera), ViewCosine(b, transforms.train[j].camera),
                  1e-4);
    }
  }
}

// A camera file in the data set's own frame gives back the training cameras.
TEST(SceneReaderTest, OwnFrameCamerasMapOntoTheTrainingViews) {
  const auto dir = TestData("drone_5");
  if (!dir) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  SceneOptions options;
  options.decode_images = false;
  const SceneDescription scene = DescribeScene(*dir, options);
  const auto own = ReadCameraFile(*dir + "/transforms_test.json");
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_EQ(own->size(), scene.test.size());
  for (size_t i = 0; i < own->size(); ++i) {
    const Camera mapped = ToTrainingFrame((*own)[i], scene.geometry.frame);
    const Camera& expected = scene.test[i].camera;
    EXPECT_EQ(mapped.fl_x, expected.fl_x);
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 4; ++column) {
        EXPECT_NEAR(mapped.camera_to_world.m[row][column], expected.camera_to_world.m[row][column],
                    1e-5);
      }
    }
  }
}

struct FlavorCase {
  const char* name;
  const char* keys;
  SceneFlavor flavor;
};

TEST(SceneReaderTest, KeysTellTheFlavor) {
  const FlavorCase cases[] = {
      {"angle", R"("camera_angle_x":0.7,)", SceneFlavor::kBlender},
      {"intrinsics", R"("fl_x":50,"w":40,"h":30,)", SceneFlavor::kNerfstudio},
      {"camera_model", R"("camera_model":"PINHOLE","camera_angle_x":0.7,)",
       SceneFlavor::kNerfstudio},
      {"aabb_scale", R"("aabb_scale":1,"camera_angle_x":0.7,)", SceneFlavor::kInstantNgp},
      {"offset", R"("offset":[0,0,0],"fl_x":50,"camera_model":"OPENCV",)",
       SceneFlavor::kInstantNgp},
      {"aabb", R"("aabb":[[0,0,0],[2,2,2]],"x_fov":40,)", SceneFlavor::kInstantNgp},
  };
  for (const FlavorCase& flavor_case : cases) {
    const TempFolder folder;
    WriteLine(folder, 2, flavor_case.keys);
    const SceneDescription scene = DescribeScene(folder.path());
    EXPECT_TRUE(scene.ok()) << flavor_case.name << SummaryOf(scene.problems);
    EXPECT_EQ(scene.geometry.flavor, flavor_case.flavor) << flavor_case.name;
  }
}

TEST(SceneReaderTest, PerFrameIntrinsicsCountAsNerfstudio) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(40, 30));
  folder.Write("b.png", MakePng(20, 10));
  folder.Write("transforms.json",
               "{\"frames\":[" + FrameJson("a.png", 0, 0, 0, R"(,"fl_x":50,"w":40,"h":30)") + "," +
                   FrameJson("b.png", 1, 0, 0, R"(,"fl_x":30,"w":20,"h":10)") + "]}");
  SceneOptions options;
  options.test_every = 0;
  const SceneDescription scene = DescribeScene(folder.path(), options);
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.geometry.flavor, SceneFlavor::kNerfstudio);
  EXPECT_EQ(scene.train[0].camera.fl_x, 50);
  EXPECT_EQ(scene.train[1].camera.fl_x, 30);
  EXPECT_THAT(scene.camera_models, ElementsAre("PINHOLE 20x10", "PINHOLE 40x30"));
}

TEST(SceneReaderTest, AabbOverridesScaleAndOffset) {
  const TempFolder folder;
  WriteLine(folder, 2,
            R"("aabb":[[0,0,0],[4,2,2]],"scale":9,"offset":7,"fl_x":50,"aabb_scale":8,)");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_FLOAT_EQ(scene.geometry.frame.scale, 0.25f);
  EXPECT_EQ(scene.geometry.n_levels, 4);
  const Vec3 center = scene.geometry.frame.own_to_training.ApplyToPoint({2, 1, 1});
  EXPECT_NEAR(Norm(center - Vec3{0.5f, 0.5f, 0.5f}), 0, 1e-6);
}

TEST(SceneReaderTest, EveryEighthImageByNameIsATestView) {
  const TempFolder folder;
  WriteLine(folder, 10, kFullKeys);
  EXPECT_THAT(FilesOf(DescribeScene(folder.path()).test),
              ElementsAre("images/0.png", "images/8.png"));
  SceneOptions options;
  options.test_every = 4;
  EXPECT_THAT(FilesOf(DescribeScene(folder.path(), options).test),
              ElementsAre("images/0.png", "images/4.png", "images/8.png"));
  options.test_every = 0;
  EXPECT_THAT(DescribeScene(folder.path(), options).test, IsEmpty());
  options.test_every = 1;
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path(), options).problems),
              HasSubstr("test_every: 1 leaves nothing to train on"));
}

TEST(SceneReaderTest, FilenameListsGiveTheSplit) {
  const TempFolder folder;
  WriteLine(
      folder, 4,
      std::string(kFullKeys) +
          R"("train_filenames":["images/0.png","images/3.png"],"test_filenames":["images/1.png"],)");
  SceneOptions options;
  options.test_every = 2;
  const SceneDescription scene = DescribeScene(folder.path(), options);
  EXPECT_THAT(FilesOf(scene.train), ElementsAre("images/0.png", "images/3.png"));
  EXPECT_THAT(FilesOf(scene.test), ElementsAre("images/1.png"));
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("test_every has no effect")));
}

TEST(SceneReaderTest, ValidationFileIsTheTestSplitWhereThereIsNoOther) {
  const TempFolder folder;
  for (const char* name : {"a", "b", "c"}) {
    folder.Write(absl::StrCat(name, ".png"), MakePng(20, 20));
  }
  const auto file = [](const char* image) {
    return "{\"camera_angle_x\":0.7,\"frames\":[" + FrameJson(image, 0, 0, 4) + "]}";
  };
  folder.Write("transforms_train.json", file("./a"));
  folder.Write("transforms_val.json", file("b"));
  EXPECT_THAT(FilesOf(DescribeScene(folder.path()).test), ElementsAre("b.png"));
  folder.Write("transforms_test.json", file("c.png"));
  EXPECT_THAT(FilesOf(DescribeScene(folder.path()).test), ElementsAre("c.png"));
}

TEST(SceneReaderTest, CommentsAndBackslashesAreAccepted) {
  const TempFolder folder;
  folder.Write("images/a.jpg", MakeJpeg(20, 20));
  folder.Write("transforms.json", "{ // a comment\n\"fl_x\":20, /* another */ \"frames\":[" +
                                      FrameJson(".\\\\images\\\\a.jpg", 0, 0, 0) + "]}");
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(FilesOf(scene.train), ElementsAre("images/a.jpg"));
}

TEST(SceneReaderTest, TimesOfFramesAndRollingShutterAreWarnedOf) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  folder.Write("transforms.json", R"({"fl_x":20,"rolling_shutter":[0,0,0,0],"frames":[)" +
                                      FrameJson("a.png", 0, 0, 0, R"(,"time":0.5)") + "]}");
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(
      scene.warnings,
      ElementsAre(
          HasSubstr("frames have a time, which only the methods dynamic, t-nerf and d-nerf"),
          HasSubstr("rolling_shutter is ignored")));
}

TEST(SceneReaderTest, FilmsAndPhotographsAreToldByTheirEndings) {
  const TempFolder folder;
  for (const char* name :
       {"a.mp4", "b.MOV", "c.m4v", "d.avi", "e.mkv", "f.webm", "g.mts", "h.3gp"}) {
    folder.Write(name, "x");
    EXPECT_TRUE(IsFilm(folder.path() + "/" + name)) << name;
  }
  for (const char* name : {"a.gif", "mp4", "b.mp4.txt"}) {
    folder.Write(name, "x");
    EXPECT_FALSE(IsFilm(folder.path() + "/" + name)) << name;
  }
  EXPECT_TRUE(HasPhotographEnding("x.JPEG"));
  EXPECT_TRUE(HasPhotographEnding("x.webp"));
  EXPECT_FALSE(HasPhotographEnding("x.tiff"));
  EXPECT_FALSE(HasPhotographEnding("._x.jpg"));
  const TempFolder films;
  films.Write("clip.webm", "x");
  EXPECT_TRUE(SourceAt(films.path()).HasNoPoses());
  EXPECT_EQ(SourceAt(films.path() + "/clip.webm").posed, films.path() + "/clip-posed");
  const TempFolder phone;  // pictures of a phone
  phone.Write("IMG_1.HEIC", "x");
  EXPECT_TRUE(SourceAt(phone.path()).HasNoPoses());
  const TempFolder texts;
  texts.Write("notes.txt", "x");
  EXPECT_FALSE(SourceAt(texts.path()).HasNoPoses());
}

// A folder "photos" of two photographs and a film beside "photos-posed" with a report of them.
void WritePosedPhotos(const TempFolder& folder) {
  for (const char* name : {"a.jpg", "b.PNG", "clip.mp4"})
    folder.Write(absl::StrCat("photos/", name), "x");
  folder.Write("photos-posed/pose.json",
               R"({"photos":[{"name":"a.jpg","posed":true},{"name":"b.PNG","posed":false},)"
               R"({"name":"clip.mp4 at 0.40 s","posed":true}]})");
}

TEST(SceneReaderTest, PhotographsAddedAfterPosingAreNamed) {
  const TempFolder folder;
  WritePosedPhotos(folder);
  const std::string photos = folder.path() + "/photos";
  EXPECT_THAT(AddedPhotographs(SourceAt(photos)), IsEmpty())
      << "one that could not be posed was tried";
  EXPECT_EQ(AddedPhotographsText(SourceAt(photos)), "");
  folder.Write("photos/c.jpeg", "x");
  folder.Write("photos/.hidden.jpg", "x");
  folder.Write("photos/notes.txt", "x");
  folder.Write("photos/images/d.jpg", "x");  // only read if there are no pictures beside it
  EXPECT_THAT(AddedPhotographs(SourceAt(photos)), ElementsAre("c.jpeg"));
  EXPECT_EQ(AddedPhotographsText(SourceAt(photos + "/")),
            absl::StrCat("1 photograph of ", photos, "/ is not in ", photos,
                         "-posed, so it is not used: c.jpeg"));
  folder.Write("photos/other.MOV", "x");
  EXPECT_THAT(AddedPhotographs(SourceAt(photos)), ElementsAre("c.jpeg", "other.MOV"));
  EXPECT_THAT(AddedPhotographsText(SourceAt(photos)), HasSubstr("2 photographs of "));
  EXPECT_EQ(SetPosedFolderAside(SourceAt(photos)),
            absl::StrCat("mv ", photos, "-posed ", photos, "-posed-old"));
  folder.Write("photos-posed-old/pose.json", "x");
  EXPECT_EQ(SetPosedFolderAside(SourceAt(photos)),
            absl::StrCat("mv ", photos, "-posed ", photos, "-posed-old2"));
}

TEST(SceneReaderTest, PhotographsStandForTheirPosedFolder) {
  const TempFolder folder;
  folder.Write("photos/a.jpg", "x");
  const std::string photos = folder.path() + "/photos";
  EXPECT_EQ(SourceAt(photos).Dataset(), photos) << "not posed";
  folder.Write("photos-posed/images/a.jpg", "x");
  EXPECT_EQ(SourceAt(photos).Dataset(), photos) << "no data set";
  folder.Write("photos-posed/transforms.json", "{}");
  EXPECT_EQ(SourceAt(photos).Dataset(), photos + "-posed");
  EXPECT_EQ(SourceAt(photos + "/").Dataset(), photos + "-posed");
  EXPECT_EQ(SourceAt(photos + "-posed").Dataset(), photos + "-posed");
  folder.Write("photos/transforms.json", "{}");
  EXPECT_EQ(SourceAt(photos).Dataset(), photos) << "it has poses of its own";
  EXPECT_EQ(SourceAt(folder.path() + "/none").Dataset(), folder.path() + "/none");
}

TEST(SceneReaderTest, ViewsOfPhotographsAreThoseOfTheirPosedFolder) {
  const TempFolder folder;
  folder.Write("photos/a.png", MakePng(40, 30));
  folder.Write("photos-posed/a.png", MakePng(40, 30));
  folder.Write("photos-posed/transforms.json",
               std::string("{") + kFullKeys + "\"frames\":[" + FrameJson("a.png", 0, 0, 5) + "]}");
  const auto list = ReadViewList(folder.path() + "/photos");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->views.size(), 1u);
  EXPECT_EQ(list->views[0].photograph, folder.path() + "/photos-posed/a.png");
  EXPECT_THAT(list->warnings, ElementsAre(HasSubstr("photos has no poses; using ")));
}

TEST(SceneReaderTest, PhotographsInImagesAreComparedToo) {
  const TempFolder folder;
  folder.Write("photos/images/a.jpg", "x");
  folder.Write("photos/images/b\x1b[2J.jpg", "x");
  folder.Write("photos-posed/pose.json", R"({"photos":[{"name":"a.jpg"}]})");
  EXPECT_THAT(AddedPhotographs(SourceAt(folder.path() + "/photos")), ElementsAre("b?[2J.jpg"));
}

TEST(SceneReaderTest, ReportsThatCannotBeReadNameNoPhotographs) {
  const TempFolder folder;
  folder.Write("photos/a.jpg", "x");
  const std::string photos = folder.path() + "/photos";
  EXPECT_THAT(AddedPhotographs(SourceAt(photos)), IsEmpty()) << "no report";
  for (const std::string report :
       {"", "{", "[]", "3", "null", R"({"photos":3})", R"({"photos":[3]})", R"({"photos":[{}]})",
        R"({"photos":[{"name":3}]})", R"({"event":"done"})", "\xff\xfe"}) {
    folder.Write("photos-posed/pose.json", report);
    EXPECT_THAT(AddedPhotographs(SourceAt(photos)), IsEmpty()) << report;
  }
  folder.Write("photos-posed/pose.json", std::string(100'000, '['));
  EXPECT_THAT(AddedPhotographs(SourceAt(photos)), IsEmpty());
  folder.Write("photos-posed/pose.json", R"({"photos":[]})");
  EXPECT_THAT(AddedPhotographs(SourceAt(photos)), ElementsAre("a.jpg"));
}

TEST(SceneReaderTest, IntrinsicsOfAnotherSizeOfTheSameShapeAreRescaled) {
  const TempFolder folder;
  WriteLine(folder, 3, R"("fl_x":100,"fl_y":104,"cx":44,"cy":30,"w":80,"h":60,)");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_FLOAT_EQ(scene.train[0].camera.fl_x, 50);
  EXPECT_FLOAT_EQ(scene.train[0].camera.fl_y, 52);
  EXPECT_FLOAT_EQ(scene.train[0].camera.cx, 22);
  EXPECT_THAT(scene.warnings, ElementsAre(HasSubstr("3 images have another size")));
}

TEST(SceneReaderTest, CamerasThatAllStandAtOnePlaceGetAWarningWhateverTheFlavor) {
  for (const char* file : {"transforms.json", "transforms_train.json"}) {
    const TempFolder folder;
    folder.Write("a.png", MakePng(20, 20));
    folder.Write("b.png", MakePng(20, 20));
    folder.Write(file, R"({"camera_angle_x":0.7,"frames":[)" + FrameJson("a.png", 1, 2, 3) + "," +
                           FrameJson("b.png", 1, 2, 3) + "]}");
    SceneDescription scene = DescribeScene(folder.path());
    ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
    EXPECT_THAT(scene.warnings, Contains(HasSubstr("all cameras have the same position"))) << file;
    folder.Write(file, R"({"camera_angle_x":0.7,"frames":[)" + FrameJson("a.png", 1, 2, 3) + "," +
                           FrameJson("b.png", 1, 2, 4) + "]}");
    scene = DescribeScene(folder.path());
    EXPECT_THAT(scene.warnings, Not(Contains(HasSubstr("same position")))) << file;
  }
}

TEST(SceneReaderTest, ScaledRotationsAreTakenWithAWarning) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  folder.Write("transforms.json", R"({"fl_x":20,"frames":[{"file_path":"a.png","transform_matrix":)"
                                  R"([[2,0,0,1],[0,2,0,2],[0,0,2,3]]}]})");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("1 matrices have a scale in their rotation")));
  EXPECT_NEAR(Norm(scene.train[0].camera.camera_to_world.Column(0)), 1, 1e-6);
}

TEST(SceneReaderTest, MemoryLimitRefusesBeforeDecodingWithNumbers) {
  const TempFolder folder;
  WriteLine(folder, 4, kFullKeys);
  SceneOptions options;
  options.memory_limit_bytes = 4 * 40 * 30 * 3 - 1;
  const auto scene = LoadScene(folder.path(), options);
  EXPECT_EQ(scene.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(scene.status().message()), HasSubstr("4 images need 14400 bytes"));
  options.memory_limit_bytes += 1;
  EXPECT_TRUE(LoadScene(folder.path(), options).ok());
}

TEST(SceneReaderTest, CheckingDecodesOnlyAsManyImagesAtOnceAsFit) {
  const TempFolder folder;
  WriteLine(folder, 4, kFullKeys);
  folder.Write("images/1.png", MakePng(40, 30).substr(0, 200));
  SceneOptions options;
  options.n_threads = 4;
  options.memory_limit_bytes = 40 * 30 * 3;  // one
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path(), options).problems), HasSubstr("images/1.png"));
  options.memory_limit_bytes -= 1;
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path(), options).problems),
              HasSubstr("largest image does not fit"));
}

TEST(SceneReaderTest, DecodersSideBySideFitTogether) {
  constexpr uint64_t kLargest = 128'000'000 * 3;
  EXPECT_EQ(DecodesAtOnce(kLargest, 0, 16), 16) << "no limit";
  EXPECT_EQ(DecodesAtOnce(kLargest, uint64_t{600} << 20, 16), 1);
  EXPECT_EQ(DecodesAtOnce(kLargest, uint64_t{8} << 30, 16), 5);
  EXPECT_EQ(DecodesAtOnce(1000, uint64_t{8} << 30, 16), 16);
  const TempFolder folder;
  folder.Write("a.png", MakePng(40, 30));
  folder.Write("b.npy", std::string(5000, '0'));
  const std::vector<std::string> paths = {folder.path() + "/a.png", folder.path() + "/none"};
  EXPECT_EQ(LargestDecoded(paths), 3600u);
  EXPECT_EQ(LargestDecoded({paths[0], folder.path() + "/b.npy"}), 5000u);
}

TEST(SceneReaderTest, BrokenDataSetGivesEveryProblemAndNoScene) {
  const TempFolder folder;
  WriteLine(folder, 4, kFullKeys);
  folder.Write("images/1.png", "no image");
  folder.Write("images/2.png", MakePng(40, 30).substr(0, 200));
  folder.Write("images/3.png", MakePng(40, 20));
  Problems problems;
  const auto scene = LoadScene(folder.path(), {}, &problems);
  EXPECT_EQ(scene.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(problems.list(),
              ElementsAre(Problem{"images/1.png", "", "neither PNG nor JPEG (by its first bytes)"},
                          ::testing::Field(&Problem::message,
                                           HasSubstr("images/3.png is 40 x 20 but the file says 40 "
                                                     "x 30"))));
  // A check decodes what it can, so that it also finds the damage inside.
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("images/2.png: PNG is damaged: file is cut off"));
  folder.Write("images/1.png", MakePng(40, 30));
  folder.Write("images/3.png", MakePng(40, 30));
  EXPECT_THAT(std::string(LoadScene(folder.path()).status().message()),
              HasSubstr("images/2.png: PNG is damaged: file is cut off"));
}

TEST(SceneReaderTest, MissingFolderIsNotFound) {
  EXPECT_EQ(LoadScene("/nonexistent/folder").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(SummaryOf(DescribeScene("/nonexistent/folder").problems),
              HasSubstr("there is no such folder"));
}

TEST(SceneReaderTest, FolderWithoutDataSetSaysWhatItLooksFor) {
  const TempFolder folder;
  const auto scene = LoadScene(folder.path());
  EXPECT_EQ(scene.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(scene.status().message()), HasSubstr("transforms_train.json"));
}

TEST(SceneReaderTest, DataSetOneFolderDeeperIsNamed) {
  const TempFolder folder;
  folder.Write("fox/transforms.json", R"({"fl_x":50,"frames":[]})");
  folder.Write(".hidden/transforms.json", "{}");
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("the data set is in its folder fox"));
}

TEST(SceneReaderTest, PicturesThatShowNothingAreRefused) {
  for (const int alpha : {0, 9}) {
    const TempFolder folder;
    ImageU8 image = MakeImage(8, 6, 4);
    for (size_t i = 3; i < image.pixels.size(); i += 4) image.pixels[i] = 0;
    image.pixels[3] = static_cast<uint8_t>(alpha);
    ASSERT_TRUE(WritePng(folder.PathOf("a.png"), image).ok());
    folder.Write("transforms.json", R"({"fl_x":8,"camera_model":"pinhole","frames":[)" +
                                        FrameJson("a.png", 0, 0, 4) + "]}");
    const auto scene = LoadScene(folder.path());
    EXPECT_EQ(scene.ok(), alpha > 0) << scene.status();
    if (alpha == 0) {
      EXPECT_THAT(std::string(scene.status().message()), HasSubstr("nothing to learn"));
    }
  }
}

TEST(SceneReaderTest, LinksOutOfTheFolderAreRefused) {
  const TempFolder folder, outside;
  WriteLine(folder, 2, kFullKeys);
  outside.Write("secret.png", MakePng(40, 30));
  std::filesystem::remove(folder.PathOf("images/1.png"));
  ASSERT_EQ(symlink(outside.PathOf("secret.png").c_str(), folder.PathOf("images/1.png").c_str()),
            0);
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("transforms.json: frames[1].file_path: \"images/1.png\" leaves the data "
                        "set's folder by a symbolic link"));
  // A link that stays inside is fine, and so is a link to the folder itself.
  std::filesystem::remove(folder.PathOf("images/1.png"));
  folder.Write("originals/1.png", MakePng(40, 30));
  ASSERT_EQ(symlink("../originals/1.png", folder.PathOf("images/1.png").c_str()), 0);
  ASSERT_EQ(symlink(folder.path().c_str(), outside.PathOf("link").c_str()), 0);
  EXPECT_TRUE(DescribeScene(outside.PathOf("link")).ok());
  std::filesystem::remove(folder.PathOf("transforms.json"));
  outside.Write("transforms.json", "{}");
  ASSERT_EQ(
      symlink(outside.PathOf("transforms.json").c_str(), folder.PathOf("transforms.json").c_str()),
      0);
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("transforms.json: \"transforms.json\" leaves"));
}

TEST(SceneReaderTest, StopEndsALoadBeforeItsImagesAreRead) {
  std::stop_source stop;
  SceneOptions options;
  options.stop = stop.get_token();
  options.n_threads = 1;
  int n_seen = 0;
  options.between_images = [&] {
    if (++n_seen == 3) stop.request_stop();
  };
  EXPECT_THAT(LoadScene(kMic, options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(n_seen, 3);
}

}  // namespace
}  // namespace nerf
