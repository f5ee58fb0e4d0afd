#include "engine/scene/read/colmap_reader.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kCamerasText[] = "# comment\n3 OPENCV 40 30 50 51 20 15 0.1 0.01 0.001 0.002\n";
// Two images, ids neither ordered nor contiguous; no points for the first, two for the second; a
// name with a space.
constexpr char kImagesText[] =
    "# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n"
    "9 1 0 0 0 1 2 3 3 b c.png\n"
    "\n"
    "4 0.70710678118654757 0.70710678118654757 0 0 -1 0 5 3 a.png\n"
    "1.5 2.5 -1 3.5 4.5 17\n";

std::string BinaryCamera(uint32_t id, int32_t model, uint64_t width, uint64_t height,
                         const std::vector<double>& params) {
  std::string bytes = Bytes(id, model, width, height);
  for (const double param : params) bytes += Bytes(param);
  return bytes;
}

std::string BinaryImage(uint32_t id, uint32_t camera_id, const std::string& name, double qw = 1,
                        uint64_t n_points = 0) {
  return Bytes(id, qw, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, camera_id) + name + '\0' + Bytes(n_points);
}

const std::vector<double> kPinhole = {50, 51, 20, 15};

// images/a.png and images/"b c.png" of 40x30.
void WriteImages(const TempFolder& folder) {
  folder.Write("images/a.png", MakePng(40, 30));
  folder.Write("images/b c.png", MakePng(40, 30));
}

ListedViews ReadFolder(const TempFolder& folder, Problems* problems) {
  return ReadColmap(SceneFolder::Open(folder.path()).value(), problems);
}

TEST(ColmapReaderTest, TextModelGivesOpenGlPoses) {
  const TempFolder folder;
  WriteImages(folder);
  folder.Write("sparse/0/cameras.txt", kCamerasText);
  folder.Write("sparse/0/images.txt", kImagesText);
  Problems problems;
  const ListedViews listed = ReadFolder(folder, &problems);
  EXPECT_EQ(SummaryOf(problems), "");
  ASSERT_EQ(listed.views.size(), 2u);
  const ListedView& straight = listed.views[0];
  EXPECT_EQ(straight.file, "images/b c.png");
  // Identity rotation: center -t, y and z axes turned round.
  const double expected[3][4] = {{1, 0, 0, -1}, {0, -1, 0, -2}, {0, 0, -1, -3}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_DOUBLE_EQ(straight.pose.m[i][j], expected[i][j]);
  }
  // A quarter turn about x: R = [[1,0,0],[0,0,-1],[0,1,0]], center -R^T t = (1, -5, 0).
  const ListedView& turned = listed.views[1];
  const double expected_turned[3][4] = {{1, 0, 0, 1}, {0, 0, -1, -5}, {0, 1, 0, 0}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(turned.pose.m[i][j], expected_turned[i][j], 1e-12) << i << j;
    }
  }
  EXPECT_EQ(turned.intrinsics.p2, 0.002);
}

TEST(ColmapReaderTest, ParametersOfWideLensesAreReadInTheirOrder) {
  const TempFolder folder;
  WriteImages(folder);
  folder.Write("sparse/0/cameras.txt",
               "1 OPENCV_FISHEYE 40 30 50 51 20 15 0.1 0.2 0.3 0.4\n"
               "2 FULL_OPENCV 40 30 50 51 20 15 0.1 0.2 0.01 0.02 0.3 0.4 0.5 0.6\n");
  folder.Write("sparse/0/images.txt", "1 1 0 0 0 0 0 0 1 a.png\n\n2 1 0 0 0 1 0 0 2 b c.png\n\n");
  Problems problems;
  const ListedViews listed = ReadFolder(folder, &problems);
  EXPECT_EQ(SummaryOf(problems), "");
  ASSERT_EQ(listed.views.size(), 2u);
  const Intrinsics& fisheye = listed.views[0].intrinsics;
  EXPECT_EQ(fisheye.lens, LensModel::kFisheye);
  EXPECT_EQ(fisheye.focal[1], 51);
  EXPECT_EQ(fisheye.cy, 15);
  EXPECT_EQ(fisheye.k1, 0.1);
  EXPECT_EQ(fisheye.k4, 0.4);
  EXPECT_EQ(fisheye.p1, 0);
  const Intrinsics& full = listed.views[1].intrinsics;
  EXPECT_EQ(full.lens, LensModel::kPinhole) << "its distortion says what it is";
  EXPECT_EQ(full.k2, 0.2);
  EXPECT_EQ(full.p1, 0.01);
  EXPECT_EQ(full.k3, 0.3);
  EXPECT_EQ(full.k6, 0.6);
}

