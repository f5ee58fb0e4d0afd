// Scenes, jobs and listings against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/ids.h"
#include "common/messages/rpc_status.h"
#include "common/process/exit_code.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "fmt/format.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A Blender scene of four tiny pictures, with other files in the folder.
void WriteScene(const std::string& dir) {
  nlohmann::json train = {{"camera_angle_x", 0.7}, {"frames", nlohmann::json::array()}};
  nlohmann::json test = train;
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("r_{}", i);
    ImageU8 image{.width = 4, .height = 4, .n_channels = 3, .pixels = {}};
    image.pixels.assign(48, static_cast<uint8_t>(10 * i));
    ASSERT_TRUE(WritePng(dir + "/" + name + ".png", image).ok());
    (i == 3 ? test : train)["frames"].push_back(
        {{"file_path", "./" + name},
         {"transform_matrix", {{1, 0, 0, 0.1 * i}, {0, 1, 0, 0}, {0, 0, 1, 4}, {0, 0, 0, 1}}}});
  }
  std::ofstream(dir + "/transforms_train.json") << train;
  std::ofstream(dir + "/transforms_test.json") << test;
  std::ofstream(dir + "/notes.txt") << "private";
}

TEST_F(ServiceTest, SceneCreateUploadsWhatTheReaderUsesAndTheServerMisses) {
  const TempDir dir;
  WriteScene(dir.path());
  const std::string present = ReadFile(dir / "r_0.png", 1 << 20).value();
  state_.blobs[Sha256Hex(present)] = present;

  const CommandResult result = Run({"scene", "create", dir.path(), "--display-name", "tiny"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("files:"), Not(HasSubstr("r_1.png"))));
  EXPECT_EQ(state_.writes.size(), 5u) << "three pictures and two JSON files";
  ASSERT_EQ(state_.create_scene.size(), 1u);
  const v1::CreateSceneRequest& request = state_.create_scene[0];
  EXPECT_EQ(request.parent(), "projects/default");
  EXPECT_EQ(request.scene().display_name(), "tiny");
  EXPECT_TRUE(IsUuid4(request.request_id()));
  std::vector<std::string> paths;
  for (const v1::SceneFile& file : request.scene().files()) {
    paths.push_back(file.path());
    const std::string content = ReadFile(dir / file.path(), 1 << 20).value();
    EXPECT_EQ(file.blob().sha256(), Sha256Hex(content));
    EXPECT_EQ(file.blob().size_bytes(), content.size());
    EXPECT_TRUE(state_.blobs.contains(file.blob().sha256()));
  }
  EXPECT_THAT(paths, ElementsAre("r_0.png", "r_1.png", "r_2.png", "r_3.png", "transforms_test.json",
                                 "transforms_train.json"));
  EXPECT_THAT(result.out, HasSubstr("projects/default/scenes/s-fake"));
  EXPECT_THAT(result.err, HasSubstr("sent 5 of 6 files"));
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl job create s-fake"));

  const CommandResult again = Run({"scene", "create", dir.path(), "-o", "name"});
  EXPECT_EQ(again.exit_code, kOk);
  EXPECT_EQ(again.out, "projects/default/scenes/s-fake\n");
  EXPECT_THAT(again.err, HasSubstr("all 6 files are on the server already"));
  EXPECT_EQ(state_.writes.size(), 5u);
}

// A binary model of COLMAP whose names are in a code page, as the files on disk are.
TEST_F(ServiceTest, NamesInACodePageAreSentAsInUrls) {
  const auto bytes = [](const auto&... values) {
    std::string all;
    (all.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
    return all;
  };
  const TempDir dir;
  std::filesystem::create_directories(dir / "images");
  std::filesystem::create_directories(dir / "sparse/0");
  std::string images = bytes(uint64_t{4});
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string name = "\xb5\xe5 \xb7\xd0_" + std::to_string(i) + ".png";
    ImageU8 image{.width = 4, .height = 4, .n_channels = 3, .pixels = {}};
    image.pixels.assign(48, static_cast<uint8_t>(10 * i));
    ASSERT_TRUE(WritePng(dir / ("images/" + name), image).ok());
    images += bytes(i + 1, 1.0, 0.0, 0.0, 0.0, 0.1 * i, 0.0, 4.0, uint32_t{1}) + name + '\0' +
              bytes(uint64_t{0});
  }
  std::ofstream(dir / "sparse/0/images.bin") << images;
  std::ofstream(dir / "sparse/0/cameras.bin")
      << bytes(uint64_t{1}, uint32_t{1}, int32_t{1}, uint64_t{4}, uint64_t{4}, 5.0, 5.0, 2.0, 2.0);
  const CommandResult result = Run({"scene", "create", dir.path()});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  std::vector<std::string> paths;
  for (const v1::SceneFile& file : state_.create_scene[0].scene().files()) {
    paths.push_back(file.path());
    EXPECT_TRUE(state_.blobs.contains(file.blob().sha256()));
  }
  EXPECT_EQ(paths.size(), 6u);
  EXPECT_THAT(paths, Contains("images/%B5%E5%20%B7%D0_3.png"));

  // The engine of a worker finds them under these names.
  for (int i = 0; i < 4; ++i) {
    const std::string end = std::to_string(i) + ".png";
    std::filesystem::rename(dir / ("images/\xb5\xe5 \xb7\xd0_" + end),
                            dir / ("images/%B5%E5%20%B7%D0_" + end));
  }
  const SceneDescription sent = DescribeScene(dir.path());
  EXPECT_TRUE(sent.ok()) << SummaryOf(sent.problems);
  EXPECT_EQ(sent.train.size() + sent.test.size(), 4u);
}

// As with instant-ngp: transforms.json for training, another list for evaluation.
TEST_F(ServiceTest, ListsThatTheReaderUsedAreUploadedAndOthersAreNot) {
  const TempDir dir;
  WriteScene(dir.path());
  std::filesystem::rename(dir / "transforms_train.json", dir / "transforms.json");
  ASSERT_EQ(Run({"scene", "create", dir.path()}).exit_code, kOk);
  std::vector<std::string> lists;
  for (const v1::SceneFile& file : state_.create_scene[0].scene().files()) {
    if (file.path().ends_with(".json")) lists.push_back(file.path());
  }
  EXPECT_THAT(lists, ElementsAre("transforms.json"));
}

