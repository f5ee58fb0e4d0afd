// Trains the same ball twice with nerf-engine, once in coordinates of a map, and compares what is
// trained and exported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/field/files/tensor_file.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/engine/export/export_command_fixture.h"
#include "tests/engine/export/ply_reader.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr double kShift[3] = {500000, 5200000, 300};
constexpr char kOrigin[] = "500000, 5200000, 300";
constexpr double kExactness = 5.5e-6;  // a millionth of the cameras' extent

// The synthetic ball as nerfstudio writes data sets, moved. Positions are multiples of 1/1024, so
// that the move rounds none.
void WriteMovedBall(const std::string& dir, const double (&shift)[3]) {
  const Scene scene = SyntheticBallScene(12, 0, 48);
  std::filesystem::create_directories(dir + "/images");
  const Camera& first = scene.train[0].camera;
  Json list = {{"camera_model", "PINHOLE"}, {"w", first.width}, {"h", first.height},
               {"fl_x", first.fl_x},        {"cx", first.cx},   {"cy", first.cy}};
  for (size_t i = 0; i < scene.train.size(); ++i) {
    Json rows = Json::array();
    for (int row = 0; row < 3; ++row) {
      const auto& m = scene.train[i].camera.camera_to_world.m[row];
      // The ball is at (0, 0, -1), so that the cameras' middle is rounded to 0.
      const double height = row == 2 ? -1 : 0;
      rows.push_back({m[0], m[1], m[2], std::round(m[3] * 1024) / 1024 + height + shift[row]});
    }
    rows.push_back({0, 0, 0, 1});
    const std::string name = fmt::format("images/{:02}.png", i);
    list["frames"].push_back({{"file_path", name}, {"transform_matrix", rows}});
    ASSERT_THAT(WritePng(dir + "/" + name, scene.train[i].image), IsOk());
  }
  std::ofstream(dir + "/transforms.json") << list.dump(1);
}

class MapCoordinatesTest : public ExportCommandTest {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempDir();
    WriteMovedBall(*folder_ / "near", {0, 0, 0});
    WriteMovedBall(*folder_ / "far", kShift);
    for (const char* name : {"near", "far"}) {
      const std::string out = *folder_ / (std::string(name) + "_run");
      const std::string train = BinDir() + "/nerf-engine train " + (*folder_ / name) + " --out " +
                                out + " --steps 200 --threads 2 --no-eval --test-every 0" +
                                " --set log2_hashmap_size=12 --set grid_resolution=32" +
                                " --set target_samples=8192 --set initial_rays=512" +
                                " --set warmup_steps=50 --set rays_per_pixel=1 >" + out +
                                ".out 2>&1";
      ASSERT_EQ(std::system(train.c_str()), 0) << ReadFile(out + ".out", 1 << 20).value_or("");
    }
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string ModelOf(const std::string& name) {
    return *folder_ / (name + "_run/model.safetensors");
  }

  // Exports both models, to near.ENDING and far.ENDING. What is not about a place is alike.
  void ExportBoth(const std::string& flags, const std::string& ending) {
    for (const std::string name : {"near", "far"}) {
      const Ended ended =
          Export(ModelOf(name) + " " + flags + " --out " + (dir_ / (name + ending)));
      ASSERT_EQ(ended.code, 0) << ended.err;
      said_[name] = ended.out;
    }
    near_ = Bytes("near" + ending);
    far_ = Bytes("far" + ending);
  }

  static inline TempDir* folder_ = nullptr;
  std::map<std::string, std::string> said_;
  std::string near_, far_;
};