TEST(ColmapReaderTest, PointsComeWithTheModelWhereTheyCanBeRead) {
  const TempFolder folder;
  WriteImages(folder);
  folder.Write("sparse/0/cameras.txt", kCamerasText);
  folder.Write("sparse/0/images.txt", kImagesText);
  folder.Write("sparse/0/points3D.txt",
               "# comment\n7 1.5 -2 3 10 20 30 0.5 9 0 4 1\n8 0 0 1 1 2 3 0.1\n");
  Problems problems;
  ListedViews listed = ReadFolder(folder, &problems);
  ASSERT_EQ(listed.points.size(), 2u);
  EXPECT_EQ(listed.points[0].position, (Vec3d{1.5, -2, 3}));
  EXPECT_EQ(listed.points[0].n_views, 2u);
  EXPECT_EQ(listed.files.back(), "sparse/0/points3D.txt");
  folder.Write("sparse/0/points3D.txt", "7 1.5 -2 3 10 20 30\n");
  listed = ReadFolder(folder, &problems);
  EXPECT_TRUE(listed.points.empty());
  ASSERT_EQ(listed.warnings.size(), 1u);
  EXPECT_THAT(listed.warnings[0], HasSubstr("line 1"));
  EXPECT_EQ(listed.files.size(), 2u);
  EXPECT_EQ(SummaryOf(problems), "");
}

TEST(ColmapReaderTest, BinaryModelIsPreferredAndReadsTheSame) {
  const TempFolder folder;
  WriteImages(folder);
  folder.Write("sparse/cameras.txt", kCamerasText);
  folder.Write("sparse/images.txt", kImagesText);
  folder.Write("sparse/cameras.bin", Bytes(uint64_t{1}) + BinaryCamera(3, 1, 40, 30, kPinhole));
  folder.Write("sparse/images.bin",
               Bytes(uint64_t{1}) + BinaryImage(7, 3, "a.png", 1, 2) + std::string(48, '\1'));
  Problems problems;
  const ListedViews listed = ReadFolder(folder, &problems);
  EXPECT_EQ(SummaryOf(problems), "");
  EXPECT_EQ(listed.source, "sparse (binary)");
  ASSERT_EQ(listed.views.size(), 1u);
  EXPECT_EQ(listed.views[0].intrinsics.focal[1], 51);
  EXPECT_EQ(listed.views[0].pose.m[1][3], -2);
  EXPECT_EQ(listed.n_unposed, 1);
}

