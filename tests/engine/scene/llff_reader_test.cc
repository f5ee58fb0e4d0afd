// LLFF data sets, good and hostile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/scene_reader.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

// A forward-facing row: axes down, right and backward of an OpenGL camera without rotation; a
// picture of 80x60.
std::vector<double> Row(double x, double y) {
  return {0, 1, 0, x, 60, -1, 0, 0, y, 80, 0, 0, 1, 0, 100, 2, 40};
}

std::string Npy(const std::vector<double>& numbers, const std::string& header) {
  std::string padded = header;
  while ((10 + padded.size() + 1) % 64 != 0) padded += ' ';
  padded += '\n';
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(padded.size() & 255);
  bytes += static_cast<char>(padded.size() >> 8);
  bytes += padded;
  const size_t begin = bytes.size();
  bytes.resize(begin + numbers.size() * sizeof(double));
  std::memcpy(bytes.data() + begin, numbers.data(), numbers.size() * sizeof(double));
  return bytes;
}

std::string Header(size_t n) {
  return "{'descr': '<f8', 'fortran_order': False, 'shape': (" + std::to_string(n) + ", 17), }";
}

class LlffReaderTest : public ::testing::Test {
 protected:
  // Pictures of half of the stated size.
  void SetUp() override {
    std::filesystem::create_directory(dir_ / "images_2");
    ImageU8 image{.width = 40, .height = 30, .n_channels = 3, .pixels = {}};
    image.pixels.assign(size_t{40} * 30 * 3, 90);
    for (int i = 0; i < 9; ++i) {
      ASSERT_THAT(WritePng(dir_ / ("images_2/" + std::to_string(i) + ".png"), image), IsOk());
      const std::vector<double> row = Row(i % 3 - 1, i / 3 - 1);
      numbers_.insert(numbers_.end(), row.begin(), row.end());
    }
  }
  void Write(const std::string& bytes) {
    std::ofstream(dir_ / "poses_bounds.npy", std::ios::binary) << bytes;
  }
  SceneDescription Describe() {
    SceneOptions options;
    options.decode_images = false;
    return DescribeScene(dir_.path(), options);
  }

  TempDir dir_;
  std::vector<double> numbers_;
};

TEST_F(LlffReaderTest, PosesIntrinsicsAndSplitAreRead) {
  Write(Npy(numbers_, Header(9)));
  const SceneDescription scene = Describe();
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.source, "poses_bounds.npy");
  EXPECT_EQ(CheckReportText(scene).rfind("llff · poses_bounds.npy · 9 of 9", 0), 0u);
  EXPECT_NE(CheckReportJson(scene).find(R"("flavor":"llff")"), std::string::npos);
  EXPECT_EQ(scene.train.size(), 7u);
  EXPECT_EQ(scene.test.size(), 2u);
  const Camera& camera = scene.train[0].camera;
  EXPECT_EQ(camera.width, 40);
  EXPECT_FLOAT_EQ(camera.fl_x, 50) << "of the reduced picture";
  EXPECT_THAT(scene.warnings, ::testing::IsEmpty()) << "the file's size is that of another folder";
  // Mean up is +Z; cameras look along one horizontal direction, and all of 40 units in front of
  // them lie in the outermost box of 8.
  EXPECT_NEAR(camera.camera_to_world.m[2][1], 1, 1e-5);
  EXPECT_NEAR(scene.geometry.frame.scale * 40, 8, 1e-3);
  EXPECT_NEAR(scene.farthest, 8, 1e-3);
  EXPECT_NEAR(scene.nearest, scene.geometry.frame.scale * numbers_[15], 1e-3);
}