TEST_F(ServiceTest, MasksAndDepthFilesThatFramesNameAreUploaded) {
  const TempDir dir;
  WriteScene(dir.path());
  nlohmann::json list =
      nlohmann::json::parse(ReadFile(dir / "transforms_train.json", 1 << 20).value());
  list["frames"][0]["depth_file_path"] = "depth/r_0.png";
  list["frames"][1]["mask_path"] = "mask_1.png";
  std::ofstream(dir / "transforms_train.json") << list;
  std::filesystem::create_directories(dir / "depth");
  const std::vector<uint16_t> depths(16, 1500);
  ASSERT_TRUE(WritePng16(dir / "depth/r_0.png", 4, 4, depths).ok());
  ASSERT_TRUE(WritePng16(dir / "depth/r_1.png", 4, 4, depths).ok());
  ASSERT_TRUE(WritePng(dir / "mask_1.png", {4, 4, 1, std::vector<uint8_t>(16, 255)}).ok());
  const CommandResult result = Run({"scene", "create", dir.path()});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  std::vector<std::string> pictures;
  for (const v1::SceneFile& file : state_.create_scene[0].scene().files()) {
    if (file.path().ends_with(".png")) pictures.push_back(file.path());
  }
  EXPECT_THAT(pictures, ElementsAre("depth/r_0.png", "mask_1.png", "r_0.png", "r_1.png", "r_2.png",
                                    "r_3.png"));
}

TEST_F(ServiceTest, BlobsThatVanishBeforeTheCreateAreSentAgain) {
  const TempDir dir;
  WriteScene(dir.path());
  state_.errors["CreateScene"] = {BlobsMissingError({"blobs/x/1"})};
  const CommandResult result = Run({"scene", "create", dir.path()});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.create_scene.size(), 2u);
  EXPECT_EQ(state_.create_scene[0].request_id(), state_.create_scene[1].request_id());
}

TEST_F(ServiceTest, BadDataSetNamesEveryProblemAndSendsNothing) {
  const TempDir dir;
  WriteScene(dir.path());
  std::ofstream(dir / "r_1.png") << "no picture";
  std::ofstream(dir / "r_3.png") << "";
  for (const char* verb : {"scene create", "train"}) {
    std::vector<std::string> args = verb == std::string("train")
                                        ? std::vector<std::string>{"train", dir.path()}
                                        : std::vector<std::string>{"scene", "create", dir.path()};
    const CommandResult result = Run(args);
    EXPECT_EQ(result.exit_code, kBadData);
    EXPECT_THAT(result.err, HasSubstr("r_1.png"));
    EXPECT_THAT(result.err, HasSubstr("r_3.png"));
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(ServiceTest, ScenesAreNamedAfterFoldersAndJobsAfterScenes) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "garden");
  WriteScene(dir / "garden");
  ASSERT_EQ(Run({"scene", "create", dir / "garden"}).exit_code, kOk);
  ASSERT_EQ(Run({"scene", "create", dir / "garden/."}).exit_code, kOk);
  for (const v1::CreateSceneRequest& request : state_.create_scene)
    EXPECT_EQ(request.scene().display_name(), "garden");

  state_.scenes.clear();
  v1::Scene& scene = state_.scenes.emplace_back();
  scene.set_name("projects/default/scenes/s-1");
  scene.set_display_name("garden");
  const auto name_of_job = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"job", "create"});
    EXPECT_EQ(Run(flags).exit_code, kOk);
    return state_.create_job.back().job().display_name();
  };
  EXPECT_EQ(name_of_job({"s-1"}), "garden");
  EXPECT_EQ(name_of_job({"s-1", "--display-name", "mine"}), "mine");
  EXPECT_EQ(name_of_job({"s-2"}), "s-2") << "a scene without a name";
  state_.errors["GetScene"] = {absl::PermissionDeniedError("not yours")};
  EXPECT_EQ(name_of_job({"s-1"}), "") << "the server decides whether it may train";
}

TEST_F(ServiceTest, SeveralJobsAreCancelledAtOnce) {
  const CommandResult both = Run({"job", "cancel", "a", "b", "--keep"});
  EXPECT_EQ(both.exit_code, kOk) << both.err;
  EXPECT_EQ(both.out, "CANCELLING  a\nCANCELLING  b\n");
  EXPECT_TRUE(state_.cancel_keeps);
  const CommandResult json = Run({"job", "cancel", "a", "b", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out).size(), 2u) << json.out;
  const CommandResult one = Run({"job", "cancel", "a", "--json"});
  EXPECT_TRUE(nlohmann::json::parse(one.out).is_object()) << one.out;
  EXPECT_EQ(state_.names.back(), "projects/default/jobs/a");
  EXPECT_FALSE(state_.cancel_keeps);
  // A failure does not keep the others.
  state_.errors["CancelJob"] = {WithReason(absl::NotFoundError("none"), reason::kResourceNotFound,
                                           {{"resource", "projects/default/jobs/a"}})};
  const CommandResult failed = Run({"job", "cancel", "a", "b"});
  EXPECT_EQ(failed.exit_code, kNotFound);
  EXPECT_EQ(failed.out, "CANCELLING  b\n");
  state_.names.clear();
  EXPECT_EQ(Run({"job", "cancel", "a", "B!"}).exit_code, kUsage);
  EXPECT_TRUE(state_.names.empty()) << "nothing is cancelled where a name is none";
}

TEST_F(ServiceTest, TrainUploadsCreatesAndWatches) {
  const TempDir dir;
  WriteScene(dir.path());
  ScriptSuccess();
  const CommandResult result =
      Run({"train", dir.path(), "--steps", "100", "--set", "loss=mse", "--seed", "3"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.create_job.size(), 1u);
  const v1::CreateJobRequest& request = state_.create_job[0];
  EXPECT_EQ(request.job().training().scene(), "projects/default/scenes/s-fake");
  EXPECT_EQ(request.job().training().config().steps(), 100u);
  EXPECT_EQ(request.job().training().config().seed(), 3u);
  EXPECT_EQ(request.job().training().config().settings().at("loss"), "mse");
  EXPECT_EQ(request.job().display_name(), std::filesystem::path(dir.path()).filename());
  EXPECT_EQ(result.out, "SUCCEEDED  j-fake  step 100  test PSNR 33.12 dB\n");
  EXPECT_THAT(result.err, HasSubstr("job j-fake RUNNING on w-1"));
  EXPECT_THAT(result.err, HasSubstr("step  10/100   10%"));
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl render --job j-fake --out j-fake-views   "
                                    "(nerfctl model promote j-fake keeps it)\n"));
}

TEST_F(ServiceTest, PhotographsWithoutPosesArePosedFirst) {
  const TempDir dir, scene;
  WriteScene(scene.path());
  std::filesystem::create_directory(dir / "photos");
  std::ofstream(dir / "photos/1.jpg") << "a photograph";
  const std::string engine = FakeEngine(
      dir, "echo \"5/7 matching features: 1 of 2\"\ncp -r " + scene.path() + " \"$4\"\n");
  ScriptSuccess();
  const CommandResult result = Run({"train", dir / "photos", "--engine", engine});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("photos has no poses. Finding them takes minutes: nerf-engine "
                                    "pose " +
                                    (dir / "photos") + " --out " + (dir / "photos-posed")));
  EXPECT_THAT(result.err, HasSubstr("5/7 matching features: 1 of 2"));
  EXPECT_EQ(state_.create_job.back().job().display_name(), "photos");
  // The second training finds them.
  ScriptSuccess();
  const CommandResult again = Run({"train", dir / "photos", "--engine", "/no/engine"});
  EXPECT_EQ(again.exit_code, kOk) << again.err;
  EXPECT_THAT(again.err, HasSubstr("photos has no poses; using " + (dir / "photos-posed")));
}