TEST_F(MapCoordinatesTest, ModelIsTheSameButForItsOrigin) {
  auto near = ReadTensorFile(ModelOf("near")), far = ReadTensorFile(ModelOf("far"));
  ASSERT_THAT(near, IsOk());
  ASSERT_THAT(far, IsOk());
  ASSERT_EQ(near->tensors.size(), far->tensors.size());
  for (const auto& [name, tensor] : near->tensors)
    EXPECT_TRUE(tensor.bytes == far->tensors.at(name).bytes) << name;
  EXPECT_EQ(far->metadata["scene.origin"], "500000 5200000 300");
  EXPECT_FALSE(near->metadata.contains("scene.origin"));
  far->metadata.erase("scene.origin");
  for (TensorFile* file : {&*near, &*far}) file->metadata.erase("sha256.__header__");
  EXPECT_EQ(near->metadata, far->metadata);
  EXPECT_THAT(ReadFile(*folder_ / "far_run.out", 1 << 20).value_or(""),
              HasSubstr(std::string("about the origin ") + kOrigin + "\n"));
  EXPECT_THAT(ReadFile(*folder_ / "near_run.out", 1 << 20).value_or(""), Not(HasSubstr("origin")));
}

TEST_F(MapCoordinatesTest, PositionsOfPlyFilesAreRelativeToTheOriginOfTheirHeader) {
  for (const std::string format : {"ply", "points", "splats"}) {
    const std::string amount = format == "splats" ? "--max-splats 1000" : "--resolution 48";
    ExportBoth(amount + " --format " + format, ".ply");
    ASSERT_GT(ReadPly(near_).n_vertices, 100u) << format;
    EXPECT_EQ(near_.find("origin"), std::string::npos);
    const std::string comment = "comment origin 500000 5200000 300\n";
    const size_t at = far_.find(comment);
    ASSERT_NE(at, std::string::npos) << format;
    EXPECT_TRUE(far_.erase(at, comment.size()) == near_) << format;
    EXPECT_THAT(said_["far"], HasSubstr(std::string("relative to ") + kOrigin));
    EXPECT_THAT(said_["near"], Not(HasSubstr("relative")));
  }
  // --frame turns the origin: up is y, the left hand's axes.
  ExportBoth("--resolution 48 --format points --frame unity", ".ply");
  EXPECT_NE(far_.find("comment origin 500000 300 5200000\n"), std::string::npos);
}

TEST_F(MapCoordinatesTest, FilesOfSplatsSayTheOrigin) {
  ExportBoth("--max-splats 1000", ".spz");
  EXPECT_THAT(said_["far"], HasSubstr(std::string("relative to ") + kOrigin));
  double origin[3] = {};
  ASSERT_GT(far_.size(), 64u);
  std::memcpy(origin, far_.data() + 40, sizeof(origin));
  EXPECT_THAT(origin, ::testing::ElementsAre(500000, 5200000, 300));
  EXPECT_TRUE(far_.substr(64) == near_.substr(32));
  ExportBoth("--max-splats 1000", ".sog");
  EXPECT_THAT(far_, HasSubstr("\"origin\":[500000.0,5200000.0,300.0]"));
  EXPECT_THAT(near_, Not(HasSubstr("\"origin\"")));
  ExportBoth("--max-splats 1000 --format splats --frame blender", ".glb");
  EXPECT_THAT(far_, HasSubstr("\"translation\":[500000.0,300.0,-5200000.0]"));
}

TEST_F(MapCoordinatesTest, NodeOfAGlbLiesAtTheOrigin) {
  ExportBoth("--resolution 48 --frame blender", ".glb");
  const auto json_of = [](const std::string& glb) {
    uint32_t n_bytes = 0;
    std::memcpy(&n_bytes, glb.data() + 12, sizeof(n_bytes));
    return Json::parse(glb.substr(20, n_bytes), nullptr, false);
  };
  Json near = json_of(near_), far = json_of(far_);
  const Json origin = {500000.0, 300.0, -5200000.0};  // y up
  EXPECT_EQ(far["nodes"][0]["translation"], origin);
  EXPECT_EQ(far["nodes"][0]["extras"]["origin"], origin);
  for (const char* key : {"translation", "extras"}) far["nodes"][0].erase(key);
  EXPECT_EQ(near, far);
  const auto bin = [](const std::string& glb) { return glb.substr(glb.find("BIN")); };
  EXPECT_TRUE(bin(near_) == bin(far_));
}