TEST_F(LlffReaderTest, HostileFilesAreRefused) {
  std::vector<double> broken = numbers_;
  broken[3] = NAN;
  std::vector<double> flat = numbers_;
  std::fill(flat.begin() + 17, flat.begin() + 32, 0.0);
  std::vector<double> empty = numbers_;
  empty[14] = 0;
  const std::vector<double> fewer(numbers_.begin(), numbers_.begin() + 34);
  struct Case {
    std::string bytes;
    const char* said;
  };
  const std::string good = Npy(numbers_, Header(9));
  const Case kCases[] = {
      {"", "no .npy file"},
      {"\x93NUMPY", "no .npy file"},
      {good.substr(0, 20), "ends within its header"},
      {good.substr(0, good.size() - 8), "another size"},
      {Npy(numbers_, Header(8)), "another size"},
      {Npy(numbers_, "{'descr': '<f8', 'fortran_order': False, 'shape': (17, 9), }"), "N x 17"},
      {Npy(fewer, Header(2)), "lists 2 poses, and there are 9 pictures"},
      {Npy(broken, Header(9)), "not finite"},
      {Npy(flat, Header(9)), "no rotation"},
      {Npy(empty, Header(9)), "focal length must be above 0"},
      {Npy(numbers_, "{'descr': '<c8', 'fortran_order': False, 'shape': (9, 17), }"), "float64"},
      {Npy(numbers_, "{'descr': '<f8', 'fortran_order': Maybe, 'shape': (9, 17), }"), "order"},
      {Npy(numbers_, "{'descr': '|O', 'fortran_order': False, 'shape': (9, 17), }"), "float64"},
      {Npy(numbers_, "{"), "float64"},
  };
  for (const Case& bad : kCases) {
    Write(bad.bytes);
    const SceneDescription scene = Describe();
    EXPECT_FALSE(scene.ok());
    EXPECT_NE(SummaryOf(scene.problems).find(bad.said), std::string::npos)
        << bad.said << " / " << SummaryOf(scene.problems);
  }
}

TEST_F(LlffReaderTest, EveryOrderOfTheSameNumbersIsRead) {
  Write(Npy(numbers_, Header(9)));
  const SceneDescription by_rows = Describe();
  std::vector<double> by_columns, swapped;
  for (size_t column = 0; column < 17; ++column) {
    for (size_t row = 0; row < 9; ++row) by_columns.push_back(numbers_[17 * row + column]);
  }
  for (double number : numbers_) {
    auto* const bytes = reinterpret_cast<char*>(&number);
    std::reverse(bytes, bytes + sizeof(number));
    swapped.push_back(number);
  }
  for (const std::string& file :
       {Npy(by_columns, "{'descr': '<f8', 'fortran_order': True, 'shape': (9, 17), }"),
        Npy(swapped, "{'descr': '>f8', 'fortran_order': False, 'shape': (9, 17), }")}) {
    Write(file);
    const SceneDescription scene = Describe();
    ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
    for (size_t i = 0; i < scene.train.size(); ++i)
      EXPECT_EQ(scene.train[i].camera, by_rows.train[i].camera);
  }
}

TEST_F(LlffReaderTest, HiddenFilesAreNoPhotographs) {
  Write(Npy(numbers_, Header(9)));
  for (const char* name : {"._0.png", ".DS_Store", "Thumbs.db", ".hidden.jpg"})
    std::ofstream(dir_ / (std::string("images_2/") + name)) << "x";
  const SceneDescription scene = Describe();
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.n_listed, 9);
}

// As with photographs that lie elsewhere.
TEST_F(LlffReaderTest, LinksOutOfTheFolderAreFollowedForTheUserAlone) {
  Write(Npy(numbers_, Header(9)));
  const TempDir linked;
  std::filesystem::create_symlink(dir_ / "images_2", linked / "images");
  std::filesystem::copy(dir_ / "poses_bounds.npy", linked / "poses_bounds.npy");
  SceneOptions options;
  options.decode_images = false;
  EXPECT_FALSE(DescribeScene(linked.path(), options).ok());
  options.follow_links = true;
  EXPECT_TRUE(DescribeScene(linked.path(), options).ok());
}

}  // namespace
}  // namespace nerf