TEST(ColmapReaderTest, EachSupportedModelPutsItsParametersInPlace) {
  struct Case {
    const char* line;
    double fl_y, cx, k1, k2, p1;
  };
  const Case cases[] = {
      {"SIMPLE_PINHOLE 40 30 50 20 15", 50, 20, 0, 0, 0},
      {"PINHOLE 40 30 50 51 20 15", 51, 20, 0, 0, 0},
      {"SIMPLE_RADIAL 40 30 50 20 15 0.1", 50, 20, 0.1, 0, 0},
      {"RADIAL 40 30 50 20 15 0.1 0.2", 50, 20, 0.1, 0.2, 0},
      {"OPENCV 40 30 50 51 20 15 0.1 0.2 0.3 0.4", 51, 20, 0.1, 0.2, 0.3},
  };
  for (const Case& model : cases) {
    const TempFolder folder;
    WriteImages(folder);
    folder.Write("sparse/0/cameras.txt", absl::StrCat("1 ", model.line, "\n"));
    folder.Write("sparse/0/images.txt", "1 1 0 0 0 0 0 0 1 a.png\n\n");
    Problems problems;
    const ListedViews listed = ReadFolder(folder, &problems);
    EXPECT_EQ(SummaryOf(problems), "") << model.line;
    ASSERT_EQ(listed.views.size(), 1u);
    const Intrinsics& intrinsics = listed.views[0].intrinsics;
    EXPECT_EQ(intrinsics.focal[0], 50);
    EXPECT_EQ(intrinsics.focal[1], model.fl_y);
    EXPECT_EQ(intrinsics.cx, model.cx);
    EXPECT_EQ(intrinsics.cy, 15);
    EXPECT_EQ(intrinsics.k1, model.k1);
    EXPECT_EQ(intrinsics.k2, model.k2);
    EXPECT_EQ(intrinsics.p1, model.p1);
  }
}

TEST(ColmapReaderTest, MissingPicturesAndFurtherModelsAreWarnedOf) {
  const TempFolder folder;
  folder.Write("images/a.png", MakePng(40, 30));
  folder.Write("images/unposed.jpg", MakeJpeg(40, 30));
  folder.Write("sparse/0/cameras.txt", kCamerasText);
  folder.Write("sparse/0/images.txt", kImagesText);
  folder.Write("sparse/1/images.txt", "");
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.n_missing, 1);
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("1 of 2 listed images do not exist")));
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("1 images in images/ have no pose")));
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("sparse/0 (text) is used, of 2 images; other "
                                                 "COLMAP models are there and are not: sparse/1 "
                                                 "(0)")));
}

// One line of images.txt and its empty line of points.
std::string ImageLines(int first, int n) {
  std::string lines;
  for (int i = first; i < first + n; ++i)
    absl::StrAppend(&lines, i + 1, " 1 0 0 0 ", i, " 0 0 1 ", i, ".png\n\n");
  return lines;
}

// Eight photographs in `pictures` and a model of `n` of them in `model`.
void WriteModel(const TempFolder& folder, const std::string& model, const std::string& pictures,
                int n = 8, const std::string& camera = "1 PINHOLE 40 30 50 51 20 15\n") {
  for (int i = 0; i < 8; ++i) folder.Write(absl::StrCat(pictures, i, ".png"), MakePng(40, 30));
  folder.Write(absl::StrCat(model, "cameras.txt"), camera);
  folder.Write(absl::StrCat(model, "images.txt"), ImageLines(0, n));
}

TEST(ColmapReaderTest, LargestModelIsUsedWhereverItLies) {
  struct Case {
    const char *model, *pictures;
  };
  for (const Case& c : {Case{"sparse/0/", "images/"},
                        {"sparse/3/", "images/"},
                        {"", ""},
                        {"", "images/"},
                        {"dense/0/sparse/", "dense/0/images/"},
                        {"dense/sparse/", "dense/images/"},
                        {"colmap/sparse/0/", "images/"},
                        {"distorted/sparse/0/", "input/"},
                        {"sparse/0/text/", "images/"},
                        {"colmap_text/", "images/"},
                        {"my capture/sparse/0/", "my capture/images/"}}) {
    const TempFolder folder;
    WriteModel(folder, c.model, c.pictures);
    const SceneDescription scene = DescribeScene(folder.path());
    EXPECT_TRUE(scene.ok()) << c.model << ": " << SummaryOf(scene.problems);
    EXPECT_EQ(scene.train.size() + scene.test.size(), 8u) << c.model;
    EXPECT_TRUE(scene.warnings.empty()) << c.model << ": " << scene.warnings[0];
    EXPECT_TRUE(HasSceneFiles(folder.path())) << c.model;
  }
}