TEST_F(ServiceTest, PhotographsAddedAfterPosingAreWarnedOf) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "photos-posed");
  std::filesystem::create_directory(dir / "photos");
  std::ofstream(dir / "photos/1.jpg") << "a photograph";
  WriteScene(dir / "photos-posed");
  std::ofstream(dir / "photos-posed/pose.json") << R"({"photos":[{"name":"1.jpg"}]})";
  const std::vector<std::string> train = {"train", dir / "photos", "--engine", "/no/engine",
                                          "--detach"};
  EXPECT_THAT(Run(train).err, Not(HasSubstr("warning: 1 photograph")));
  std::ofstream(dir / "photos/2.jpg") << "a photograph";
  const CommandResult result = Run(train);
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: 1 photograph of " + (dir / "photos") + " is not in " +
                                    (dir / "photos-posed") + ", so it is not used: 2.jpg\n"));
  EXPECT_THAT(result.err, HasSubstr("  mv " + (dir / "photos-posed") + " " +
                                    (dir / "photos-posed-old") + " && nerfctl "));
  EXPECT_THAT(Run({"scene", "check", dir / "photos"}).err,
              HasSubstr("(their poses were found before: " + (dir / "photos-posed") + ")"));
}

TEST_F(ServiceTest, FilmIsPosedFirst) {
  const TempDir dir, scene;
  WriteScene(scene.path());
  std::ofstream(dir / "clip.MP4") << "a film";
  const std::string engine = FakeEngine(dir, "cp -r " + scene.path() + " \"$4\"\n");
  ScriptSuccess();
  const CommandResult result = Run({"train", dir / "clip.MP4", "--engine", engine});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("clip.MP4 --out " + (dir / "clip-posed")));
  EXPECT_EQ(state_.create_job.back().job().display_name(), "clip.MP4");
}

TEST_F(ServiceTest, PhotographsThatCannotBePosedEndWithTheEnginesCode) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "photos");
  std::ofstream(dir / "photos/1.jpg") << "a photograph";
  const std::string engine = FakeEngine(dir, "echo \"error: 1 of 1: blur\"\nexit 9\n");
  const CommandResult result = Run({"train", dir / "photos", "--engine", engine});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.err, HasSubstr("error: 1 of 1: blur"));
  EXPECT_THAT(result.err, HasSubstr("no poses were found, so nothing was trained"));
  EXPECT_EQ(Run({"train", dir / "photos", "--engine", "/no/engine"}).exit_code, kNotFound);
  // A check alone takes no minutes.
  const std::string able = FakeEngine(dir, "test \"$5\" = --validate-only && ! test -e \"$4\"\n");
  const CommandResult check = Run({"train", dir / "photos", "--validate-only", "--engine", able});
  EXPECT_EQ(check.exit_code, kOk) << check.err;
  EXPECT_THAT(check.err,
              HasSubstr("photos has no poses: training begins with finding them, which takes "
                        "minutes (nerf-engine pose " +
                        (dir / "photos") + " --out " + (dir / "photos-posed") + ")"));
  EXPECT_EQ(state_.validate_job.size(), 1u) << "the flags are checked";
  // Without COLMAP training cannot begin.
  const std::string unable = FakeEngine(dir, "echo \"error: colmap is not installed\"\nexit 2\n");
  const CommandResult refused =
      Run({"train", dir / "photos", "--validate-only", "--engine", unable});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("error: colmap is not installed\nnerfctl: poses cannot be "
                                     "found, so nothing can be trained\n"));
  EXPECT_EQ(Run({"train", dir / "photos", "--validate-only", "--engine", "/no/engine"}).exit_code,
            kNotFound);
  EXPECT_THAT(Suggested(Run({"scene", "check", dir / "photos"})),
              ElementsAre("train", dir / "photos"));
}

TEST_F(ServiceTest, MisspelledFolderIsSuggested) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "photos");
  const CommandResult result = Run({"train", dir / "phtos"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("no such folder; did you mean " + (dir / "photos") + "?"));
}

TEST_F(ServiceTest, SuggestedCommandsRepeatTheFlagsOfTheServer) {
  ScriptSuccess();
  const CommandResult watched =
      RunCommand({"job", "watch", "j-fake", "--server=" + server_.address(), "--project", "lab"});
  EXPECT_THAT(watched.err, HasSubstr(fmt::format(
                               "next: nerfctl --server {0} --project lab render --job j-fake "
                               "--out j-fake-views   (nerfctl --server {0} --project lab model "
                               "promote j-fake keeps it)\n",
                               server_.address())));
  state_.errors["GetScene"] = {WithReason(absl::NotFoundError("none"), reason::kResourceNotFound,
                                          {{"resource", "projects/lab/scenes/s-1"}})};
  const CommandResult shown =
      RunCommand({"--server", server_.address(), "--project", "lab", "scene", "show", "s-1"});
  EXPECT_THAT(shown.err, HasSubstr(fmt::format("`nerfctl --server {} --project lab scene ls`",
                                               server_.address())));
}

TEST_F(ServiceTest, JobNamedAsAModelNamesItsCheckpoint) {
  const TempDir dir;
  WriteScene(dir.path());
  v1::Job& job = state_.jobs.emplace_back();
  job.set_name("projects/default/jobs/j-7");
  job.mutable_training();
  const auto train = [&] {
    state_.errors["CreateJob"] = {
        WithReason(absl::NotFoundError("projects/default/models/j-7 not found"),
                   reason::kResourceNotFound, {{"resource", "projects/default/models/j-7"}})};
    return Run({"train", dir.path(), "--init", "j-7"});
  };
  EXPECT_THAT(train().err, HasSubstr("  j-7 is a job without a checkpoint yet; "
                                     "`nerfctl job watch j-7` follows it\n"));
  job.set_state(J::CANCELLED);
  EXPECT_THAT(train().err, HasSubstr("  j-7 is a job that ended without a checkpoint\n"));
  for (const char* step : {"600", "1200"}) {
    job.mutable_training_status()->add_checkpoints()->set_name(job.name() + "/checkpoints/" + step);
  }
  const CommandResult result = train();
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("  j-7 is a job: name its newest checkpoint, j-7/1200, or make "
                                    "a model of it first, with `nerfctl model promote j-7 --id "
                                    "j-7`\n"));
}

TEST_F(ServiceTest, LowPsnrComesWithLikelyReasons) {
  W done = Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100);
  v1::Job& job = *done.mutable_job();
  job.mutable_training()->set_scene("projects/default/scenes/s-1");
  job.mutable_training_status()->set_final_psnr(19.25);
  job.mutable_training_status()->mutable_progress()->set_samples(2e6);
  state_.watch_scripts = {{{done}, absl::OkStatus()}};
  EXPECT_THAT(Run({"job", "watch", "j-fake"}).err,
              AllOf(HasSubstr("a test PSNR of 19.2 dB is low"), HasSubstr("little training (2.0 M"),
                    HasSubstr("`nerfctl scene check s-1`")));
}