TEST_F(MapCoordinatesTest, TransformsOfVolumesLeadToTheMap) {
  ExportBoth("--resolution 32", ".vdb");
  ASSERT_EQ(near_.size(), far_.size());
  int n_grids = 0;
  for (size_t at = 0; (at = near_.find("AffineMap", at)) != std::string::npos; ++n_grids) {
    at += std::string_view("AffineMap").size();
    double near[16], far[16];
    std::memcpy(near, near_.data() + at, sizeof(near));
    std::memcpy(far, far_.data() + at, sizeof(far));
    for (int i = 0; i < 16; ++i) {
      const bool is_shift = i >= 12 && i < 15;
      EXPECT_NEAR(far[i] - near[i], is_shift ? kShift[i - 12] : 0, is_shift ? 1e-9 : 0) << i;
    }
    std::memcpy(far_.data() + at, near, sizeof(near));
  }
  EXPECT_EQ(n_grids, 2);
  EXPECT_TRUE(near_ == far_) << "all else";
}

void ExpectMovedFrames(const std::string& near_text, const std::string& far_text) {
  const Json near = Json::parse(near_text, nullptr, false);
  const Json far = Json::parse(far_text, nullptr, false);
  ASSERT_EQ(near["frames"].size(), 12u);
  ASSERT_EQ(far["frames"].size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    for (int row = 0; row < 3; ++row) {
      const Json& a = near["frames"][i]["transform_matrix"][row];
      const Json& b = far["frames"][i]["transform_matrix"][row];
      EXPECT_NEAR(b[3].get<double>() - a[3].get<double>(), kShift[row], 1e-9);
      for (int column = 0; column < 3; ++column) EXPECT_EQ(a[column], b[column]);
    }
  }
}

TEST_F(MapCoordinatesTest, CamerasAndViewsLieOnTheMap) {
  ExportBoth("--format cameras", ".json");
  ExpectMovedFrames(near_, far_);
  const Json data_set = Json::parse(ReadFile(*folder_ / "far/transforms.json", 1 << 20).value());
  const Json exported = Json::parse(far_);
  for (size_t i = 0; i < 12; ++i) {
    for (int row = 0; row < 3; ++row) {
      EXPECT_NEAR(exported["frames"][i]["transform_matrix"][row][3].get<double>(),
                  data_set["frames"][i]["transform_matrix"][row][3].get<double>(), kExactness);
    }
  }
  ExportBoth("--format views", "_set");
  ExpectMovedFrames(Bytes("near_set/transforms.json"), Bytes("far_set/transforms.json"));
  EXPECT_TRUE(Bytes("near_set/images/03.png") == Bytes("far_set/images/03.png"));
  EXPECT_TRUE(Bytes("near_set/depths/03.npy") == Bytes("far_set/depths/03.npy"));
}

TEST_F(MapCoordinatesTest, PathsOfOtherProgramsAreInTheirFrames) {
  for (const std::string name : {"near", "far"}) {
    const Ended ended = Export(ModelOf(name) + " --format nerfstudio-path --dataset " +
                               (*folder_ / name) + " --out " + (dir_ / (name + ".json")));
    ASSERT_EQ(ended.code, 0) << ended.err;
  }
  EXPECT_TRUE(Bytes("near.json") == Bytes("far.json")) << "it moves all cameras to the middle";
  EXPECT_EQ(Export(ModelOf("far") + " --format views --camera " + (dir_ / "near.json") +
                   " --dataset " + (*folder_ / "far") + " --out " + (dir_ / "back"))
                .code,
            0);
  ASSERT_EQ(Export(ModelOf("far") + " --format views --out " + (dir_ / "set")).code, 0);
  const Json back = Json::parse(Bytes("back/transforms.json")),
             set = Json::parse(Bytes("set/transforms.json"));
  for (size_t i = 0; i < 12; ++i) {
    for (int row = 0; row < 3; ++row) {
      EXPECT_NEAR(back["frames"][i]["transform_matrix"][row][3].get<double>(),
                  set["frames"][i]["transform_matrix"][row][3].get<double>(), kExactness);
    }
  }
}