TEST(ColmapReaderTest, FoldersOfOtherNamesHoldNoModel) {
  const TempFolder folder;
  WriteModel(folder, "old attempt/sparse/0/", "images/");
  EXPECT_FALSE(HasSceneFiles(folder.path())) << "photographs beside somebody's folder";
  const TempFolder two;
  WriteModel(two, "fox/sparse/0/", "fox/images/");
  WriteModel(two, "fern/sparse/0/", "fern/images/");
  EXPECT_FALSE(HasSceneFiles(two.path())) << "which of both is meant?";
  const TempFolder hidden;
  WriteModel(hidden, ".trash/sparse/0/", "images/");
  EXPECT_FALSE(HasSceneFiles(hidden.path()));
  const TempFolder half;
  half.Write("images/0.png", MakePng(40, 30));
  half.Write("cameras.txt", "Canon\n");  // no model beside photographs without images.txt
  EXPECT_FALSE(HasSceneFiles(half.path()));
}

TEST(ColmapReaderTest, ModelWhosePhotographsAreThereComesFirst) {
  const TempFolder folder;
  WriteModel(folder, "sparse/0/", "images/", 3);
  folder.Write("sparse/1/cameras.txt", "1 PINHOLE 40 30 50 51 20 15\n");
  folder.Write("sparse/1/images.txt", ImageLines(3, 5));
  SceneDescription scene = DescribeScene(folder.path());
  EXPECT_EQ(scene.source, "sparse/1 (text)");
  EXPECT_EQ(scene.n_listed, 5);
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("sparse/0 (3)")));
  EXPECT_THAT(scene.list_files, ::testing::Not(Contains(HasSubstr("sparse/0"))));
  folder.Write("sparse/1/images.txt", ImageLines(100, 50));  // photographs that are elsewhere
  scene = DescribeScene(folder.path());
  EXPECT_EQ(scene.source, "sparse/0 (text)");
}

// A 3DGS folder: the model of the photographs in input/ has their distortion, the other not.
TEST(ColmapReaderTest, PicturesAreThoseOfTheModelsSize) {
  const TempFolder folder;
  WriteModel(folder, "distorted/sparse/0/", "input/", 8, "1 OPENCV 40 30 50 51 20 15 .1 0 0 0\n");
  for (int i = 0; i < 8; ++i) folder.Write(absl::StrCat("images/", i, ".png"), MakePng(36, 28));
  SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.train[0].file, "input/1.png");
  folder.Write("sparse/0/cameras.txt", "1 PINHOLE 36 28 50 51 18 14\n");
  folder.Write("sparse/0/images.txt", ImageLines(0, 8));
  scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.source, "sparse/0 (text)");
  EXPECT_EQ(scene.train[0].file, "images/1.png");
}

TEST(ColmapReaderTest, FisheyesAndFovAreReadByColmapsFormulas) {
  struct Case {
    const char* line;
    LensModel lens;
    float fl_y, k1, k2, k3, k4, k6;
  };
  for (const Case& c :
       {Case{"SIMPLE_RADIAL_FISHEYE 40 30 50 20 15 0.1", LensModel::kFisheye, 50, 0.1f, 0, 0, 0, 0},
        {"RADIAL_FISHEYE 40 30 50 20 15 0.1 0.2", LensModel::kFisheye, 50, 0.1f, 0.2f, 0, 0, 0},
        {"OPENCV_FISHEYE 40 30 50 51 20 15 0.1 0.2 0.03 0.04", LensModel::kFisheye, 51, 0.1f, 0.2f,
         0.03f, 0.04f, 0},
        {"THIN_PRISM_FISHEYE 40 30 50 51 20 15 0.1 0.2 0.01 0.02 0.03 0.04 0.05 0.06",
         LensModel::kThinPrismFisheye, 51, 0.1f, 0.2f, 0.03f, 0.04f, 0.06f},
        {"FOV 40 30 50 51 20 15 0.9", LensModel::kFieldOfView, 51, 0.9f, 0, 0, 0, 0}}) {
    const TempFolder folder;
    WriteModel(folder, "sparse/0/", "images/", 8, absl::StrCat("1 ", c.line, "\n"));
    const SceneDescription scene = DescribeScene(folder.path());
    ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
    const Camera& camera = scene.train[0].camera;
    EXPECT_EQ(camera.lens, c.lens) << c.line;
    EXPECT_EQ(camera.fl_y, c.fl_y) << c.line;
    EXPECT_EQ(camera.cx, 20) << c.line;
    EXPECT_EQ(camera.k1, c.k1) << c.line;
    EXPECT_EQ(camera.k2, c.k2) << c.line;
    EXPECT_EQ(camera.k3, c.k3) << c.line;
    EXPECT_EQ(camera.k4, c.k4) << c.line;
    EXPECT_EQ(camera.k6, c.k6) << c.line;
    EXPECT_EQ(scene.camera_models[0],
              absl::StrCat(std::string(c.line).substr(0, std::string(c.line).find(' ')), " 40x30"));
  }
}

