#include "engine/scene/depth_files.h"

#include <cmath>
#include <string>
#include <vector>

#include "engine/scene/read/scene_reader.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

// A gradient with a hole: value 1000 + 10 x + y, 0 in the first column.
std::string DepthPng(int width = 8, int height = 6) {
  std::vector<uint16_t> values;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x)
      values.push_back(x == 0 ? 0 : static_cast<uint16_t>(1000 + 10 * x + y));
  }
  return *EncodePng16(width, height, values);
}

std::string Npy(const std::string& type, const std::string& shape, const std::string& numbers) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + numbers;
}

// Three pictures of 8x6; `more` is added to the second frame, `top` to the file.
void WriteDepthScene(const TempFolder& folder, const std::string& more,
                     const std::string& top = "") {
  std::string frames;
  for (int i = 0; i < 3; ++i) {
    const std::string file = "images/" + std::to_string(i) + ".png";
    folder.Write(file, MakePng(8, 6));
    frames += (i == 0 ? "" : ",") + FrameJson(file, i, 0, 4, i == 1 ? more : "");
  }
  folder.Write("transforms.json",
               "{\"camera_angle_x\": 0.8, " + top + "\"frames\": [" + frames + "]}");
}

SceneOptions WithDepth() {
  SceneOptions options;
  options.test_every = 0;
  options.with_depth = true;
  return options;
}

constexpr const char* kNamed = R"(, "depth_file_path": "depth/1.png")";

TEST(DepthFilesTest, FramesNameThem) {
  const TempFolder folder;
  WriteDepthScene(folder, kNamed);
  folder.Write("depth/1.png", DepthPng());
  const auto scene = LoadScene(folder.path(), WithDepth());
  ASSERT_TRUE(scene.ok()) << scene.status();
  ASSERT_EQ(scene->depth_maps.size(), 1u);
  const DepthMap& map = scene->depth_maps[0];
  EXPECT_EQ(map.view, 1);
  EXPECT_EQ(map.image.width, 8);
  EXPECT_EQ(map.image.pixels[10], 1021);
  EXPECT_FLOAT_EQ(map.unit, 1e-3f * scene->geometry.frame.scale) << "millimeters";
  EXPECT_TRUE(map.along_axis);
  const SceneDescription description = DescribeScene(folder.path(), WithDepth());
  EXPECT_TRUE(description.ok()) << SummaryOf(description.problems);
  EXPECT_EQ(description.train[1].depth.file, "depth/1.png");
}

// nerfstudio's: floats, whose unit is that of the poses times depth_unit_scale_factor.
TEST(DepthFilesTest, NpyIsReadInTheUnitOfTheFile) {
  std::vector<float> values;
  for (int i = 0; i < 48; ++i) values.push_back(2 + 0.05f * static_cast<float>(i));
  values[0] = 0, values[1] = -1, values[2] = NAN, values[3] = INFINITY;
  values[4] = 1e9f;  // the sky
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 48 * sizeof(float));
  const TempFolder folder;
  WriteDepthScene(folder, R"(, "depth_file_path": "d.npy")", R"("depth_unit_scale_factor": 0.5, )");
  for (const std::string shape : {"(6, 8)", "(6, 8, 1)"}) {
    folder.Write("d.npy", Npy("<f4", shape, bytes));
    const auto scene = LoadScene(folder.path(), WithDepth());
    ASSERT_TRUE(scene.ok()) << scene.status();
    ASSERT_EQ(scene->depth_maps.size(), 1u);
    const DepthMap& map = scene->depth_maps[0];
    for (size_t i = 0; i < 48; ++i) {
      const float depth = map.unit * static_cast<float>(map.image.pixels[i]);
      const float expected = i < 5 ? 0 : 0.5f * values[i] * scene->geometry.frame.scale;
      EXPECT_NEAR(depth, expected, 1e-4f * scene->geometry.frame.scale) << i;
    }
  }
}

TEST(DepthFilesTest, AreNotReadUnlessAskedFor) {
  const TempFolder folder;
  WriteDepthScene(folder, kNamed);
  folder.Write("depth/1.png", DepthPng());
  SceneOptions options = WithDepth();
  options.with_depth = false;
  const auto scene = LoadScene(folder.path(), options);
  ASSERT_TRUE(scene.ok()) << scene.status();
  EXPECT_TRUE(scene->depth_maps.empty());
  EXPECT_TRUE(scene->held_out_points.empty());
}

