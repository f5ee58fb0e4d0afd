#include "engine/scene/read/transforms_reader.h"

#include "absl/strings/str_cat.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

// A transforms.json beside two valid images a.png and b.png (20x20), and words of the expected
// error.
struct HostileTransforms {
  const char* name;
  std::string json;
  const char* words;
};

void PrintTo(const HostileTransforms& transforms, std::ostream* out) { *out << transforms.name; }

class HostileTransformsTest : public ::testing::TestWithParam<HostileTransforms> {};

TEST_P(HostileTransformsTest, IsRefusedWithFileFieldAndReason) {
  const TempFolder folder;
  folder.Write("data/a.png", MakePng(20, 20));
  folder.Write("data/b.png", MakePng(20, 20));
  folder.Write("outside.png", MakePng(20, 20));
  folder.Write("data/transforms.json", GetParam().json);
  const auto scene = LoadScene(folder.PathOf("data"));
  EXPECT_EQ(scene.status().code(), absl::StatusCode::kInvalidArgument) << scene.status();
  const std::string message(scene.status().message());
  EXPECT_THAT(message, HasSubstr(GetParam().words));
  EXPECT_THAT(message, HasSubstr("transforms.json: "));
}

std::string WithFrames(const std::string& keys, const std::string& frames) {
  return "{" + keys + "\"frames\":[" + frames + "]}";
}

// One frame of a.png with this matrix.
std::string WithMatrix(const std::string& matrix) {
  return WithFrames("\"fl_x\":20,",
                    "{\"file_path\":\"a.png\",\"transform_matrix\":" + matrix + "}");
}

std::string WithPath(const std::string& path) {
  return WithFrames("\"fl_x\":20,", FrameJson(path, 0, 0, 0));
}