// As editors of Windows leave them, and without the lines of points.
TEST(ColmapReaderTest, TextWrittenByHandIsRead) {
  const TempFolder folder;
  for (const char* name : {"images/a.png", "images/b 1.png"}) folder.Write(name, MakePng(20, 20));
  folder.Write("sparse/0/cameras.txt",
               "\xef\xbb\xbf"
               "1 PINHOLE 20 20 20 20 10 10\r\n");
  std::string images = "\xff\xfe";
  for (const char c : std::string("1 1 0 0 0 0 0 0 1 a.png\r\n2 1 0 0 0 1 0 0 1 b 1.png\r\n")) {
    images += {c, '\0'};
  }
  folder.Write("sparse/0/images.txt", images);
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.n_listed, 2);
}

TEST(ColmapReaderTest, SameImageTwiceCountsOnce) {
  const TempFolder folder;
  WriteModel(folder, "sparse/0/", "images/");
  folder.Write("sparse/0/images.txt", ImageLines(0, 8) + ImageLines(0, 2));
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.n_listed, 8);
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("left out 2 repetitions of images")));
}

// The two files of a model beside images/a.png and images/"b c.png", and words of the expected
// error.
struct HostileModel {
  const char* name;
  const char* ending;
  std::string cameras;
  std::string images;
  const char* words;
};

void PrintTo(const HostileModel& model, std::ostream* out) { *out << model.name; }

class HostileModelTest : public ::testing::TestWithParam<HostileModel> {};

TEST_P(HostileModelTest, IsRefusedWithFileFieldAndReason) {
  const TempFolder folder;
  WriteImages(folder);
  const HostileModel& model = GetParam();
  folder.Write(absl::StrCat("sparse/0/cameras", model.ending), model.cameras);
  folder.Write(absl::StrCat("sparse/0/images", model.ending), model.images);
  const auto scene = LoadScene(folder.path());
  EXPECT_EQ(scene.status().code(), absl::StatusCode::kInvalidArgument) << scene.status();
  EXPECT_THAT(std::string(scene.status().message()), HasSubstr(model.words));
}