TEST_F(MapCoordinatesTest, KeyframesAndBoxesAreInCoordinatesOfTheMap) {
  for (const std::string name : {"near", "far"}) {
    Json keyframes = Json::array();
    for (const double x : {0.25, 1.5}) {
      Json rows = {{1, 0, 0, x}, {0, 1, 0, 0.125}, {0, 0, 1, 1.75}, {0, 0, 0, 1}};
      for (int row = 0; name == "far" && row < 3; ++row)
        rows[row][3] = rows[row][3].get<double>() + kShift[row];
      keyframes.push_back({{"transform_matrix", rows}});
    }
    dir_.Write(name + "_keys.json", Json{{"seconds", 0.1}, {"keyframes", keyframes}}.dump());
    const std::string box = name == "near" ? "0,0.25,-1,1,1,2" : "500000,5200000.25,299,1,1,2";
    for (const std::string& flags :
         {"--format views --camera " + (dir_ / (name + "_keys.json")) + " --out " +
              (dir_ / (name + "_keys")),
          "--resolution 40 --crop " + box + " --out " + (dir_ / (name + ".ply"))}) {
      const Ended ended = Export(ModelOf(name) + " " + flags);
      ASSERT_EQ(ended.code, 0) << ended.err;
    }
  }
  for (const char* view : {"images/0000.png", "images/0001.png", "images/0002.png"}) {
    EXPECT_GT(Bytes("near_keys/" + std::string(view)).size(), 100u);
    EXPECT_TRUE(Bytes("near_keys/" + std::string(view)) == Bytes("far_keys/" + std::string(view)))
        << view;
  }
  const PlyFile near = ReadPly(Bytes("near.ply")), far = ReadPly(Bytes("far.ply"));
  ASSERT_GT(near.n_vertices, 20u);
  EXPECT_EQ(near.properties, far.properties);
}

TEST_F(MapCoordinatesTest, ViewerSaysTheOrigin) {
  ExportBoth("", ".html");
  const std::string words = "\"origin\":[500000,5200000,300],";
  const size_t at = far_.find(words);
  ASSERT_NE(at, std::string::npos);
  EXPECT_TRUE(far_.erase(at, words.size()) == near_);
  EXPECT_THAT(said_["far"], HasSubstr(std::string("relative to ") + kOrigin));
}

TEST_F(MapCoordinatesTest, InspectCheckAndEvalKnowTheOrigin) {
  const auto run = [&](const std::string& arguments) {
    const std::string out = dir_ / "said";
    EXPECT_EQ(std::system((BinDir() + "/nerf-engine " + arguments + " >" + out + " 2>&1").c_str()),
              0);
    return ReadFile(out, 1 << 20).value_or("");
  };
  EXPECT_THAT(run("inspect " + ModelOf("far")), HasSubstr(std::string("the origin ") + kOrigin));
  EXPECT_THAT(run("inspect " + ModelOf("near")), Not(HasSubstr("origin")));
  EXPECT_THAT(run("check " + (*folder_ / "far")), HasSubstr(std::string("the origin ") + kOrigin));
  EXPECT_THAT(run("check --json " + (*folder_ / "far")), HasSubstr("\"origin\":[500000.0,"));
  EXPECT_THAT(run("eval " + ModelOf("far") + " " + (*folder_ / "far") + " --split train"),
              Not(HasSubstr("another data set")));
}

}  // namespace
}  // namespace nerf