std::vector<HostileTransforms> HostileJsonAndMatrices() {
  const std::string a = FrameJson("a.png", 0, 0, 0);
  std::string deep(100'000, '[');
  std::string many = a;
  for (int i = 0; i < 100'000; ++i) many += ",0";
  const std::string angle = "\"camera_angle_x\":0.7,";
  return {
      {"Empty", "", "line 1: not valid JSON"},
      {"Truncated", "{\"fl_x\": 20,\n\"frames\": [\n{\"file_path\": \"a.p",
       "line 3: not valid JSON"},
      {"NotANumber", WithMatrix("[[1,0,0,0],[0,1,NaN,0],[0,0,1,0]]"),
       "frames[0].transform_matrix: row 1, column 2 must be a number, is NaN"},
      {"MinusInfinity", WithMatrix("[[1,0,0,-Infinity],[0,1,0,0],[0,0,1,0]]"),
       "frames[0].transform_matrix: row 0, column 3 must be a number, is -Infinity"},
      {"LineOfAnError", "{\n \"fl_x\": 20,\n \"fl_y\": x\n}", "line 3: not valid JSON in fl_y: "},
      {"NotANumberInAField", WithFrames("\"fl_x\":nan,", a), "fl_x: must be a number, is nan"},
      {"NullIsAbsent", WithFrames("\"fl_x\":null,", a), "intrinsics are missing"},
      {"NullMatrix", WithMatrix("null"), "transform_matrix: is missing"},
      {"ErrorAfterDeepNesting",
       "{\"a\": [" + std::string(20, '[') + "1" + std::string(20, ']') + ", x]}",
       "line 1: not valid JSON in a[1]: "},
      {"TornInTheSecondFrame", "{\"frames\": [{\"file_path\": \"a\"},\n{\"file_path\" 1}]}",
       "line 2: not valid JSON in frames[1].file_path: "},
      {"NumberTooLarge", WithFrames("\"fl_x\":1e999,", a), "fl_x: must be a number, is 1e999"},
      {"BadUtf8", "{\"frames\":\"\xff\xfe\"}", "frames: must be a list, is string"},
      {"GitLfs", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
       "is no JSON but a pointer of Git LFS"},
      {"CommaAlone", "{,}", "frames: is missing"},
      {"TwoCommas", "{\"frames\":[1,,]}", "not valid JSON"},
      {"HalfAByteOrderMark", "\xff{}", "not valid JSON"},
      {"HalfAUtf16", std::string("\xff\xfe{\0\0", 5), "not valid JSON"},
      {"MatrixOf15Numbers", WithMatrix("[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0]"), "must have 4 rows"},
      {"DeepNesting", deep, "not valid JSON"},
      {"TrailingGarbage", WithFrames(angle, a) + "}", "not valid JSON"},
      {"NoObject", "[1,2]", "must be a JSON object, is array"},
      {"FramesMissing", "{\"fl_x\":20}", "frames: is missing"},
      {"FramesNotAList", "{\"fl_x\":20,\"frames\":{\"a\":1}}", "frames: must be a list, is object"},
      {"FramesEmpty", WithFrames("\"fl_x\":20,", ""), "frames: is empty"},
      {"FramesTooMany", WithFrames("\"fl_x\":20,", many), "at most 100000"},
      {"FrameIsNoObject", WithFrames("\"fl_x\":20,", a + ",null"), "frames[1]: must be an object"},
      {"MatrixMissing", WithFrames("\"fl_x\":20,", a + ",{\"file_path\":\"b.png\"}"),
       "frames[1].transform_matrix: is missing"},
      {"MatrixIsText", WithMatrix("\"identity\""), "must have 4 rows"},
      {"MatrixHasTwoRows", WithMatrix("[[1,0,0,0],[0,1,0,0]]"), "must have 4 rows"},
      {"MatrixRowIsShort", WithMatrix("[[1,0,0,0],[0,1,0],[0,0,1,0]]"),
       "row 1 must have 4 numbers"},
      {"MatrixHoldsText", WithMatrix("[[1,0,0,0],[0,1,0,\"x\"],[0,0,1,0]]"),
       "row 1, column 3 must be a number, is string"},
      {"MatrixHoldsNull", WithMatrix("[[null,0,0,0],[0,1,0,0],[0,0,1,0]]"),
       "row 0, column 0 must be a number, is null"},
      {"MatrixTooFar", WithMatrix("[[1,0,0,1e30],[0,1,0,0],[0,0,1,0]]"),
       "row 0, column 3 is 1e+30"},
      {"MatrixIsZero", WithMatrix("[[0,0,0,0],[0,0,0,0],[0,0,0,0]]"), "not a rotation"},
      {"MatrixIsMirrored", WithMatrix("[[-1,0,0,0],[0,1,0,0],[0,0,1,0]]"), "not a rotation"},
      {"MatrixIsSheared", WithMatrix("[[1,0.2,0,0],[0,1,0,0],[0,0,1,0]]"), "not a rotation"},
      {"MatrixLastRow", WithMatrix("[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,1,1]]"), "last row"},
  };
}

std::vector<HostileTransforms> HostileIntrinsics() {
  const std::string a = FrameJson("a.png", 0, 0, 0);
  return {
      {"FocalZero", WithFrames("\"fl_x\":0,", a), "fl_x: 0 must be greater than 0"},
      {"FocalNegative", WithFrames("\"fl_x\":20,\"fl_y\":-20,", a), "fl_y: -20 must be greater"},
      {"FocalAbsurd", WithFrames("\"fl_x\":0.001,", a),
       "fl_x: focal length of 0.001 pixels is absurd"},
      {"FocalIsText", WithFrames("\"fl_x\":\"20 mm\",", a), "fl_x: must be a number, is string"},
      {"AngleZero", WithFrames("\"camera_angle_x\":0,", a), "camera_angle_x: 0 must be between"},
      {"AngleInDegrees", WithFrames("\"camera_angle_x\":45,", a), "between 0 and pi radians"},
      {"FovOfHalfTurn", WithFrames("\"x_fov\":180,", a), "between 0 and 180 degrees"},
      {"FrameCenter", WithFrames("\"fl_x\":20,", FrameJson("a.png", 0, 0, 0, ",\"cy\":900")),
       "frames[0].cy: principal point 900 lies far outside"},
      {"FrameFocal", WithFrames("", FrameJson("a.png", 0, 0, 0, ",\"fl_x\":-3")),
       "frames[0].fl_x: -3 must be"},
      {"IntrinsicsMissing", WithFrames("", a), "camera_angle_x: intrinsics are missing"},
      {"SizeNegative", WithFrames("\"fl_x\":20,\"w\":-20,\"h\":20,", a), "w: -20 must be between"},
      {"SizeOfAnotherShape", WithFrames("\"fl_x\":20,\"w\":40,\"h\":20,", a),
       "w: a.png is 20 x 20 but the file says 40 x 20"},
      {"PrincipalPointFarOut", WithFrames("\"fl_x\":20,\"cx\":500,", a), "cx: principal point 500"},
      {"DistortionAbsurd", WithFrames("\"fl_x\":20,\"k1\":1e6,", a), "k1: 1e+06 is absurd"},
      {"DistortionParams", WithFrames("\"fl_x\":20,\"distortion_params\":[1,2,3,4,5,6,7],", a),
       "distortion_params: must be up to 6"},
      {"FourthRadialTerm", WithFrames("\"fl_x\":20,\"k4\":0.1,", a),
       "k4 to k6 are of camera models"},
      {"CameraModelUnknown", WithFrames("\"fl_x\":20,\"camera_model\":\"ORTHOPHOTO\",", a),
       "camera_model: camera model \"ORTHOPHOTO\" is not supported"},
      {"CameraModelIsNumber", WithFrames("\"fl_x\":20,\"camera_model\":4,", a), "must be a text"},
      {"NgpLatlong", WithFrames("\"fl_x\":20,\"latlong\":true,", a), "latlong: this lens"},
  };
}

std::vector<HostileTransforms> HostilePlacementsAndPaths() {
  const std::string a = FrameJson("a.png", 0, 0, 0);
  return {
      {"AabbScaleNotPowerOfTwo", WithFrames("\"fl_x\":20,\"aabb_scale\":3,", a),
       "aabb_scale: 3 must be a power of two"},
      {"AabbScaleTooLarge", WithFrames("\"fl_x\":20,\"aabb_scale\":256,", a), "aabb_scale: 256"},
      {"ScaleZero", WithFrames("\"fl_x\":20,\"scale\":0,", a), "scale: 0 must be greater"},
      {"OffsetAbsurd", WithFrames("\"fl_x\":20,\"offset\":1e300,", a), "offset: must be 3 numbers"},
      {"OffsetOfTwo", WithFrames("\"fl_x\":20,\"offset\":[1,2],", a), "offset: must be 3 numbers"},
      {"AabbEmpty", WithFrames("\"fl_x\":20,\"aabb\":[[1,1,1],[1,1,1]],", a),
       "aabb: the box is empty"},
      {"PathMissing",
       WithFrames("\"fl_x\":20,", "{\"transform_matrix\":" + MatrixJson(0, 0, 0) + "}"),
       "frames[0].file_path: is missing"},
      {"PathIsNumber",
       WithFrames("\"fl_x\":20,",
                  "{\"file_path\":7,\"transform_matrix\":" + MatrixJson(0, 0, 0) + "}"),
       "frames[0].file_path: must be a text, is number"},
      {"TimeOutOfRange", WithFrames("\"fl_x\":20,", FrameJson("a.png", 0, 0, 0, ",\"time\":2")),
       "frames[0].time: 2 must be 0 to 1"},
      {"PathEmpty", WithPath(""), "frames[0].file_path: the name is empty"},
      {"PathAbsolute", WithPath("/etc/passwd"), "frames[0].file_path: \"/etc/passwd\" is absolute"},
      {"PathOfADrive", WithPath("C:\\\\images\\\\c.png"), "is absolute"},
      {"PathLeavesTheFolder", WithPath("../outside.png"), "leaves the data set's folder"},
      {"PathLeavesTheFolderByBackslash", WithPath("x\\\\..\\\\..\\\\outside.png"),
       "leaves the data set's folder"},
      {"PathHoldsZero", WithPath("a.png\\u0000.jpg"), "holds a zero byte"},
      {"PathTooLong", WithPath(std::string(5000, 'x')), "a name of 5000 bytes"},
      {"PathTwice", WithFrames("\"fl_x\":20,", a + "," + FrameJson("./a.png", 1, 0, 0)),
       "frames[1].file_path: a.png is listed twice, first in frames[0]"},
      {"AllMissing", WithPath("nowhere.png"),
       "none of the 1 listed images exists, e.g. nowhere.png"},
      {"TrainNamesNoList", WithFrames("\"fl_x\":20,\"train_filenames\":7,", a),
       "train_filenames: must be a list"},
  };
}

std::string TransformsCaseName(const ::testing::TestParamInfo<HostileTransforms>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(JsonAndMatrices, HostileTransformsTest,
                         ::testing::ValuesIn(HostileJsonAndMatrices()), TransformsCaseName);
INSTANTIATE_TEST_SUITE_P(Intrinsics, HostileTransformsTest,
                         ::testing::ValuesIn(HostileIntrinsics()), TransformsCaseName);
INSTANTIATE_TEST_SUITE_P(PlacementsAndPaths, HostileTransformsTest,
                         ::testing::ValuesIn(HostilePlacementsAndPaths()), TransformsCaseName);

TEST(TransformsReaderTest, ProblemsOfAllFramesAreListedAtOnceAndFileLevelOnesOnce) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  std::string frames;
  for (int i = 0; i < 20; ++i)
    frames += (i > 0 ? "," : "") + std::string("{\"file_path\":\"a.png\"}");
  folder.Write("transforms.json", WithFrames("\"fl_x\":-1,", frames));
  const SceneDescription scene = DescribeScene(folder.path());
  int n_focal = 0, n_matrix = 0;
  for (const Problem& problem : scene.problems) {
    n_focal += problem.field == "fl_x";
    n_matrix += problem.field.find("transform_matrix") != std::string::npos;
  }
  EXPECT_EQ(n_focal, 1);
  EXPECT_EQ(n_matrix, 20);
}

// Files that editors, shells and scripts have been over.
TEST(TransformsReaderTest, TextIsReadAsItIsMeant) {
  const std::string frame =
      "{\"file_path\":\"a.png\",\"transform_matrix\":[1,0,0,\"2\",0,1,0,3,0,0,1,4]}";
  const std::string plain = WithFrames("\"fl_x\":\" 20.5 \",\"aabb_scale\":\"4\",", frame);
  std::string low = "\xff\xfe", high = "\xfe\xff", latin = plain, commas = plain;
  for (const char c : plain) {
    low += {c, '\0'};
    high += {'\0', c};
  }
  latin.insert(1, "\"author\":\"J\xfcrg\",");
  commas.replace(commas.size() - 2, 2, ", // the last\n ] /*/ , \" */ ,\n}");
  for (const std::string& text : {plain, "\xef\xbb\xbf" + plain, low, high, latin, commas}) {
    const TempFolder folder;
    folder.Write("a.png", MakePng(20, 20));
    folder.Write("transforms.json", text);
    const SceneDescription scene = DescribeScene(folder.path());
    ASSERT_TRUE(scene.ok()) << text << SummaryOf(scene.problems);
    EXPECT_TRUE(scene.warnings.empty()) << scene.warnings[0];
    EXPECT_EQ(scene.train[0].camera.fl_x, 20.5f);
    EXPECT_EQ(scene.geometry.n_levels, 3);
  }
}

TEST(TransformsReaderTest, OtherProgramsWordsForLensesAreKnown) {
  for (const auto& [word, lens] :
       {std::pair("perspective", LensModel::kPinhole), std::pair("fisheye", LensModel::kFisheye)}) {
    const TempFolder folder;
    folder.Write("a.png", MakePng(20, 20));
    folder.Write("transforms.json",
                 WithFrames(absl::StrCat("\"fl_x\":20,\"camera_model\":\"", word, "\","),
                            FrameJson("a.png", 0, 0, 0)));
    const SceneDescription scene = DescribeScene(folder.path());
    ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
    EXPECT_EQ(scene.train[0].camera.lens, lens);
  }
}

// Fields that nothing reads, and how programs write numbers that JSON can't express.
TEST(TransformsReaderTest, UnusedFieldsNeverRefuseAFile) {
  for (const char* value : {"NaN", "-Infinity", "nan", "inf", "-nan(ind)", "1e999", "null",
                            "\"text, NaN\"", "[NaN, {\"a\": -inf}]"}) {
    const TempFolder folder;
    folder.Write("a.png", MakePng(20, 20));
    folder.Write("transforms.json",
                 WithFrames("\"fl_x\":20,\n\"note\": \"NaN // \\\" inf\",",
                            FrameJson("a.png", 0, 0, 0, absl::StrCat(",\"sharpness\":", value))));
    const SceneDescription scene = DescribeScene(folder.path());
    EXPECT_TRUE(scene.ok()) << value << ": " << SummaryOf(scene.problems);
    const bool is_json = std::string(value) == "null" || value[0] == '"';
    EXPECT_EQ(scene.warnings.size(), is_json ? 0u : 1u) << value;
    if (!is_json) {
      EXPECT_THAT(scene.warnings[0], HasSubstr("line 2: NaN or infinity")) << value;
    }
  }
}

TEST(TransformsReaderTest, NullFieldsAreAbsent) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  folder.Write("transforms.json",
               WithFrames("\"fl_x\":20,\"k1\":null,\"aabb_scale\":null,\"train_filenames\":null,",
                          FrameJson("a.png", 0, 0, 0,
                                    ",\"mask_path\":null,\"time\":null,"
                                    "\"w\":null,\"depth_file_path\":null")));
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.geometry.flavor, SceneFlavor::kNerfstudio);
  EXPECT_TRUE(scene.warnings.empty()) << scene.warnings[0];
}

TEST(TransformsReaderTest, SameFrameTwiceCountsOnce) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  folder.Write("b.png", MakePng(20, 20));
  const std::string frames = FrameJson("a.png", 0, 0, 0) + "," + FrameJson("b.png", 1, 0, 0) + "," +
                             FrameJson("./a.png", 0, 0, 0, ",\"sharpness\":3");
  folder.Write("transforms.json", WithFrames("\"fl_x\":20,", frames));
  SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.n_listed, 2);
  ASSERT_EQ(scene.warnings.size(), 1u);
  EXPECT_THAT(scene.warnings[0], HasSubstr("left out 1 repetition of frames that are listed "
                                           "already, e.g. frames[2]"));
  for (const std::string other : {",\"fl_x\":21", ",\"time\":0.5", ",\"k1\":0.1"}) {
    folder.Write("transforms.json",
                 WithFrames("\"fl_x\":20,", frames + "," + FrameJson("b.png", 1, 0, 0, other)));
    EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
                HasSubstr("frames[3].file_path: b.png is listed twice, first in frames[1], with "
                          "another pose or camera"))
        << other;
  }
}

