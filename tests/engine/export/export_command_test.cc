// Runs `nerf-engine export` on a small ball that nerf-engine trained.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "engine/export/mesh/mesh_export.h"
#include "engine/export/mesh/triangle_mesh.h"
#include "engine/export/mesh/vertex_colors.h"
#include "engine/field/files/zip_entries.h"
#include "engine/program/session/loaded_model.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/scene/files/npy.h"
#include "engine/scene/pictures/image_compare.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "nlohmann/json.hpp"
#include "tests/engine/export/export_command_fixture.h"
#include "tests/engine/export/ply_reader.h"
#include "tests/engine/export/texture_sampling.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(ExportCommandTest, MeshIsTheBallThatWasPhotographed) {
  const Ended ended = Export(Model() + " --out " + (dir_ / "mesh.ply") + " --resolution 96");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("axes: the data set's own; unit: the data set's own"));
  const PlyFile file = ReadPly(Bytes("mesh.ply"));
  ASSERT_GT(file.n_vertices, 500u);
  TriangleMesh mesh;
  mesh.positions.resize(file.n_vertices);
  mesh.indices = file.corners;
  EXPECT_TRUE(IsClosed(mesh));
  // So few pictures leave it hollow and open. The cameras stand above it: its bottom is unseen.
  const auto extent = [&](const char* axis) {
    const std::vector<double>& along = file.properties.at(axis);
    return std::pair(*std::min_element(along.begin(), along.end()),
                     *std::max_element(along.begin(), along.end()));
  };
  constexpr double kPixel = 0.045;  // there
  for (const char* axis : {"x", "y"}) {
    EXPECT_NEAR(extent(axis).first, -0.6, kPixel) << axis;
    EXPECT_NEAR(extent(axis).second, 0.6, kPixel) << axis;
  }
  EXPECT_NEAR(extent("z").second, 0.6, kPixel);
}

TEST_F(ExportCommandTest, LastLineOfJsonIsDoneAndSaysWhatWasWritten) {
  const Ended ended =
      Export(Model() + " --out " + (dir_ / "m.glb") + " --resolution 48 --triangles 1k --json");
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::istringstream lines(ended.out);
  nlohmann::json last;
  int n_steps = 0;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(last.is_object()) << line;
    n_steps += last["event"] == "exporting";
  }
  EXPECT_GE(n_steps, 3);
  EXPECT_EQ(last["event"], "done");
  EXPECT_EQ(last["format"], "glb");
  EXPECT_EQ(last["file"], dir_ / "m.glb");
  EXPECT_EQ(last["bytes"], Bytes("m.glb").size());
  EXPECT_LE(last["triangles"], 1050);
  EXPECT_GT(last["triangles"], 500);
  EXPECT_GT(last["vertices"], 200);
  EXPECT_TRUE(last["seconds"].is_number());
}

bool IsAnyOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST_F(ExportCommandTest, SameModelAndOptionsGiveTheSameBytes) {
  for (const char* format : {"ply", "glb", "points", "splats", "spz", "sog", "splats-glb", "vdb",
                             "cameras", "ngp-path"}) {
    const bool is_splats = IsAnyOf(format, {"splats", "spz", "sog", "splats-glb"});
    const std::string flags =
        std::string(" --format ") + format +
        (format == std::string("cameras")    ? ""
         : format == std::string("ngp-path") ? " --dataset " + (*trained_ / "ball")
         : is_splats                         ? " --max-splats 1000"
                                             : " --resolution 48");
    ASSERT_EQ(Export(Model() + flags + " --threads 1 --out " + (dir_ / "a")).code, 0);
    ASSERT_EQ(Export(Model() + flags + " --threads 2 --out " + (dir_ / "b")).code, 0);
    EXPECT_GT(Bytes("a").size(), 500u) << format;
    EXPECT_TRUE(Bytes("a") == Bytes("b")) << format;
  }
}