TEST(DepthFilesTest, BothProgramsKeysAreRead) {
  struct Case {
    const char *more, *top;
    double unit;
  };
  for (const Case& c :
       {Case{R"(, "depth_file_path": "d.png")", R"("depth_unit_scale_factor": 0.25, )", 0.25},
        {R"(, "depth_path": "d.png")", R"("integer_depth_scale": 0.5, )", 0.5},
        {R"(, "depth_path": "d.png")", "", 1e-3}}) {
    const TempFolder folder;
    WriteDepthScene(folder, c.more, c.top);
    folder.Write("d.png", DepthPng());
    const SceneDescription description = DescribeScene(folder.path(), WithDepth());
    ASSERT_TRUE(description.ok()) << SummaryOf(description.problems);
    EXPECT_EQ(description.train[1].depth.file, "d.png");
    EXPECT_EQ(description.train[1].depth.unit, c.unit);
  }
}

TEST(DepthFilesTest, LargerOnesAreReducedToThePicture) {
  const TempFolder folder;
  WriteDepthScene(folder, kNamed);
  folder.Write("depth/1.png", DepthPng(24, 18));
  const auto scene = LoadScene(folder.path(), WithDepth());
  ASSERT_TRUE(scene.ok()) << scene.status();
  const DepthMap& map = scene->depth_maps[0];
  EXPECT_EQ(map.image.width, 8);
  EXPECT_EQ(map.image.height, 6);
  EXPECT_EQ(map.image.pixels[8 * 2 + 3], 1000 + 10 * 10 + 7) << "the middle of 3x3";
}

TEST(DepthFilesTest, SmallerOnesKeepTheirSize) {
  const TempFolder folder;
  WriteDepthScene(folder, kNamed);
  folder.Write("depth/1.png", DepthPng(4, 3));
  const auto scene = LoadScene(folder.path(), WithDepth());
  ASSERT_TRUE(scene.ok()) << scene.status();
  const DepthMap& map = scene->depth_maps[0];
  EXPECT_EQ(map.image.width, 4);
  EXPECT_EQ(map.PictureX(1), 3);
  EXPECT_EQ(map.PictureY(2), 5);
}

TEST(DepthFilesTest, DepthsOfPinholesAreAlongTheAxis) {
  DepthMap map;
  map.unit = 0.5f;
  const Vec3 oblique = Normalized({3, 0, -4});
  EXPECT_FLOAT_EQ(DistanceOf(map, 8, Mat34(), oblique), 5);
  map.along_axis = false;
  EXPECT_FLOAT_EQ(DistanceOf(map, 8, Mat34(), oblique), 4);
  map.along_axis = true;
  EXPECT_EQ(DistanceOf(map, 8, Mat34(), {0, 0, 1}), 0) << "behind the camera";
}

TEST(DepthFilesTest, SomePixelsAreHeldOut) {
  const TempFolder folder;
  WriteDepthScene(folder, kNamed, R"("depth_unit_scale_factor": 0.001, )");
  folder.Write("depth/1.png", DepthPng());
  const auto scene = LoadScene(folder.path(), WithDepth());
  ASSERT_TRUE(scene.ok()) << scene.status();
  // Pixels 0, 8, 16, ... are those of the first column, of which nothing is known.
  EXPECT_TRUE(scene->held_out_points.empty());
  DepthMap map = scene->depth_maps[0];
  map.image.pixels.assign(48, 2000);
  const std::vector<SeenPoint> points = HeldOutPoints({map}, scene->train);
  ASSERT_EQ(points.size(), 6u);
  const Camera& camera = scene->train[1].camera;
  for (const SeenPoint& point : points) {
    EXPECT_EQ(point.view, 1);
    const Vec3 to_point = point.position - camera.camera_to_world.Column(3);
    EXPECT_NEAR(-Dot(to_point, camera.camera_to_world.Column(2)), 2000 * map.unit, 1e-4);
  }
}