std::vector<HostileModel> HostileBinaryModels() {
  const uint64_t one = 1;
  const std::string camera = Bytes(one) + BinaryCamera(1, 1, 40, 30, kPinhole);
  const std::string image = Bytes(one) + BinaryImage(1, 1, "a.png");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return {
      {"BinEmptyCameras", ".bin", "", image, "sparse/0/cameras.bin: the file is cut off at byte 0"},
      {"BinCutCamera", ".bin", camera.substr(0, camera.size() - 3), image,
       "cameras.bin: camera 1: the file is cut off"},
      {"BinHugeCameraCount", ".bin", Bytes(~uint64_t{0}) + camera.substr(8), image,
       "states 18446744073709551615 cameras"},
      {"BinUnknownModel", ".bin", Bytes(one) + BinaryCamera(1, 57, 40, 30, kPinhole), image,
       "camera 1: unknown camera model 57"},
      {"BinUnsupported", ".bin",
       Bytes(one) + BinaryCamera(1, 11, 40, 30, std::vector<double>(16, 20)), image,
       "camera 1: camera model RAD_TAN_THIN_PRISM_FISHEYE is not supported"},
      {"BinFieldOfView", ".bin", Bytes(one) + BinaryCamera(1, 7, 40, 30, {50, 51, 20, 15, 3.2}),
       image, "camera 1: field of view 3.2 must be less"},
      {"BinZeroSize", ".bin", Bytes(one) + BinaryCamera(1, 1, 0, 30, kPinhole), image,
       "camera 1: picture of 0x30"},
      {"BinFocalNan", ".bin", Bytes(one) + BinaryCamera(1, 1, 40, 30, {nan, 51, 20, 15}), image,
       "camera 1: a parameter is not a finite number"},
      {"BinFocalNegative", ".bin", Bytes(one) + BinaryCamera(1, 1, 40, 30, {50, -51, 20, 15}),
       image, "camera 1: focal length -51 must be greater than 0"},
      {"BinFocalAbsurd", ".bin", Bytes(one) + BinaryCamera(1, 1, 40, 30, {1e9, 1e9, 20, 15}), image,
       "camera 1: focal length of 1e+09 pixels is absurd"},
      {"BinDistortionAbsurd", ".bin", Bytes(one) + BinaryCamera(1, 2, 40, 30, {50, 20, 15, 1e10}),
       image, "camera 1: distortion 1e+10 is absurd; up to 100 is read"},
      {"BinCameraTwice", ".bin",
       Bytes(uint64_t{2}) + BinaryCamera(1, 1, 40, 30, kPinhole) +
           BinaryCamera(1, 1, 40, 30, kPinhole),
       image, "camera id 1 occurs twice"},
      {"BinNoImages", ".bin", camera, Bytes(uint64_t{0}), "no image is posed"},
      {"BinHugeImageCount", ".bin", camera, Bytes(uint64_t{1} << 60) + image.substr(8),
       "states 1152921504606846976 images"},
      {"BinCutImage", ".bin", camera, image.substr(0, 76), "states 1 images, too many"},
      {"BinCutSecondImage", ".bin", camera,
       Bytes(uint64_t{2}) + BinaryImage(1, 1, "a.png") +
           BinaryImage(2, 1, "b c.png").substr(0, 70) + std::string(12, 'x'),
       "images.bin: image number 2: the file is cut off"},
      {"BinHugePointCount", ".bin", camera,
       Bytes(one) + BinaryImage(1, 1, "a.png", 1, uint64_t{1} << 62), "the file is cut off"},
      {"BinBadCameraId", ".bin", camera, Bytes(one) + BinaryImage(1, 8, "a.png"),
       "image 1: camera id 8 is not in sparse/0/cameras.bin"},
      {"BinZeroQuaternion", ".bin", camera, Bytes(one) + BinaryImage(1, 1, "a.png", 0),
       "image 1: the pose is not a rotation"},
      {"BinInfiniteQuaternion", ".bin", camera, Bytes(one) + BinaryImage(1, 1, "a.png", infinity),
       "image 1: the pose is not a rotation"},
      {"BinNameLeaves", ".bin", camera, Bytes(one) + BinaryImage(1, 1, "../../x.png"),
       "leaves the data set's folder"},
      {"BinNameAbsolute", ".bin", camera, Bytes(one) + BinaryImage(1, 1, "/etc/passwd"),
       "is absolute"},
      {"BinNameEmpty", ".bin", camera, Bytes(one) + BinaryImage(1, 1, ""), "image has no name"},
      {"BinNameTwice", ".bin", camera,
       Bytes(uint64_t{2}) + BinaryImage(1, 1, "a.png") +
           Bytes(2u, 1.0, 0.0, 0.0, 0.0, 9.0, 2.0, 3.0, 1u) + "a.png" + '\0' + Bytes(uint64_t{0}),
       "image 2: images/a.png is listed twice, first in image 1"},
      {"BinAllMissing", ".bin", camera, Bytes(one) + BinaryImage(1, 1, "z.png"),
       "none of the 1 listed images exists, e.g. images/z.png"},
      {"BinOtherShape", ".bin", Bytes(one) + BinaryCamera(1, 1, 30, 40, kPinhole), image,
       "images/a.png (40 x 30 where the file says 30 x 40)"},
  };
}