// Another model's figures, at 2048 texels: NERF_TEXTURE_MODEL=run/model.safetensors.
TEST_F(ExportCommandTest, TextureHasTheColorsOfTheTrainedField) {
  const char* const other = std::getenv("NERF_TEXTURE_MODEL");
  MeshOptions options = {.resolution = 96, .n_triangles = 4000, .texture_size = 512};
  if (other != nullptr) options = {.texture_size = 2048};
  const auto model = ReadModelFile(other != nullptr ? other : Model());
  ASSERT_THAT(model, IsOk());
  const auto& marched = dynamic_cast<const MarchedModel&>(*model->model);
  ThreadPool pool(2);
  const auto made = MakeMesh(marched, model->state.geometry, {}, options, &pool, {},
                             [](std::string_view, double) {});
  ASSERT_THAT(made, IsOk());
  std::vector<Vec3> positions, normals;
  const auto points = TexturePoints(made->mesh, made->texture, 5);
  for (const TexturePoint& point : points) {
    positions.push_back(point.position);
    normals.push_back(point.normal);
  }
  std::vector<Vec3> asked(points.size());
  ASSERT_TRUE(ColorPoints(marched, positions, normals, model->state.geometry.box.Size().x / 256, 0,
                          &pool, {}, asked.data()));
  std::vector<double> off;  // in 255ths
  for (size_t i = 0; i < points.size(); ++i)
    off.push_back(255 * LargestDifference(points[i].color, asked[i]));
  std::sort(off.begin(), off.end());
  const auto share = [&](double part) { return off[static_cast<size_t>(part * (off.size() - 1))]; };
  const double mean = std::accumulate(off.begin(), off.end(), 0.0) / off.size();
  const auto n_near = std::upper_bound(off.begin(), off.end(), 3.0) - off.begin();
  std::printf("texture: off by %.2f on average, %.2f (99%%), %.2f at most; %.3f%% within 3\n", mean,
              share(0.99), off.back(), 100.0 * static_cast<double>(n_near) / off.size());
  EXPECT_LT(mean, 4);
}

TEST_F(ExportCommandTest, SplatsAreUprightWhereTheirProgramsExpectIt) {
  const struct {
    const char *file, *starts, *up;
  } cases[] = {{"s.ply", "ply\n", "axes: z up, right-handed;"},
               {"s.spz", "NGSP", "axes: y up, right-handed, as this format has them"},
               {"s.sog", "PK\x03\x04", "axes: y down, right-handed;"},
               {"s.glb", "glTF", "axes: y up, right-handed, as this format has them"}};
  for (const auto& [file, starts, up] : cases) {
    const std::string flags =
        " --format splats --max-splats 1000 --frame blender --out " + (dir_ / file);
    const Ended ended = Export(Model() + flags);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Bytes(file).rfind(starts, 0), 0u) << file;
    EXPECT_THAT(ended.out, HasSubstr(up)) << file;
    EXPECT_THAT(ended.out, HasSubstr(": 1000 splats, fitted to")) << file;
  }
  ASSERT_EQ(Export(Model() + " --format sog --max-splats 1000 --out " + (dir_ / "new/")).code, 0);
  EXPECT_GT(Bytes("new/splats.sog").size(), 5000u);
}