TEST(DepthFilesTest, HostileFilesAreProblemsThatNameFileAndField) {
  const std::string gray8 = *EncodePng({8, 6, 1, std::vector<uint8_t>(48, 200)});
  const std::string zeros = *EncodePng16(8, 6, std::vector<uint16_t>(48, 0));
  struct Case {
    const char* what;
    std::string bytes;
    const char* expected;
  };
  for (const Case& c :
       {Case{"another aspect ratio", DepthPng(8, 8), "8x8, its picture 8x6"},
        {"8 bits", gray8, "16-bit gray"},
        {"colors", MakePng(8, 6), "16-bit gray"},
        {"JPEG", MakeJpeg(8, 6), "is no PNG"},
        {"8 bits, by name", gray8, "is a PNG of 8-bit gray; 16-bit gray PNG and"},
        {"TIFF", std::string("II*\0abcdefgh", 12), "is a TIFF; 16-bit gray PNG"},
        {"TIFF of the other order", std::string("MM\0*abcdefgh", 12), "is a TIFF"},
        {"EXR", "\x76\x2f\x31\x01....", "is an OpenEXR file"},
        {"archive", "PK\3\4....", "is a ZIP archive"},
        {"npy of texts", Npy("<U1", "(6, 8)", ""), "must hold numbers"},
        {"npy of three axes", Npy("<f4", "(6, 8, 3)", ""), "has 3 axes"},
        {"npy of another shape", Npy("<f4", "(8, 8)", ""), "8x8, its picture 8x6"},
        {"npy that is cut off", Npy("<f4", "(6, 8)", "abc"), "another size"},
        {"npy without depth", Npy("<u1", "(6, 8)", std::string(48, '\0')), "knows no depth"},
        {"npy that is huge", Npy("<f4", "(60000, 80000)", ""), "d.png"},
        {"npy that ends", std::string("\x93NUMPY\1\0\xff\xff{{{", 13), "ends within its header"},
        {"no picture", "depth", "d.png"},
        {"empty", "", "d.png"},
        {"cut off", DepthPng().substr(0, 70), "d.png"},
        {"all zero", zeros, "all of its values are 0"},
        {"huge", RawPng(100000, 75000, 16, 0, "", ""), "d.png"}}) {
    const TempFolder folder;
    WriteDepthScene(folder, R"(, "depth_file_path": "d.png")");
    folder.Write("d.png", c.bytes);
    Problems problems;
    EXPECT_FALSE(LoadScene(folder.path(), WithDepth(), &problems).ok()) << c.what;
    EXPECT_EQ(problems.size(), 1u) << c.what;
    const std::string summary = SummaryOf(problems);
    EXPECT_NE(summary.find("frames[1].depth_file_path"), std::string::npos) << summary;
    EXPECT_NE(summary.find("d.png"), std::string::npos) << summary;
    EXPECT_NE(summary.find(c.expected), std::string::npos) << summary;
    EXPECT_FALSE(DescribeScene(folder.path(), {}).ok()) << c.what << ": check finds it, too";
  }
}

TEST(DepthFilesTest, HostileFieldsAreProblems) {
  struct Case {
    const char *more, *top, *expected;
  };
  for (const Case& c :
       {Case{R"(, "depth_file_path": 3)", "", "frames[1].depth_file_path: must be a text"},
        {R"(, "depth_file_path": "none.png")", "", "frames[1].depth_file_path: no file"},
        {R"(, "depth_path": "../d.png")", "", "frames[1].depth_path: \"../d.png\" leaves"},
        {"", R"("depth_unit_scale_factor": 0, )", "depth_unit_scale_factor: 0 must be"},
        {"", R"("depth_unit_scale_factor": 1e99, )", "depth_unit_scale_factor: 1e+99 must be"},
        {"", R"("integer_depth_scale": -1, )", "integer_depth_scale: -1 must be"},
        {"", R"("integer_depth_scale": "x", )", "integer_depth_scale: must be a number"}}) {
    const TempFolder folder;
    WriteDepthScene(folder, c.more, c.top);
    const SceneDescription description = DescribeScene(folder.path(), {});
    EXPECT_FALSE(description.ok()) << c.expected;
    EXPECT_NE(SummaryOf(description.problems).find(c.expected), std::string::npos)
        << SummaryOf(description.problems);
  }
}

TEST(DepthFilesTest, TheyCountForTheMemoryLimit) {
  const TempFolder folder;
  WriteDepthScene(folder, kNamed);
  folder.Write("depth/1.png", DepthPng());
  SceneOptions options = WithDepth();
  options.memory_limit_bytes = 3 * 8 * 6 * 3;
  EXPECT_EQ(LoadScene(folder.path(), options).status().code(),
            absl::StatusCode::kResourceExhausted);
  options.with_depth = false;
  EXPECT_TRUE(LoadScene(folder.path(), options).ok());
}

}  // namespace
}  // namespace nerf