std::vector<HostileModel> HostileTextModels() {
  const std::string text_camera = "1 PINHOLE 40 30 50 51 20 15\n";
  const std::string text_image = "1 1 0 0 0 0 0 0 1 a.png\n\n";
  return {
      {"TextEmptyCameras", ".txt", "# nothing\n", text_image, "camera id 1 is not in"},
      {"TextCameraWords", ".txt", "1 PINHOLE forty 30 50 51 20 15\n", text_image,
       "cameras.txt: line 1: must be CAMERA_ID MODEL"},
      {"TextModelUnknown", ".txt", "1 MAGIC 40 30 50 51 20 15\n", text_image,
       "line 1: unknown camera model MAGIC"},
      {"TextModelUnsupported", ".txt", "1 RAD_TAN_THIN_PRISM_FISHEYE 40 30 1 2\n", text_image,
       "line 1: camera model RAD_TAN_THIN_PRISM_FISHEYE is not supported"},
      {"TextTooFewParameters", ".txt", "1 PINHOLE 40 30 50 51 20\n", text_image,
       "line 1: PINHOLE has 4 parameters, not 3"},
      {"TextParameterIsText", ".txt", "1 PINHOLE 40 30 50 x 20 15\n", text_image,
       "line 1: parameter 2 is not a number"},
      {"TextParameterIsNan", ".txt", "1 PINHOLE 40 30 50 nan 20 15\n", text_image,
       "line 1: a parameter is not a finite number"},
      {"TextImageWords", ".txt", text_camera, "# c\n1 1 0 0 x 0 0 0 1 a.png\n\n",
       "images.txt: line 2: must be IMAGE_ID"},
      {"TextImageWithoutName", ".txt", text_camera, "1 1 0 0 0 0 0 0 1\n\n",
       "line 1: must be IMAGE_ID"},
      {"TextTranslationInfinite", ".txt", text_camera, "1 1 0 0 0 inf 0 0 1 a.png\n\n",
       "line 1: the pose is not a rotation"},
      {"TextNoImages", ".txt", text_camera, "# Number of images: 0\n", "no image is posed"},
      {"TextBinaryContent", ".txt", text_camera, std::string(300, '\xee'),
       "line 1: must be IMAGE_ID"},
  };
}

std::string ModelCaseName(const ::testing::TestParamInfo<HostileModel>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Binary, HostileModelTest, ::testing::ValuesIn(HostileBinaryModels()),
                         ModelCaseName);
INSTANTIATE_TEST_SUITE_P(Text, HostileModelTest, ::testing::ValuesIn(HostileTextModels()),
                         ModelCaseName);

TEST(ColmapReaderTest, OneFileOfTheModelMissingIsNamed) {
  const TempFolder folder;
  WriteImages(folder);
  folder.Write("sparse/0/images.txt", kImagesText);
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("sparse/0/cameras.txt: is missing"));
}

TEST(ColmapReaderTest, EveryTruncationOfABinaryModelIsRefused) {
  const std::string cameras = Bytes(uint64_t{1}) + BinaryCamera(1, 1, 40, 30, kPinhole);
  const std::string images = Bytes(uint64_t{2}) + BinaryImage(1, 1, "a.png") +
                             BinaryImage(2, 1, "b c.png", 1, 1) + std::string(24, '\0');
  const TempFolder folder;
  WriteImages(folder);
  folder.Write("sparse/0/cameras.bin", cameras);
  for (size_t size = 0; size < images.size(); ++size) {
    folder.Write("sparse/0/images.bin", images.substr(0, size));
    Problems problems;
    ReadFolder(folder, &problems);
    EXPECT_FALSE(problems.empty()) << size;
  }
}

}  // namespace
}  // namespace nerf