TEST_F(ExportCommandTest, ViewerIsAFormatLikeOthers) {
  const Ended ended = Export(Model() + " --json --out " + (dir_ / "mine.html"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto done = nlohmann::json::parse(ended.out.substr(ended.out.rfind("{")), nullptr, false);
  EXPECT_EQ(done["event"], "done") << ended.out;
  EXPECT_EQ(done["format"], "viewer");
  EXPECT_EQ(done["file"], dir_ / "mine.html");
  EXPECT_EQ(done["bytes"], Bytes("mine.html").size());
  EXPECT_EQ(done["words"], "the model");
  EXPECT_EQ(done["axes"], "");
  const Ended text = Export(Model() + " --format viewer --threads 1 --out " + (dir_ / "new/"));
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("open it in a browser, also without a network"));
  EXPECT_TRUE(Bytes("new/viewer.html") == Bytes("mine.html"));
  fs::copy_file(Model(), dir_ / "own.html");
  EXPECT_THAT(Export((dir_ / "own.html") + " --out " + (dir_ / "own.html")).err,
              HasSubstr("is the model itself"));
}

TEST_F(ExportCommandTest, FolderGetsAFileOfTheFormatsName) {
  ASSERT_EQ(Export(Model() + " --format splats --max-splats 1500 --out " + (dir_ / "new/")).code,
            0);
  const PlyFile splats = ReadPly(Bytes("new/splats.ply"));
  EXPECT_EQ(splats.n_vertices, 1500u);
  EXPECT_EQ(splats.properties.count("rot_3"), 1u);
  ASSERT_EQ(Export(Model() + " --format cameras --out " + (dir_ / "new")).code, 0);
  const auto cameras = ReadCameraFile(dir_ / "new/transforms.json");
  ASSERT_THAT(cameras, IsOk());
  EXPECT_EQ(cameras->size(), 14u);
}

TEST_F(ExportCommandTest, CamerasAreThoseOfAllViewsAsTheTrainingFoundThem) {
  const std::string out = dir_ / "run";
  ASSERT_EQ(std::system((BinDir() + "/nerf-engine train " + (*trained_ / "ball") + " --out " + out +
                         " --steps 60 --threads 2 --no-eval --set log2_hashmap_size=13" +
                         " --set pose_rate=1,warmup_steps=0 >/dev/null 2>&1")
                            .c_str()),
            0);
  const auto cameras_of = [&](const std::string& model) {
    EXPECT_EQ(Export(model + " --format cameras --out " + (dir_ / "cameras.json")).code, 0);
    return nlohmann::json::parse(Bytes("cameras.json"));
  };
  const nlohmann::json stated = cameras_of(Model()), found = cameras_of(out + "/model.safetensors");
  EXPECT_EQ(found["test_filenames"], nlohmann::json({"test/r_0.png", "test/r_1.png"}));
  EXPECT_EQ(found["train_filenames"].size(), 12u);
  ASSERT_EQ(found["frames"].size(), 14u);
  for (size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(found["frames"][i]["file_path"], stated["frames"][i]["file_path"]);
    EXPECT_EQ(found["frames"][i]["transform_matrix"] == stated["frames"][i]["transform_matrix"],
              i >= 12)
        << i;
  }
}

TEST_F(ExportCommandTest, SplatsOfPhotographsWithoutAlphaHaveABackdrop) {
  fs::copy(*trained_ / "ball", dir_ / "opaque", fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(dir_ / "opaque")) {
    if (entry.path().extension() != ".png") continue;
    const auto picture = DecodeImage(entry.path());
    ASSERT_THAT(picture, IsOk());
    ASSERT_THAT(WritePng(entry.path(), CompositedOn(*picture, Vec3{})), IsOk());
  }
  ASSERT_EQ(std::system((BinDir() + "/nerf-engine train " + (dir_ / "opaque") + " --out " +
                         (dir_ / "run") + " --steps 200 --threads 2 --no-eval" +
                         " --set log2_hashmap_size=13,rays_per_pixel=1 >/dev/null 2>&1")
                            .c_str()),
            0);
  const auto farthest = [&](const std::string& model, const std::string& flags) {
    EXPECT_EQ(
        Export(model + " --out " + (dir_ / "s.ply") + " --format splats --max-splats 1000" + flags)
            .code,
        0);
    const PlyFile file = ReadPly(Bytes("s.ply"));
    double most = 0;
    for (size_t i = 0; i < file.n_vertices; ++i) {
      most = std::max(most, std::hypot(file.properties.at("x")[i], file.properties.at("y")[i],
                                       file.properties.at("z")[i]));
    }
    return most;
  };
  constexpr double kCameras = 4.1;  // their distance
  const std::string opaque = dir_ / "run/model.safetensors";
  EXPECT_LT(farthest(Model(), ""), kCameras);
  EXPECT_GT(farthest(opaque, ""), kCameras);
  EXPECT_LT(farthest(opaque, " --crop 0,0,0,2,2,2"), kCameras);
}

TEST_F(ExportCommandTest, SplatsAreFittedToPhotographsOfTheDataSet) {
  const std::string flags = " --format splats --max-splats 1000 --out " + (dir_ / "s.ply");
  const Ended alone = Export(Model() + flags);
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string before = Bytes("s.ply");
  EXPECT_THAT(alone.out, Not(HasSubstr("photograph")));
  const Ended ended = Export(Model() + flags + " --dataset " + (*trained_ / "ball"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(" of the model and 12 photographs; "));
  EXPECT_THAT(ended.out, HasSubstr(" dB against 2 test photographs (the model: "));
  EXPECT_NE(Bytes("s.ply"), before);
  // Pictures of other names are those of another set.
  fs::copy(*trained_ / "ball", dir_ / "other", fs::copy_options::recursive);
  for (const std::string split : {"train", "test"}) {
    fs::rename(dir_ / ("other/" + split), dir_ / ("other/new_" + split));
    const std::string list = dir_ / ("other/transforms_" + split + ".json");
    std::string text = ReadFile(list, 1 << 20).value_or("");
    for (size_t at = 0; (at = text.find("./" + split, at)) != std::string::npos; at += 8)
      text.insert(at + 2, "new_");
    ASSERT_THAT(WriteFileAtomically(list, text), IsOk());
  }
  const Ended other = Export(Model() + flags + " --dataset " + (dir_ / "other"));
  EXPECT_EQ(other.code, 9);
  EXPECT_THAT(other.err, HasSubstr("other has none of the photographs that the model was trained"));
}

TEST_F(ExportCommandTest, PathsForOtherProgramsComeBack) {
  const std::string ball = *trained_ / "ball";
  ASSERT_EQ(Export(Model() + " --format cameras --out " + (dir_ / "transforms.json")).code, 0);
  const auto cameras = ReadCameraFile(dir_ / "transforms.json");
  ASSERT_THAT(cameras, IsOk());
  for (const std::string format : {"nerfstudio-path", "ngp-path"}) {
    const std::string file = dir_ / (format + ".json");
    const Ended ended =
        Export(Model() + " --format " + format + " --dataset " + ball + " --out " + file);
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto list = ReadViewList(file, {48, 48}, ball);
    ASSERT_THAT(list, IsOk());
    ASSERT_EQ(list->views.size(), 12u);  // without the test views
    for (size_t i = 0; i < list->views.size(); ++i) {
      for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 4; ++column) {
          EXPECT_NEAR(list->views[i].camera.camera_to_world.m[row][column],
                      (*cameras)[i].camera_to_world.m[row][column], 1e-4f)
              << format;
        }
      }
    }
    // And on from one program to the other.
    EXPECT_EQ(Export(Model() + " --format nerfstudio-path --camera " + file + " --dataset " + ball +
                     " --out " + (dir_ / "on.json"))
                  .code,
              0);
  }
}