// Runs what is suggested as typed.
TEST_F(ServiceTest, SuggestedCommandsRun) {
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  ScriptSuccess();
  const CommandResult watched = Run({"job", "watch", "j-fake"});
  EXPECT_THAT(Suggested(watched),
              ElementsAre("render", "--job", "j-fake", "--out", "j-fake-views"));
  EXPECT_EQ(Run(Suggested(watched)).exit_code, kOk);
  EXPECT_EQ(state_.render.back().orbit().path(), v1::PATH_AUTO);
  const CommandResult promoted = Run({"model", "promote", "j-1", "--id", "mic"});
  EXPECT_THAT(Suggested(promoted), ElementsAre("render", "mic", "--out", "mic-views"));
  EXPECT_EQ(Run(Suggested(promoted)).exit_code, kOk);
  std::filesystem::current_path(before);
}

TEST_F(ServiceTest, NoHintsLeavesOutSuggestedCommands) {
  ScriptSuccess();
  EXPECT_THAT(Run({"job", "watch", "j-fake", "--no-hints"}).err, Not(HasSubstr("next: ")));
  const ScopedEnvironment no_hints("NERFCTL_NO_HINTS", "true");
  EXPECT_THAT(Run({"model", "promote", "j-1"}).err, IsEmpty());
}