TEST(TransformsReaderTest, FisheyeIsShownAsWhatItIs) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  for (const auto& [keys, shown] :
       {std::pair{"\"is_fisheye\":true,\"k1\":0.1,", "OPENCV_FISHEYE 20x20"},
        {"\"camera_model\":\"OPENCV\",\"is_fisheye\":true,", "OPENCV_FISHEYE 20x20"},
        {"\"camera_model\":\"RADIAL_FISHEYE\",\"k1\":0.1,", "RADIAL_FISHEYE 20x20"},
        {"\"equirectangular\":true,", "EQUIRECTANGULAR 20x20"},
        {"\"is_fisheye\":false,\"k1\":0.1,", "OPENCV 20x20"}}) {
    folder.Write("transforms.json",
                 WithFrames(absl::StrCat("\"fl_x\":20,", keys), FrameJson("a.png", 0, 0, 0)));
    const SceneDescription scene = DescribeScene(folder.path());
    EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
    EXPECT_EQ(scene.camera_models, std::vector<std::string>{shown}) << keys;
  }
}

TEST(TransformsReaderTest, TestFileAloneHasNothingToTrainOn) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(20, 20));
  folder.Write("transforms_test.json",
               WithFrames("\"camera_angle_x\":0.7,", FrameJson("a", 0, 0, 4)));
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("transforms_train.json: is missing"));
}

TEST(TransformsReaderTest, ProblemsOfTrainAndTestFileAreBothListed) {
  const TempFolder folder;
  folder.Write("transforms_train.json", "{");
  folder.Write("transforms_test.json", "[]");
  const std::string summary = SummaryOf(DescribeScene(folder.path()).problems);
  EXPECT_THAT(summary, HasSubstr("transforms_train.json: line 1: not valid JSON"));
  EXPECT_THAT(summary, HasSubstr("transforms_test.json: must be a JSON object"));
}

}  // namespace
}  // namespace nerf