TEST_F(ExportCommandTest, PathsMayBeForTheExportedCameras) {
  // The same cameras, with pictures.
  fs::create_directory(dir_ / "set");
  for (const char* pictures : {"train", "test"})
    fs::copy(*trained_ / (std::string("ball/") + pictures),
             dir_ / (std::string("set/") + pictures));
  ASSERT_EQ(Export(Model() + " --format cameras --out " + (dir_ / "set/transforms.json")).code, 0);
  dir_.Write("keyframes.json", R"({"loop": true, "seconds": 0.2, "keyframes": [
      {"transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,3],[0,0,0,1]]},
      {"transform_matrix": [[1,0,0,1],[0,1,0,0],[0,0,1,2],[0,0,0,1]]}]})");
  for (const auto& [format, n_cameras] : {std::pair{"nerfstudio-path", 6}, {"ngp-path", 2}}) {
    const std::string arguments = Model() + " --camera " + (dir_ / "keyframes.json") +
                                  " --format " + format + " --exported-cameras --out ";
    const Ended ended = Export(arguments + (dir_ / "path.json"));
    ASSERT_EQ(ended.code, 0) << ended.err;
    // Blender's scenes are not moved by nerfstudio, so there the data set's own frame is known.
    const bool is_known = std::string(format) == "nerfstudio-path";
    EXPECT_THAT(ended.out, HasSubstr(is_known ? "axes: nerfstudio's;"
                                              : "of a data set with the exported cameras"));
    const auto list =
        ReadViewList(dir_ / "path.json", {48, 48}, is_known ? *trained_ / "ball" : dir_ / "set");
    ASSERT_THAT(list, IsOk());
    ASSERT_EQ(list->views.size(), static_cast<size_t>(n_cameras));
    EXPECT_TRUE(list->is_loop || is_known);
    const Vec3 first = list->views[0].camera.camera_to_world.Column(3);
    EXPECT_NEAR(Norm(first - Vec3{0, 0, 3}), 0, 1e-4) << format;
  }
}