TEST_F(ServiceTest, TrainOfAFolderThatIsOnTheServerTakesItsOldestScene) {
  const TempDir dir;
  WriteScene(dir.path());
  ASSERT_EQ(Run({"scene", "create", dir.path()}).exit_code, kOk);
  v1::Scene same = state_.create_scene[0].scene();
  for (const v1::SceneFile& file : same.files()) {
    same.set_size_bytes(same.size_bytes() + file.blob().size_bytes());
  }
  v1::Scene of_the_same_size = same;
  of_the_same_size.mutable_files(0)->mutable_blob()->set_sha256(std::string(64, '0'));
  v1::Scene renamed = same;
  renamed.mutable_files(1)->set_path("other.png");
  for (v1::Scene scene : {same, same, of_the_same_size, renamed}) {
    scene.set_name(fmt::format("projects/default/scenes/s-{}", state_.scenes.size()));
    state_.scenes.push_back(scene);
  }
  state_.calls.clear();
  CommandResult result = Run({"train", dir.path(), "--detach"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(state_.create_job[0].job().training().scene(), "projects/default/scenes/s-1");
  EXPECT_THAT(result.err, HasSubstr("scene s-1 on the server holds these 6 files already\n"));
  EXPECT_EQ(state_.calls.count("CreateScene") + state_.calls.count("FindMissingBlobs"), 0u);

  std::ofstream(dir / "transforms_test.json", std::ios::app) << ' ';
  result = Run({"train", dir.path(), "--detach"});
  EXPECT_EQ(state_.create_job[1].job().training().scene(), "projects/default/scenes/s-fake");
  EXPECT_EQ(state_.calls["CreateScene"], 1);
}

TEST_F(ServiceTest, TrainThatOnlyValidatesAsksTheServerAndSendsNoFile) {
  const TempDir dir;
  WriteScene(dir.path());
  CommandResult result = Run({"train", dir.path(), "--validate-only", "--id", "mine"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(result.out, "valid; nothing was created\n");
  EXPECT_TRUE(state_.create_job.empty());
  ASSERT_EQ(state_.validate_job.size(), 1u);
  EXPECT_EQ(state_.validate_job[0].job_id(), "mine");
  EXPECT_EQ(state_.validate_job[0].job().training().scene(), "");
  EXPECT_EQ(state_.calls.count("CreateScene") + state_.calls.count("FindMissingBlobs"), 0u);

  state_.errors["CreateJob"] = {
      WithReason(absl::AlreadyExistsError("mine exists already"), reason::kAlreadyExists)};
  result = Run({"train", dir.path(), "--validate-only", "--id", "mine"});
  EXPECT_EQ(result.exit_code, kWrongState);
}

TEST_F(ServiceTest, TrainAsksTheServerBeforeItSendsPictures) {
  const TempDir dir;
  WriteScene(dir.path());
  state_.errors["CreateJob"] = {
      WithReason(absl::NotFoundError("projects/default/models/base not found"),
                 reason::kResourceNotFound, {{"resource", "projects/default/models/base"}})};
  CommandResult result = Run({"train", dir.path(), "--init", "base", "--detach"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("base not found"));
  ASSERT_EQ(state_.validate_job.size(), 1u);
  EXPECT_EQ(state_.validate_job[0].job().training().config().init().model(),
            "projects/default/models/base");
  EXPECT_EQ(state_.validate_job[0].job().training().scene(), "");
  EXPECT_EQ(state_.calls.count("CreateScene") + state_.calls.count("FindMissingBlobs"), 0u);

  const auto taken = WithReason(absl::AlreadyExistsError("mine is there"), reason::kAlreadyExists);
  state_.errors["CreateJob"] = {taken};
  EXPECT_EQ(Run({"train", dir.path(), "--id", "mine", "--detach"}).exit_code, kWrongState);
  EXPECT_EQ(state_.calls.count("CreateScene"), 0u);
  // An earlier run of the same command may have created it.
  state_.errors["CreateJob"] = {taken};
  result = Run({"train", dir.path(), "--id", "mine", "--detach", "--request-id",
                "6f1c2a34-8a1b-4c5d-9e0f-123456789abc"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(state_.calls["CreateScene"], 1);
}

TEST_F(ServiceTest, TrainWarnsBeforeTheUploadThatNoWorkerHasTheMethod) {
  const TempDir dir;
  WriteScene(dir.path());
  state_.wait.set_reason("NO_CAPABLE_WORKER");
  state_.wait.set_message("no connected worker has method ngp-autograd (there is ngp)");
  const std::string warning =
      "warning: the job will wait: no connected worker has method ngp-autograd (there is ngp)\n";
  CommandResult result = Run({"train", dir.path(), "--method", "ngp-autograd", "--detach"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_THAT(result.err, HasSubstr(warning));
  EXPECT_LT(result.err.find(warning), result.err.find("upload"));
  EXPECT_THAT(result.err, HasSubstr("job j-fake waits: no connected worker has method"));
  result = Run({"train", dir.path(), "--validate-only"});
  EXPECT_THAT(result.err, HasSubstr(warning));
  state_.wait.set_reason("WORKERS_BUSY");
  state_.wait.set_message("the only worker is busy with job j-1");
  result = Run({"train", dir.path(), "--detach"});
  EXPECT_THAT(result.err, Not(HasSubstr("warning")));
  EXPECT_THAT(result.err, HasSubstr("job j-fake waits: the only worker is busy with job j-1\n"));
}

TEST_F(ServiceTest, TrainWaitsAMomentForAWorkerBeforeItWarns) {
  const TempDir dir;
  WriteScene(dir.path());
  state_.wait.set_reason("NO_WORKER");
  state_.wait.set_message("no worker is connected");
  state_.on_call = [this](const std::string& method) {
    MutexLock lock(state_.mu);
    if (method == "CreateJob" && state_.validate_job.size() == 3) state_.wait.Clear();
  };
  const std::vector<std::string> train = {"train", dir.path(), "--detach"};
  CommandResult result = Run(train, {.worker_patience = absl::Minutes(1)});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("no worker is connected")));
  EXPECT_EQ(state_.validate_job.size(), 3u);

  state_.on_call = nullptr;
  state_.wait.set_reason("NO_WORKER");
  state_.wait.set_message("no worker is connected");
  result = Run(train, {.worker_patience = absl::Milliseconds(5)});
  EXPECT_THAT(result.err, HasSubstr("warning: the job will wait: no worker is connected"));
}

TEST_F(ServiceTest, WatchOfANewJobThatFailsSaysHowToFollowIt) {
  const TempDir dir;
  WriteScene(dir.path());
  state_.errors["WatchJob"] = {absl::PermissionDeniedError("not yours")};
  const CommandResult result = Run({"train", dir.path()});
  EXPECT_THAT(result.err,
              HasSubstr("  job j-fake keeps running; `nerfctl job watch j-fake` follows "
                        "it again"));
}

TEST_F(ServiceTest, FailedUploadSaysHowToGoOn) {
  const TempDir dir;
  WriteScene(dir.path());
  state_.errors["CreateScene"] = {
      WithReason(absl::ResourceExhaustedError("too much"), reason::kSizeLimit)};
  const CommandResult result = Run({"train", dir.path()});
  EXPECT_NE(result.exit_code, kOk);
  EXPECT_THAT(result.err, testing::EndsWith("  no job was created; run the same command again: "
                                            "files that arrived are not sent again\n"));
}

TEST_F(ServiceTest, ValidateOnlyTakesThePosesThatWereFoundBefore) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "photos");
  std::ofstream(dir / "photos/1.jpg") << "a photograph";
  std::filesystem::create_directory(dir / "photos-posed");
  WriteScene(dir / "photos-posed");
  const CommandResult result = Run({"train", dir / "photos", "--validate-only"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("photos has no poses; using " + (dir / "photos-posed")));
  EXPECT_EQ(result.out, "valid; nothing was created\n");
}

TEST_F(ServiceTest, ProjectThatNothingIsKnownOfIsNotFound) {
  const CommandResult result = Run({"admin", "project", "show", "nope"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "nerfctl: project nope has no resources and no settings (RESOURCE_NOT_FOUND)\n"
            "  `nerfctl admin project ls` lists what there is\n");
  EXPECT_EQ(Run({"admin", "project", "show", "default"}).exit_code, kOk);
  EXPECT_EQ(Run({"--project", "nope", "admin", "project", "show"}).exit_code, kOk)
      << "the caller's own";
}

TEST_F(ServiceTest, DownscaleDividesTheLargestSide) {
  const TempDir dir;
  WriteScene(dir.path());
  const auto max_side = [this] {
    return state_.create_job.back().job().training().config().settings().at("max_side");
  };
  EXPECT_EQ(Run({"train", dir.path(), "--downscale", "2", "--detach"}).exit_code, kOk);
  EXPECT_EQ(max_side(), "2");
  EXPECT_EQ(Run({"train", dir.path(), "--downscale", "64", "--detach"}).exit_code, kOk);
  EXPECT_EQ(max_side(), "1");
  for (const char* factor : {"0", "65", "-2", "1.5", "two"}) {
    EXPECT_EQ(Run({"train", dir.path(), "--downscale", factor}).exit_code, kUsage) << factor;
  }
  EXPECT_EQ(Run({"train", dir.path(), "--downscale", "2", "--max-side", "9"}).exit_code, kUsage);
}

TEST_F(ServiceTest, TrainReportsTheBackgroundThatIsAskedFor) {
  const std::string mic = SourceDir() + "/examples/mic";
  EXPECT_THAT(Run({"train", mic, "--background", "white", "--detach"}).err,
              HasSubstr("background white · OK"));
  EXPECT_THAT(Run({"train", mic, "--detach"}).err, HasSubstr("background random for training"));
}

TEST_F(ServiceTest, FlagOverridesAVariableThatItExcludes) {
  const ScopedEnvironment steps("NERFCTL_STEPS", "5");
  EXPECT_EQ(Run({"job", "create", "mic", "--seconds", "3"}).exit_code, kOk);
  EXPECT_EQ(state_.create_job[0].job().training().config().seconds(), 3);
}

TEST_F(ServiceTest, TrainThatIsRepeatedWithItsRequestIdAsksForTheSameSceneAndJob) {
  const TempDir dir;
  WriteScene(dir.path());
  const std::string id = "6f1c2a34-8a1b-4c5d-9e0f-123456789abc";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Run({"train", dir.path(), "--request-id", id, "--detach"}).exit_code, kOk);
  }
  ASSERT_EQ(state_.create_scene.size(), 2u);
  EXPECT_TRUE(IsUuid4(state_.create_scene[0].request_id()));
  EXPECT_EQ(state_.create_scene[0].SerializeAsString(), state_.create_scene[1].SerializeAsString());
  EXPECT_EQ(state_.create_job[0].request_id(), id);
  EXPECT_EQ(state_.create_job[1].request_id(), id);
  EXPECT_NE(state_.create_scene[0].request_id(), id);
}

TEST_F(ServiceTest, JobCreateSendsNamesInFullAndReturns) {
  CommandResult result = Run({"job", "create", "mic", "--init", "base", "--samples", "1M"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(result.out, "QUEUED  j-fake\n");
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl job watch j-fake"));
  ASSERT_EQ(state_.create_job.size(), 1u);
  EXPECT_EQ(state_.create_job[0].job().training().scene(), "projects/default/scenes/mic");
  EXPECT_EQ(state_.create_job[0].job().training().config().init().model(),
            "projects/default/models/base");
  result = Run({"job", "create", "--scene", "mic", "--validate-only"});
  EXPECT_EQ(result.exit_code, kOk);
  EXPECT_EQ(state_.validate_job.size(), 1u);
  EXPECT_THAT(result.out, HasSubstr("nothing was created"));
}

TEST_F(ServiceTest, TheServersChoiceOfAStartIsSaid) {
  state_.init_model = "projects/default/models/base";
  state_.init_reason = "trained on the same capture; of 2 models, 1 can be taken over";
  CommandResult result = Run({"job", "create", "mic", "--init", "auto", "--samples", "1M"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.create_job.size(), 1u);
  EXPECT_EQ(state_.create_job[0].job().training().config().init().model(), "auto");
  EXPECT_THAT(result.err, HasSubstr("starts from model base: trained on the same capture; of 2"));
  result = Run({"job", "create", "mic", "--init", "auto", "--validate-only"});
  EXPECT_THAT(result.err, HasSubstr("starts from model base: "));

  state_.init_model = "";
  state_.init_reason = "from scratch: \x1b[31mnone";
  result = Run({"job", "create", "mic", "--init", "auto", "--samples", "1M"});
  EXPECT_THAT(result.err, HasSubstr("starts from scratch: "));
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b"))) << "what a server sends is plain text";

  state_.init_reason = "";
  result = Run({"job", "create", "mic", "--init", "base", "--samples", "1M"});
  EXPECT_THAT(result.err, Not(HasSubstr("starts from")));

  v1::Job& job = state_.jobs.emplace_back();
  job.set_name("projects/default/jobs/j-1");
  job.mutable_training_status()->set_init_reason("from scratch: the project has no models");
  (*job.mutable_training()->mutable_config()->mutable_settings())["tiles"] = "4";
  result = Run({"job", "show", "j-1"});
  EXPECT_THAT(result.out, ContainsRegex("init reason: +from scratch: the project has no models\n"));
  EXPECT_THAT(result.out, ContainsRegex("set: +tiles=4\n"));
}

// Takes a port of its own on loopback; returns the socket, and the address in *server.
int BindLoopback(std::string* server) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  *server = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  return fd;
}

TEST(SilentServerTest, CallEndsWithItsTimeout) {
  // A port that accepts connections and sends nothing.
  std::string server;
  const int listener = BindLoopback(&server);
  ASSERT_EQ(listen(listener, 8), 0);
  const CommandResult result = RunCommand({"--server", server, "--timeout", "0.2", "job", "ls"});
  close(listener);
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_EQ(result.err, "nerfctl: --timeout of 200ms ran out before " + server +
                            " answered (DEADLINE_EXCEEDED)\n");
}

TEST(SilentServerTest, ServerThatIsNotThereIsSaidInPlainWords) {
  std::string server;
  close(BindLoopback(&server));  // nobody has the port now
  for (const char* verb : {"show", "watch"}) {
    const CommandResult result = RunCommand({"--server", server, "job", verb, "j-1"});
    EXPECT_EQ(result.exit_code, kUnreachable);
    EXPECT_EQ(result.err,
              "nerfctl: cannot reach " + server + ": connection refused (UNAVAILABLE)\n" +
                  "  start a server with `nerfd`, or name another with --server HOST:PORT\n");
  }
}

TEST(SilentServerTest, HostWithoutAnAddressIsSaidInPlainWords) {
  const CommandResult result = RunCommand({"--server", "nobody.invalid:50051", "job", "ls"});
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(
      result.err,
      HasSubstr("nerfctl: cannot reach nobody.invalid:50051: its host name cannot be resolved "
                "(UNAVAILABLE)\n"));
}

TEST_F(ServiceTest, CallsAreRepeatedWhileTheServerIsAway) {
  const std::vector<absl::Status> away(8, absl::UnavailableError("not there"));
  RunOptions options;
  options.contact_patience = absl::Minutes(5);
  options.notice_delay = absl::ZeroDuration();
  state_.errors["ListJobs"] = away;
  const CommandResult listed = Run({"job", "ls", "--no-hints"}, options);
  EXPECT_EQ(listed.exit_code, kOk) << listed.err;
  EXPECT_EQ(state_.calls["ListJobs"], 9);
  EXPECT_EQ(listed.err, "waiting for the server: not there\n");

  // A server that has just started: its token is found later.
  const absl::Status no_token =
      WithReason(absl::UnauthenticatedError("no token"), reason::kTokenMissing);
  state_.errors["ListJobs"] = away;
  state_.errors["ListJobs"].push_back(no_token);
  EXPECT_EQ(Run({"job", "ls"}, options).exit_code, kOk);

  options = {};  // the first job's deletion is the server's answer
  options.restart_patience = absl::Minutes(5);
  state_.on_call = [&](const std::string& method) {
    if (method == "DeleteJob" && state_.calls[method] == 1) state_.errors[method] = away;
  };
  const CommandResult removed = Run({"job", "rm", "j-1", "j-2"}, options);
  EXPECT_EQ(removed.exit_code, kOk) << removed.err;
}

TEST_F(ServiceTest, DeletionWhoseAnswerWasLostIsNoError) {
  RunOptions options;
  options.contact_patience = absl::Minutes(5);
  std::vector<absl::Status>& errors = state_.errors["DeleteJob"];
  errors.assign(8, absl::UnavailableError("not there"));
  errors.push_back(absl::NotFoundError("no such job"));
  EXPECT_EQ(Run({"job", "rm", "j-1"}, options).exit_code, kOk);
  errors.assign(1, absl::NotFoundError("no such job"));
  EXPECT_EQ(Run({"job", "rm", "j-1"}, options).exit_code, kNotFound);
}

TEST_F(ServiceTest, NameThatIsNotThereOrTakenLeadsToTheListing) {
  const auto lines_of = [&](absl::Status status, const std::string& resource,
                            std::string_view reason) {
    // The second error answers the question whether a job has the model's name.
    state_.errors["GetJob"] = {WithReason(status, reason, {{"resource", resource}}),
                               absl::NotFoundError("x")};
    const std::string err = Run({"job", "show", "j-1"}).err;
    return err.substr(err.find('\n') + 1);
  };
  const auto missing = [&](const std::string& resource) {
    return lines_of(absl::NotFoundError("x"), resource, reason::kResourceNotFound);
  };
  EXPECT_EQ(missing("projects/default/jobs/j-1"), "  `nerfctl job ls` lists what there is\n");
  EXPECT_EQ(missing("projects/lab/scenes/s"),
            "  `nerfctl --project lab scene ls` lists what there is\n");
  EXPECT_EQ(missing("projects/default/models/m"), "  `nerfctl model ls` lists what there is\n");
  EXPECT_EQ(missing("projects/default/jobs/j-1/checkpoints/7"),
            "  `nerfctl job show j-1` lists what there is\n");
  EXPECT_EQ(missing("projects/default/models/m/shares/sh-1"),
            "  `nerfctl share ls m` lists what there is\n");
  EXPECT_EQ(missing("tokens/t-1"), "  `nerfctl token ls --every-project` lists what there is\n");
  EXPECT_EQ(missing("projects/lab"), "");
  EXPECT_EQ(
      lines_of(absl::AlreadyExistsError("x"), "projects/default/models/m", reason::kAlreadyExists),
      "  `nerfctl model ls` lists the ids in use; without --id the server makes one\n");
}

TEST_F(ServiceTest, ConflictWithAJobsStateLeadsToTheJob) {
  state_.errors["PauseJob"] = {
      WithReason(absl::FailedPreconditionError("projects/default/jobs/j-1 is SUCCEEDED"),
                 reason::kStateConflict)};
  EXPECT_EQ(Run({"job", "pause", "j-1"}).err,
            "nerfctl: job j-1 is SUCCEEDED (STATE_CONFLICT)\n"
            "  `nerfctl job show j-1` shows where it stands\n");
}

TEST_F(ServiceTest, PauseAndResumeSayWhereTheJobStands) {
  EXPECT_EQ(Run({"job", "pause", "j-1"}).out, "PAUSING  j-1\n");
  EXPECT_EQ(Run({"job", "resume", "j-1"}).out, "QUEUED  j-1\n");
  EXPECT_THAT(state_.names, ElementsAre("projects/default/jobs/j-1", "projects/default/jobs/j-1"));
}

TEST_F(ServiceTest, RetryNamesTheNewJobAndSendsARequestId) {
  EXPECT_EQ(Run({"job", "retry", "j-1", "--id", "again"}).out, "QUEUED  j-retry\n");
  ASSERT_EQ(state_.retry_job.size(), 1u);
  EXPECT_EQ(state_.retry_job[0].name(), "projects/default/jobs/j-1");
  EXPECT_EQ(state_.retry_job[0].job_id(), "again");
  EXPECT_TRUE(IsUuid4(state_.retry_job[0].request_id()));
}

TEST_F(ServiceTest, ExtendNamesTheNewTotalAndSendsARequestId) {
  EXPECT_EQ(Run({"job", "extend", "j-1", "--samples", "80M", "--id", "more"}).out,
            "QUEUED  j-more\n");
  EXPECT_EQ(Run({"job", "extend", "j-1", "--seconds", "1h"}).exit_code, kOk);
  EXPECT_EQ(Run({"job", "extend", "j-1", "--steps", "20k"}).exit_code, kOk);
  ASSERT_EQ(state_.extend_job.size(), 3u);
  EXPECT_EQ(state_.extend_job[0].name(), "projects/default/jobs/j-1");
  EXPECT_EQ(state_.extend_job[0].samples(), 80e6);
  EXPECT_EQ(state_.extend_job[0].job_id(), "more");
  EXPECT_TRUE(IsUuid4(state_.extend_job[0].request_id()));
  EXPECT_EQ(state_.extend_job[1].seconds(), 3600);
  EXPECT_EQ(state_.extend_job[2].steps(), 20000u);
}

TEST_F(ServiceTest, UpdateSendsExactlyWhatItsFlagsName) {
  const CommandResult result =
      Run({"job", "update", "j-1", "--priority", "-7", "--label", "team=blue", "--label", "run=7=8",
           "--remove-label", "old", "--etag", "e1"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.update_job.size(), 1u);
  const v1::UpdateJobRequest& request = state_.update_job[0];
  EXPECT_THAT(request.update_mask().paths(),
              ElementsAre("priority", "labels.team", "labels.run", "labels.old"));
  EXPECT_EQ(request.job().priority(), -7);
  EXPECT_EQ(request.job().labels().at("run"), "7=8");
  EXPECT_EQ(request.job().etag(), "e1");
}

TEST_F(ServiceTest, CropIsKeptWithJobsAndModels) {
  EXPECT_EQ(Run({"job", "update", "j-1", "--crop", "0,0,0.5,2,2,1,0,0,1,0"}).exit_code, kOk);
  EXPECT_EQ(Run({"job", "update", "j-1", "--crop", "none"}).exit_code, kOk);
  ASSERT_EQ(state_.update_job.size(), 2u);
  EXPECT_THAT(state_.update_job[0].job().training().crop().center(), ElementsAre(0, 0, 0.5));
  EXPECT_THAT(state_.update_job[0].job().training().crop().turn(), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(state_.update_job[1].update_mask().paths(), ElementsAre("training.crop"));
  EXPECT_FALSE(state_.update_job[1].job().training().has_crop());

  const CommandResult kept = Run({"model", "update", "mic", "--crop", "0,0,0.5,2,2,1"});
  EXPECT_EQ(kept.out, "model mic shows 0,0,0.5,2,2,1\n") << kept.err;
  EXPECT_EQ(Run({"model", "update", "mic", "--crop", "none"}).out, "model mic shows everything\n");
  ASSERT_EQ(state_.update_model.size(), 2u);
  EXPECT_EQ(state_.update_model[0].model().name(), "projects/default/models/mic");
  EXPECT_THAT(state_.update_model[0].model().crop().size(), ElementsAre(2, 2, 1));
}

TEST_F(ServiceTest, ListSendsItsFilter) {
  EXPECT_EQ(Run({"job", "ls", "--filter", "state = RUNNING"}).exit_code, kOk);
  ASSERT_EQ(state_.list_jobs.size(), 1u);
  EXPECT_EQ(state_.list_jobs[0].filter(), "state = RUNNING");
}

TEST_F(ServiceTest, CodesBecomeExitCodes) {
  using C = absl::StatusCode;
  const std::pair<C, int> expected[] = {
      {C::kInternal, kBug},
      {C::kUnknown, kBug},
      {C::kUnimplemented, kBug},
      {C::kUnauthenticated, kDenied},
      {C::kPermissionDenied, kDenied},
      {C::kNotFound, kNotFound},
      {C::kDeadlineExceeded, kUnreachable},
      {C::kFailedPrecondition, kWrongState},
      {C::kAlreadyExists, kWrongState},
      {C::kAborted, kWrongState},
      {C::kResourceExhausted, kExhausted},
      {C::kInvalidArgument, kBadData},
      {C::kDataLoss, kBug},
  };
  for (const auto& [code, exit_code] : expected) {
    state_.errors["GetJob"] = {WithReason(absl::Status(code, "because"), "SOME_REASON")};
    const CommandResult result = Run({"job", "show", "j-1"});
    EXPECT_EQ(result.exit_code, exit_code) << absl::StatusCodeToString(code);
    EXPECT_EQ(result.err, "nerfctl: because (SOME_REASON)\n");
  }
}

TEST_F(ServiceTest, ViolationsOfTheServerComeOneALine) {
  state_.errors["CreateJob"] = {
      InvalidFieldsError({{"config.steps", "is 0"}, {"config.seed", "is odd"}})};
  const CommandResult result = Run({"job", "create", "s-1"});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.err, HasSubstr("  config.steps: is 0\n  config.seed: is odd\n"));
}

TEST_F(ServiceTest, ViolationsOfWhatFilesHoldAreBadDataAndNoUsage) {
  const std::pair<std::vector<Problem>, int> cases[] = {
      {{{"files[3].path", "is too long"}}, kBadData},
      {{{"camera.width", "must be 1 to 16384"}, {"camera.cx", "must be finite"}}, kBadData},
      {{{"upload", "holds 3 bytes of another digest"}}, kBadData},
      {{{"width", "must be at most 16384"}, {"camera.width", "must be 1 to 16384"}}, kUsage},
      {{{"scene_id", "is no id"}}, kUsage}};
  for (const auto& [problems, exit_code] : cases) {
    state_.errors["GetJob"] = {InvalidFieldsError(problems)};
    EXPECT_EQ(Run({"job", "show", "j-1"}).exit_code, exit_code) << problems[0].field;
  }
}

TEST_F(ServiceTest, ListingsFollowPagesUpToTheLimit) {
  for (int i = 0; i < 7; ++i) {
    v1::Job job;
    job.set_name(fmt::format("projects/default/jobs/j-{}", i));
    state_.jobs.push_back(job);
  }
  state_.page_size_limit = 3;
  const auto count = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(count(Run({"job", "ls", "-o", "name", "--limit", "0"}).out), 7);
  EXPECT_EQ(count(Run({"job", "ls", "-o", "name"}).out), 7);
  state_.list_jobs.clear();
  const CommandResult cut = Run({"job", "ls", "-o", "name", "--limit", "5"});
  EXPECT_EQ(count(cut.out), 5);
  EXPECT_THAT(cut.err, HasSubstr("--limit 0"));
  ASSERT_EQ(state_.list_jobs.size(), 2u);
  EXPECT_EQ(state_.list_jobs[0].page_size(), 5);
  EXPECT_EQ(state_.list_jobs[1].page_size(), 2);
  EXPECT_EQ(state_.list_jobs[1].parent(), "projects/default");
}

TEST_F(ServiceTest, EmptyListingsAreAnEmptyArray) {
  for (const char* noun : {"scene", "job", "model", "worker"}) {
    const CommandResult result = Run({noun, "ls", "--json"});
    EXPECT_EQ(result.exit_code, kOk) << noun;
    EXPECT_EQ(result.out, "[]\n") << noun;
    EXPECT_THAT(result.err, IsEmpty());
  }
}

TEST_F(ServiceTest, RemoveGoesOnAfterAFailureAndReportsTheFirst) {
  state_.errors["DeleteScene"] = {
      WithReason(absl::FailedPreconditionError("in use"), reason::kStateConflict)};
  const CommandResult result = Run({"scene", "rm", "s-1", "s-2"});
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_EQ(result.out, "deleted s-2\n");
  EXPECT_THAT(state_.names,
              ElementsAre("projects/default/scenes/s-1", "projects/default/scenes/s-2"));
}

TEST_F(ServiceTest, JobRmDeletesWhatItNames) {
  const CommandResult result = Run({"job", "rm", "j-1", "j-2"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(result.out, "deleted j-1\ndeleted j-2\n");
  EXPECT_THAT(state_.names, ElementsAre("projects/default/jobs/j-1", "projects/default/jobs/j-2"));
}

TEST_F(ServiceTest, CheckOfAStoredSceneAsksTheServer) {
  state_.validation.set_ok(false);
  state_.validation.set_summary("blender, 3 views");
  v1::SceneProblem& problem = *state_.validation.add_problems();
  problem.set_file("a.png");
  problem.set_message("is no picture");
  const CommandResult result = Run({"scene", "check", "s-1"});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.out, HasSubstr("error  a.png: is no picture\n"));
  EXPECT_THAT(state_.names, ElementsAre("projects/default/scenes/s-1"));
}

// Its pictures may have crashed the engine.
TEST_F(ServiceTest, CheckWhoseWorkerIsLostIsNotRepeated) {
  state_.errors["ValidateScene"].assign(
      100, WithReason(absl::UnavailableError("worker lost"), reason::kWorkerLost));
  EXPECT_EQ(Run({"scene", "check", "s-1"}).exit_code, kUnreachable);
  EXPECT_EQ(state_.calls["ValidateScene"], 1);
}

TEST_F(ServiceTest, ProjectFlagDecidesWhereShortIdsBelong) {
  Run({"--project", "lab", "job", "show", "j-1"});
  EXPECT_THAT(state_.names, ElementsAre("projects/lab/jobs/j-1"));
}

TEST_F(ServiceTest, ShareStartsWhereTheScenesCamerasAre) {
  v1::Model model;
  model.set_name("projects/default/models/fox");
  model.set_training_job("projects/default/jobs/j-1");
  v1::Job job;
  job.set_name(model.training_job());
  job.mutable_training()->set_scene("projects/default/scenes/s-1");
  v1::DescribeSceneResponse description;
  v1::Camera* camera = description.add_views()->mutable_camera();
  camera->set_width(30);
  for (int i = 0; i < 16; ++i) camera->add_transform_matrix(i % 5 == 0 ? 1 : 0);
  {
    MutexLock lock(state_.mu);
    state_.models.push_back(model);
    state_.jobs.push_back(job);
    state_.description = description;
  }
  ASSERT_EQ(Run({"share", "create", "fox"}).exit_code, kOk);
  EXPECT_EQ(state_.create_share[0].share().camera().width(), 30u);
  // A share of a model whose job is gone starts where the page knows.
  ASSERT_EQ(Run({"share", "create", "mic"}).exit_code, kOk);
  EXPECT_FALSE(state_.create_share[1].share().has_camera());
}

TEST_F(ServiceTest, ShareIsMadeListedAndRevoked) {
  const CommandResult made =
      Run({"share", "create", "mic", "--display-name", "museum", "--page", "https://n.example/x"});
  ASSERT_EQ(made.exit_code, kOk) << made.err;
  EXPECT_EQ(made.out, "https://n.example/x/#share=s3cret\n");
  EXPECT_THAT(made.err, HasSubstr("sh-fake: expires in 16"));
  EXPECT_THAT(made.err, Not(HasSubstr("this computer alone")));
  for (const char* page : {"http://127.0.0.1:8080/", "https://localhost"}) {
    EXPECT_THAT(Run({"share", "create", "mic", "--page", page}).err,
                HasSubstr("it opens on this computer alone: name the page's address"));
  }
  state_.create_share.resize(1);
  ASSERT_EQ(state_.create_share.size(), 1u);
  EXPECT_EQ(state_.create_share[0].parent(), "projects/default/models/mic");
  EXPECT_EQ(state_.create_share[0].share().display_name(), "museum");
  ASSERT_EQ(Run({"share", "create", "mic", "--ttl", "never"}).exit_code, kOk);
  EXPECT_FALSE(state_.create_share[1].share().has_expire_time());
  ASSERT_EQ(Run({"share", "create", "mic", "--export-job", "e-1"}).exit_code, kOk);
  EXPECT_EQ(state_.create_share[2].share().export_job(), "projects/default/jobs/e-1");
  EXPECT_EQ(Run({"share", "create", "mic", "--export-job", "E 1"}).exit_code, kUsage);
  EXPECT_EQ(Run({"share", "create", "mic", "--ttl", "soon"}).exit_code, kUsage);

  const CommandResult list = Run({"share", "ls", "mic"});
  EXPECT_THAT(list.out, HasSubstr("mic/sh-fake"));
  EXPECT_THAT(list.out, HasSubstr("museum"));
  for (const char* name : {"mic/sh-1", "projects/default/models/mic/shares/sh-1"}) {
    ASSERT_EQ(Run({"share", "rm", name}).exit_code, kOk) << name;
    EXPECT_EQ(state_.names.back(), "projects/default/models/mic/shares/sh-1");
  }
  EXPECT_EQ(Run({"share", "rm", "sh-1"}).exit_code, kUsage);
}

}  // namespace
}  // namespace nerf