TEST_F(ExportCommandTest, ArchiveOfViewsHasTheFilesOfTheFolder) {
  ASSERT_EQ(Export(Model() + " --format views --out " + (dir_ / "set")).code, 0);
  const Ended ended = Export(Model() + " --out " + (dir_ / "set.zip"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("12 views with depths"));
  const std::string bytes = Bytes("set.zip");
  const auto entries = StoredZipEntries(bytes);
  ASSERT_THAT(entries, IsOk());
  ASSERT_EQ(entries->size(), 12u + 12u + 1u);
  for (const auto& [name, content] : *entries) EXPECT_TRUE(content == Bytes("set/" + name)) << name;
  EXPECT_EQ(std::system(("python3 -m zipfile -t " + (dir_ / "set.zip") + " >/dev/null").c_str()), 0)
      << "its checksums";
  fs::copy_file(Model(), dir_ / "own.zip");
  EXPECT_THAT(Export((dir_ / "own.zip") + " --out " + (dir_ / "own.zip")).err,
              HasSubstr("is the model itself"));
}

TEST_F(ExportCommandTest, RenderedViewsAreADataSet) {
  const std::string set = dir_ / "set";
  const Ended ended = Export(Model() + " --format views --out " + set);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("12 views with depths, 48x48 pixels"));
  EXPECT_THAT(Files(), ::testing::SizeIs(1 + 2 + 12 + 12 + 1));
  const auto scene = LoadScene(set, {.test_every = 0, .n_threads = 2, .with_depth = true});
  ASSERT_THAT(scene, IsOk());
  ASSERT_EQ(scene->train.size(), 12u);
  ASSERT_EQ(scene->depth_maps.size(), 12u);
  // Pictures are those of a render through the same cameras, depths meet the ball's front.
  ASSERT_EQ(std::system((BinDir() + "/nerf-engine render " + Model() + " --camera " + set +
                         "/transforms.json --out " + (dir_ / "views") + " >/dev/null 2>&1")
                            .c_str()),
            0);
  const auto json = nlohmann::json::parse(Bytes("set/transforms.json"));
  const auto& frame = json["frames"][3];
  EXPECT_TRUE(Bytes("set/" + frame["file_path"].get<std::string>()) == Bytes("views/rgb_0003.png"));
  const std::string npy = Bytes("set/" + frame["depth_file_path"].get<std::string>());
  const auto depths = ParseNpy(npy);
  ASSERT_THAT(depths, IsOk());
  const auto& pose = frame["transform_matrix"];
  double distance = 0;
  for (int axis = 0; axis < 3; ++axis) distance += std::pow(pose[axis][3].get<double>(), 2);
  EXPECT_NEAR(depths->At(24, 24), 1000 * (std::sqrt(distance) - 0.6), 60);
  EXPECT_EQ(depths->At(0, 0), 0);

  const Ended cropped = Export(Model() + " --format views --crop 9,9,9,1,1,1 --camera " + set +
                               "/transforms.json --out " + set + "2/");
  ASSERT_EQ(cropped.code, 0) << cropped.err;
  EXPECT_FALSE(Bytes("set2/images/0003.png").empty());
  EXPECT_THAT(Export(Model() + " --format views --out " + set).err, HasSubstr("is not empty"));
}

TEST_F(ExportCommandTest, ViewsThatDoNotFitLeaveNothing) {
  for (const auto& [name, words] : {std::pair{"set", ".npy"}, {"set.zip", "set.zip"}}) {
    const Ended ended =
        Export(Model() + " --format views --out " + (dir_ / name), "trap '' XFSZ; ulimit -f 4; ");
    EXPECT_NE(ended.code, 0);
    EXPECT_THAT(ended.err, HasSubstr(words));
    EXPECT_THAT(Files(), ::testing::IsEmpty());
  }
}

TEST_F(ExportCommandTest, WrongFlagsAreRefusedByNameAndNothingIsWritten) {
  const std::string out = " --out " + (dir_ / "x");
  const struct {
    std::string flags;
    int code;
    const char* words;
  } cases[] = {
      {out, 2, "--format: is needed where --out ends in none of"},
      {" --out " + (dir_ / "x.json"), 2, "--format: is needed"},
      {out + " --format obj", 2, "--format: 'obj'"},
      {out + " --format ''", 2, "--format"},
      {" --format ply", 2, "--out"},
      {" --format ply --out ''", 2, "--out: is empty"},
      {out + " --format ply --box nan,0,0,1,1,1", 2, "--crop: center[0]"},
      {out + " --format ply --box inf,0,0,1,1,1", 2, "--crop"},
      {out + " --format ply --box 0,0,0,1,1,0", 2, "--crop"},
      {out + " --format ply --box 0,0,0,1,-1,1", 2, "--crop"},
      {out + " --format ply --box 0,0,0,1,1", 2, "--crop"},
      {out + " --format ply --box 0,0,0,1,1,1,1", 2, "--crop"},
      {out + " --format ply --box ''", 0, ""},  // as if it were not given
      {out + " --format ply --box 1e300,0,0,1,1,1", 2, "--crop"},
      {out + " --format ply --box 1e8,0,0,1e-9,1,1", 2, "too short"},
      {out + " --format ply --box 100,100,100,1,1,1", 9, "no surface"},
      {out + " --format points --box 100,100,100,1,1,1", 9, "no point"},
      {out + " --format ply --resolution 100000", 2, "--resolution"},
      {out + " --format ply --resolution 0", 2, "--resolution"},
      {out + " --format ply --resolution nan", 2, "--resolution"},
      {out + " --format ply --triangles 0", 2, "--triangles"},
      {out + " --format ply --triangles -5", 2, "--triangles"},
      {out + " --format ply --density 0", 2, "--density"},
      {out + " --format ply --density 1e30", 9, "no surface"},
      {out + " --format ply --frame maya", 2, "--frame: 'maya'"},
      {out + " --format points --triangles 100", 2, "--triangles: has no effect"},
      {out + " --format cameras --box 0,0,0,1,1,1", 2, "--crop: has no effect"},
      {out + " --format cameras --resolution 64", 2, "--resolution: has no effect"},
      {out + " --format cameras --frame unity", 2, "--frame: UNITY is left-handed"},
      {out + " --format ply --time 2", 2, "--time"},
      {out + " --format ply --texture 512", 2, "--texture: has no effect"},
      {out + " --format glb --texture 8", 2, "--texture"},
      {out + " --format glb --texture 1e9", 2, "--texture"},
      {out + " --format glb --texture 64 --triangles 1000", 2, "at most 672 triangles"},
      {out + " --format ply --camera x.json", 2, "--camera: has no effect"},
      {out + " --format ngp-path --box 0,0,0,1,1,1", 2, "--crop: has no effect"},
      {out + " --format ngp-path --frame unity", 2, "--frame: has no effect"},
      {out + " --format ngp-path", 9, "--dataset DIR"},
      {out + " --format ngp-path --dataset " + (dir_ / "none"), 5, "none"},
      {out + " --format nerfstudio-path --camera " + (dir_ / "none.json"), 5, "none.json"},
      {out + " --format splats --dataset " + (dir_ / "none"), 5, "none"},
      {out + " --format splats --dataset x --crop 0,0,0,1,1,1", 2, "--dataset: not with --crop"},
      {out + " --format ply --dataset x", 2, "--dataset: has no effect on PLY"},
      {out + " --format vdb --density 2", 2, "--density: has no effect on VDB"},
      {out + " --format cameras --time 0.5", 2, "--time: has no effect on CAMERAS"},
      {out + ".html --resolution 64", 2, "--resolution: has no effect on VIEWER"},
      {out + ".html --time 0", 2, "--time: has no effect on VIEWER"},
      {out + ".html --frame unity", 2, "--frame: has no effect on VIEWER"},
      {out + ".html --crop 0,0,0,1,1,x", 2, "--crop"},
      {out + ".glb --baked", 2, "--baked: has no effect on GLB"},
      {" --viewer " + (dir_ / "x"), 2, "'--viewer'; did you mean --out FILE.html?"},
      {out + " --format views --exported-cameras", 2, "--exported-cameras: has no effect"},
      {out + " --format views --resolution 64", 2, "--resolution: has no effect"},
      {out + " --format views --frame unreal", 2, "--frame: UNREAL is left-handed"},
      {out + " --format views --camera " + (dir_ / "none.json"), 5, "none.json"},
      {" --format views --out " + (dir_ / ".out"), 9, "is there already"},
      {" --format views --out " + dir_.path(), 9, "is not empty"},
      {out + " --format vdb --triangles 9", 2, "--triangles: has no effect"},
      {out + " --format vdb --box 100,100,100,1,1,1", 9, "no volume"},
      {" --format ply --out /proc/x.ply", 5, "/proc/x.ply"},
      {" --format ply --out " + (dir_ / ".out/x.ply"), 9, ".out"},
      {" --out " + (dir_ / std::string(300, 'a')) + ".ply", 5, "aaa.ply"},
  };
  for (const auto& [flags, code, words] : cases) {
    const Ended ended = Export(Model() + flags + (code == 0 ? " --resolution 32" : ""));
    EXPECT_EQ(ended.code, code) << flags << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(words)) << flags;
    if (code == 0) fs::remove(dir_ / "x");
    EXPECT_THAT(Files(), ::testing::IsEmpty()) << flags;
  }
}

TEST_F(ExportCommandTest, MissingFoldersOfTheFileAreMade) {
  for (const char* file : {"a/b/x.ply", "c/x.zip", "d/set", "e/x.html"}) {
    const std::string format = fs::path(file).has_extension() ? "" : " --format views";
    const Ended made = Export(Model() + format + " --out " + (dir_ / file));
    EXPECT_EQ(made.code, 0) << file << made.err;
    EXPECT_TRUE(fs::exists(dir_ / file)) << file;
  }
  EXPECT_EQ(Export(Model() + " --box 100,100,100,1,1,1 --out " + (dir_ / "f/g/x.ply")).code, 9);
  EXPECT_FALSE(fs::exists(dir_ / "f")) << "of an export that fails nothing is left";
}

TEST_F(ExportCommandTest, ArchivesThatCannotBeMadeAreRefusedBeforeTheWork) {
  const TempDir other;
  fs::create_directory(other / "set.zip");
  EXPECT_THAT(Export(Model() + " --out " + (other / "set.zip")).err, HasSubstr("is a folder"));
  nlohmann::json frames = nlohmann::json::array();
  for (int i = 0; i < 1100; ++i) {
    frames.push_back(
        {{"w", 1024},
         {"h", 1024},
         {"fl_x", 900},
         {"transform_matrix", {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 4}, {0, 0, 0, 1}}}});
  }
  other.Write("many.json", nlohmann::json{{"frames", frames}}.dump());
  const Ended ended =
      Export(Model() + " --camera " + (other / "many.json") + " --out " + (dir_ / "x.zip"));
  EXPECT_EQ(ended.code, 8) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("a .zip holds 4 GB at most, these depths have 4.6"));
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

TEST_F(ExportCommandTest, ModelsThatAreNoneAreRefused) {
  const std::string out = " --format ply --out " + (dir_ / "x");
  EXPECT_EQ(Export((dir_ / "none.safetensors") + out).code, 5);
  const Ended text = Export(SourceDir() + "/README.md" + out);
  EXPECT_EQ(text.code, 9) << text.err;
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

TEST_F(ExportCommandTest, ModelIsNotOverwritten) {
  fs::copy_file(Model(), dir_ / "model.safetensors");
  const std::string before = Bytes("model.safetensors");
  const Ended ended = Export((dir_ / "model.safetensors") + " --format ply --out " +
                             (dir_ / "./model.safetensors"));
  EXPECT_EQ(ended.code, 9);
  EXPECT_THAT(ended.err, HasSubstr("is the model itself"));
  EXPECT_TRUE(Bytes("model.safetensors") == before);
}

TEST_F(ExportCommandTest, FileThatDoesNotFitLeavesTheOldOne) {
  dir_.Write("mesh.ply", "old");
  // Writes beyond 64 blocks fail, as on a full disk.
  const Ended ended = Export(Model() + " --resolution 96 --out " + (dir_ / "mesh.ply"),
                             "trap '' XFSZ; ulimit -f 64; ");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("mesh.ply"));
  EXPECT_EQ(Bytes("mesh.ply"), "old");
  EXPECT_THAT(Files(), ::testing::ElementsAre("mesh.ply"));
}

TEST_F(ExportCommandTest, SignalEndsItAndLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd out(ends[0]);
    UniqueFd in(ends[1]);
    const std::string program = BinDir() + "/nerf-engine", file = dir_ / "mesh.ply";
    const std::string model = Model();
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(in.get(), STDOUT_FILENO);
      execl(program.c_str(), "nerf-engine", "export", model.c_str(), "--out", file.c_str(),
            "--resolution", "1024", "--json", nullptr);
      _exit(127);
    }
    in.Reset();
    char first = 0;
    EXPECT_EQ(read(out.get(), &first, 1), 1);  // it has begun
    kill(pid, signal);
    std::string rest(1 << 12, '\0');
    while (read(out.get(), rest.data(), rest.size()) > 0) continue;
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_THAT(Files(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace nerf
