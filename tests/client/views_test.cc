// Models and the views that are rendered from them, on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/mutex.h"
#include "common/process/child_process.h"
#include "common/process/exit_code.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(ServiceTest, PromoteTakesTheNewestCheckpointOfAJob) {
  const CommandResult result = Run({"model", "promote", "j-1", "--id", "mic"});
  EXPECT_EQ(result.exit_code, kOk);
  ASSERT_EQ(state_.promote.size(), 1u);
  EXPECT_EQ(state_.promote[0].name(), "projects/default/jobs/j-1/checkpoints/-");
  EXPECT_EQ(state_.promote[0].model_id(), "mic");
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl render mic --out mic-views"));
}

TEST_F(ServiceTest, DownloadWritesTheModelsFileWhole) {
  const TempDir dir;
  AddModel(std::string(100'000, 'm'));
  const CommandResult result = Run({"model", "download", "mic", "--out", dir / "mic.safetensors"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(ReadFile(dir / "mic.safetensors", 1 << 20).value(), std::string(100'000, 'm'));
  EXPECT_THAT(result.out, HasSubstr("model mic in " + (dir / "mic.safetensors")));
  EXPECT_THAT(result.err, HasSubstr("next: nerf-engine render " + (dir / "mic.safetensors") +
                                    " --out mic-views\n"));
  EXPECT_THAT(state_.names, ElementsAre("projects/default/models/mic"));
}

TEST_F(ServiceTest, DownloadThatFailsLeavesNoFile) {
  const TempDir dir;
  AddModel("the model");
  const auto download = [&] {
    return Run({"model", "download", "mic", "--out", dir / "mic.safetensors"});
  };
  state_.errors["GetModel"] = {
      WithReason(absl::NotFoundError("no model mic"), reason::kResourceNotFound)};
  EXPECT_EQ(download().exit_code, kNotFound);
  state_.blobs[Sha256Hex("the model")] = "the modem";
  const CommandResult damaged = download();
  EXPECT_EQ(damaged.exit_code, kBug);
  EXPECT_THAT(damaged.err, HasSubstr("digest"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_EQ(Run({"model", "download", "mic", "--out", dir / "no/folder/mic"}).exit_code, kUsage);
}

TEST_F(ServiceTest, CtrlCEndsADownloadInTheMiddle) {
  const TempDir dir;
  AddModel(std::string(100'000, 'm'));
  Interrupt interrupt;
  state_.on_read = [&] { interrupt.Request(SIGINT); };
  const CommandResult result =
      Run({"model", "download", "mic", "--out", dir / "mic"}, {.interrupt = &interrupt});
  EXPECT_EQ(result.exit_code, kInterrupted);
  EXPECT_EQ(result.err, "nerfctl: interrupted\n");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST_F(ServiceTest, TimeoutEndsADownloadInTheMiddle) {
  const TempDir dir;
  AddModel(std::string(100'000, 'm'));
  state_.on_read = [] {};
  const CommandResult result =
      Run({"--timeout", "0.5", "model", "download", "mic", "--out", dir / "mic"});
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("--timeout of 500ms ran out"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST_F(ServiceTest, RenderWritesTheFilesOfAnOrbit) {
  const TempDir dir;
  const CommandResult result =
      Run({"render", "--model", "mic", "--orbit", "2", "--width", "8", "--channels",
           "rgb,depth,opacity", "--out", dir / "deep/views"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "deep/views")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("depth.json", "depth_0000.png", "depth_0001.png",
                                 "depth_color_0000.png", "depth_color_0001.png", "opacity_0000.png",
                                 "opacity_0001.png", "rgb_0000.png", "rgb_0001.png"));
  EXPECT_EQ(ReadFile(dir / "deep/views/opacity_0001.png", 1000).value(), "image 3 of call 2");
  // Both depth maps are scaled to the larger far.
  const auto depth_of = [&](const char* name) {
    return DecodePng16(ReadFile(dir / "deep/views" + "/" + name, 1000).value())->pixels[0];
  };
  EXPECT_EQ(depth_of("depth_0000.png"), 16384);
  EXPECT_EQ(depth_of("depth_0001.png"), 32768);
  const auto depth = nlohmann::json::parse(ReadFile(dir / "deep/views/depth.json", 1000).value());
  EXPECT_EQ(depth["far"], 6.5);
  ASSERT_EQ(state_.render.size(), 2u);
  EXPECT_EQ(state_.render[0].model(), "projects/default/models/mic");
  EXPECT_EQ(state_.render[1].orbit().index(), 1u);
  EXPECT_EQ(state_.render[1].orbit().count(), 2u);
  EXPECT_EQ(state_.render[1].orbit().path(), v1::PATH_ORBIT);
  EXPECT_EQ(state_.render[1].width(), 8u);
  EXPECT_EQ(state_.render[1].height(), 0u);
}

TEST_F(ServiceTest, RenderTakesAModelOrACheckpointByPosition) {
  const TempDir dir;
  EXPECT_EQ(Run({"render", "mic", "--orbit", "1", "--out", dir.path()}).exit_code, kOk);
  EXPECT_EQ(Run({"render", "j-1/200", "--orbit", "1", "--out", dir.path()}).exit_code, kOk);
  ASSERT_EQ(state_.render.size(), 2u);
  EXPECT_EQ(state_.render[0].model(), "projects/default/models/mic");
  EXPECT_EQ(state_.render[1].checkpoint(), "projects/default/jobs/j-1/checkpoints/200");
}

TEST_F(ServiceTest, RenderWarnsOfFilesOfAnEarlierRenderAlone) {
  const TempDir dir;
  std::ofstream(dir / "notes.txt") << "mine";
  EXPECT_EQ(Run({"render", "mic", "--orbit", "9", "--out", dir.path()}).err.find("warning"),
            std::string::npos);
  const CommandResult again = Run({"render", "mic", "--orbit", "2", "--out", dir.path()});
  EXPECT_EQ(again.exit_code, kOk);
  EXPECT_THAT(again.err, HasSubstr("warning: overwriting 2 files of an earlier render in " +
                                   dir.path() + ": rgb_0000.png, rgb_0001.png\n"));
  EXPECT_THAT(again.err, HasSubstr("also holds 7 files of an earlier render: rgb_0002.png, "));
  const CommandResult all = Run({"render", "mic", "--orbit", "9", "--out", dir.path()});
  EXPECT_THAT(all.err, HasSubstr("overwriting 9 files"));
  EXPECT_THAT(all.err, HasSubstr("rgb_0007.png and 1 more\n"));
}

TEST_F(ServiceTest, DownloadIntoAFolderNamesTheFileAfterTheModel) {
  const TempDir dir;
  AddModel("the model");
  const CommandResult result = Run({"model", "download", "mic", "--out", dir.path()});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(ReadFile(dir / "mic.safetensors", 100).value(), "the model");
}

TEST_F(ServiceTest, SheetShowsTheColorViewsAlone) {
  const TempDir dir;
  ImageU8 view{.width = 8, .height = 6, .n_channels = 3, .pixels = {}};
  view.pixels.assign(size_t{8} * 6 * 3, 70);
  state_.rendered_rgb = EncodePng(view).value();
  const CommandResult result = Run({"render", "--model", "mic", "--orbit", "2", "--channels",
                                    "rgb,depth", "--sheet", "--out", dir.path(), "-o", "name"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr(dir / "sheet.png\n"));
  const ImageU8 sheet = DecodeImage(dir / "sheet.png").value();
  EXPECT_EQ(sheet.width, 2 * 8 + 4);
  EXPECT_EQ(sheet.height, 6);
  EXPECT_EQ(*sheet.Pixel(0, 0), 70);
  EXPECT_EQ(*sheet.Pixel(19, 5), 70);
  EXPECT_EQ(*sheet.Pixel(9, 3), 255);
  EXPECT_EQ(Run({"render", "--model", "mic", "--orbit", "2", "--channels", "depth", "--sheet",
                 "--out", dir.path()})
                .exit_code,
            kUsage);
}

TEST_F(ServiceTest, ExrFilesAreKeptAsTheyCame) {
  const TempDir dir;
  const CommandResult result = Run({"render", "mic", "--orbit", "1", "--format", "exr",
                                    "--channels", "rgba,depth", "--out", dir / "out"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(state_.render.at(0).format(), v1::EXR);
  EXPECT_TRUE(std::filesystem::exists(dir / "out/rgba_0000.exr"));
  EXPECT_TRUE(std::filesystem::exists(dir / "out/depth_0000.exr"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out/depth.json"));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--sheet"}, {"--video", dir / "a.mp4"}}) {
    std::vector<std::string> words = {"render", "mic", "--format", "exr", "--out", dir / "no"};
    words.insert(words.end(), flags.begin(), flags.end());
    const CommandResult refused = Run(words);
    EXPECT_EQ(refused.exit_code, kUsage);
    EXPECT_THAT(refused.err, HasSubstr("not exr"));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "no"));
}

TEST_F(ServiceTest, RenderSendsEveryFrameOfACameraFile) {
  const TempDir dir;
  std::ofstream(dir / "camera.json") << R"({
    "w": 40, "h": 30, "fl_x": 50, "fl_y": 51, "cx": 20.5, "cy": 15,
    "frames": [
      {"transform_matrix": [[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]},
      {"transform_matrix": [[1,0,0,4],[0,1,0,5],[0,0,1,6],[0,0,0,1]], "w": 80, "cx": 40}]})";
  const CommandResult result = Run({"render", "--job", "j-1", "--camera", dir / "camera.json",
                                    "--format", "jpeg", "--out", dir / "out"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_TRUE(std::filesystem::exists(dir / "out/rgb_0001.jpg"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out/depth.json"));
  ASSERT_EQ(state_.render.size(), 2u);
  EXPECT_EQ(state_.render[0].training_job(), "projects/default/jobs/j-1");
  EXPECT_EQ(state_.render[0].format(), v1::JPEG);
  const v1::Camera& camera = state_.render[0].camera();
  EXPECT_EQ(camera.width(), 40u);
  EXPECT_EQ(camera.fl_y(), 51);
  EXPECT_EQ(camera.cx(), 20.5);
  EXPECT_THAT(
      std::vector<double>(camera.transform_matrix().begin(), camera.transform_matrix().end()),
      ElementsAre(1, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1, 3, 0, 0, 0, 1));
  EXPECT_EQ(state_.render[1].camera().width(), 80u);
}

TEST_F(ServiceTest, CameraFileWithoutSizesIsSeenAtTheSizeAskedFor) {
  const TempDir dir;
  std::ofstream(dir / "transforms_test.json") << R"({"camera_angle_x": 1.5707963267948966,
    "frames": [{"transform_matrix": [[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})";
  std::vector<std::string> args = {
      "render",  "--model", "m",     "--camera", dir / "transforms_test.json",
      "--width", "40",      "--out", dir / "out"};
  const CommandResult half = Run(args);
  EXPECT_EQ(half.exit_code, kBadData) << "a width alone does not give the height";
  EXPECT_THAT(half.err, HasSubstr("--height is needed beside --width"));
  args.insert(args.end(), {"--height", "30"});
  const CommandResult result = Run(args);
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.render.size(), 1u);
  const v1::Camera& camera = state_.render[0].camera();
  EXPECT_EQ(camera.width(), 40u);
  EXPECT_EQ(camera.height(), 30u);
  EXPECT_NEAR(camera.fl_x(), 20, 1e-4) << "90 degrees over 40 pixels";
  EXPECT_EQ(camera.cx(), 20);
  EXPECT_EQ(camera.cy(), 15);
}

TEST_F(ServiceTest, RenderIsRepeatedWhereTheWorkerWasLost) {
  const TempDir dir;
  state_.errors["RenderImage"] = {
      WithReason(absl::UnavailableError("worker lost"), reason::kWorkerLost)};
  EXPECT_EQ(Run({"render", "--model", "m", "--orbit", "1", "--out", dir.path()}).exit_code, kOk);
  EXPECT_GE(state_.render.size(), 2u);
}

// A view that crashes the engine: every attempt costs the worker an engine.
TEST_F(ServiceTest, RenderWhoseWorkerIsLostEveryTimeIsTriedFourTimes) {
  const TempDir dir;
  state_.errors["RenderImage"].assign(
      100, WithReason(absl::UnavailableError("worker lost"), reason::kWorkerLost));
  EXPECT_EQ(Run({"render", "--model", "m", "--orbit", "1", "--out", dir.path()}).exit_code,
            kUnreachable);
  EXPECT_EQ(state_.render.size(), 4u);
}

class RenderWaitTest : public ServiceTest {
 protected:
  // Holds views back until `method` was called n times. `at_call` gets the number of the call, from
  // 1.
  void HoldUntilCalled(const std::string& method, int n, const std::function<void(int)>& at_call) {
    state_.on_call = [=, this](const std::string& called) {
      MutexLock lock(mutex_);
      if (called == method) {
        at_call(++n_calls_);
        changed_.NotifyAll();
      } else if (called == "RenderImage") {
        while (n_calls_ < n) changed_.Wait(mutex_);
      }
    };
  }
  void SetWorker(v1::Worker::State state, const std::string& job) {
    MutexLock lock(state_.mu);
    state_.workers.resize(1);
    state_.workers[0].set_name("workers/w-1");
    state_.workers[0].set_state(state);
    state_.workers[0].set_job(job);
  }
  CommandResult Render(std::vector<std::string> more) {
    std::vector<std::string> args = {"render", "--orbit", "1", "--out", dir_.path()};
    args.insert(args.end(), more.begin(), more.end());
    return Run(args, {.clock = clock_, .notice_delay = absl::Milliseconds(1)});
  }

  const TempDir dir_;
  const Clock* clock_ = nullptr;  // unset: the real one

 private:
  Mutex mutex_;
  CondVar changed_;
  int n_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(RenderWaitTest, SaysWhatItWaitsForAndWhenThatChanges) {
  HoldUntilCalled("ListWorkers", 4, [this](int n) {
    SetWorker(n < 3 ? v1::Worker::BUSY : v1::Worker::IDLE,
              n < 3 ? "projects/default/jobs/j-1" : "");
  });
  const CommandResult result = Render({"mic"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err,
              StartsWith("waiting for worker w-1, which trains j-1; views are "
                         "rendered between its steps\n"
                         "waiting for worker w-1, which loads the model and renders\n"));
  EXPECT_EQ(result.out, "1 view, 1 file in " + dir_.path() + "\n");
}

TEST_F(RenderWaitTest, LongViewsSayHowLongTheyTakeAndWhyTheyAreSlow) {
  v1::Model& model = state_.models.emplace_back();
  model.set_name("projects/default/models/mic");
  model.set_training_job("projects/default/jobs/j-1");
  v1::Job& job = state_.jobs.emplace_back();
  job.set_name("projects/default/jobs/j-1");
  (*job.mutable_training_status()->mutable_progress()->mutable_figures())["occupied_share"] = 0.97;
  FakeClock clock;
  clock_ = &clock;
  HoldUntilCalled("ListWorkers", 4, [&](int) {
    SetWorker(v1::Worker::IDLE, "");
    clock.Advance(absl::Seconds(6));
  });
  const CommandResult result = Render({"mic", "--progress", "plain"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("views are slow because the model is barely trained: 97% of its "
                        "space still counts as occupied"));
  EXPECT_THAT(result.err, HasSubstr("render  0/1 views    0%  this view: 0:06\n"));
}

TEST_F(RenderWaitTest, ProgressInJsonStaysJson) {
  HoldUntilCalled("ListWorkers", 2, [this](int) { SetWorker(v1::Worker::BUSY, ""); });
  const CommandResult result = Render({"mic", "--progress", "json"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  std::istringstream lines(result.err);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_THAT(line, StartsWith(R"({"event":"note","message":"waiting for worker w-1;)"));
  for (; std::getline(lines, line);) EXPECT_THAT(line, StartsWith("{")) << line;
}

TEST_F(RenderWaitTest, JobThatIsRenderedNamesItsWorker) {
  v1::Job& job = state_.jobs.emplace_back();
  job.set_name(kJob);
  job.set_state(J::RUNNING);
  job.add_workers("workers/w-2");
  HoldUntilCalled("GetJob", 2, [](int) {});
  const CommandResult result = Render({"--job", "j-fake"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, StartsWith("waiting for worker w-2, which trains j-fake; "));
}

TEST_F(ServiceTest, RenderMayTakeTenMinutesOrAsLongAsTimeoutSays) {
  const TempDir dir;
  const auto limit_with = [&](std::vector<std::string> args) {
    for (const char* arg : {"render", "--model", "m", "--orbit", "1", "--out"}) {
      args.push_back(arg);
    }
    args.push_back(dir.path());
    EXPECT_EQ(Run(args).exit_code, kOk);
    return absl::ToDoubleMinutes(state_.render_time_left.back());
  };
  EXPECT_NEAR(limit_with({}), 10, 0.5);
  EXPECT_NEAR(limit_with({"--timeout", "30m"}), 30, 0.5);
  EXPECT_NEAR(limit_with({"--timeout", "1m"}), 1, 0.5);
}

TEST_F(ServiceTest, CameraPathOfAnotherProgramNeedsItsDataSet) {
  const TempDir dir;
  dir.Write("path.json", R"({"render_width": 32, "render_height": 16, "camera_path": [
      {"camera_to_world": [1,0,0,0.5, 0,0,-1,-4, 0,1,0,0.25, 0,0,0,1], "fov": 50}]})");
  const std::vector<std::string> render = {"render",          "--model", "m",        "--camera",
                                           dir / "path.json", "--out",   dir / "out"};
  const CommandResult unplaced = Run(render);
  EXPECT_EQ(unplaced.exit_code, kBadData);
  EXPECT_THAT(unplaced.err, HasSubstr("--dataset DIR"));
  std::vector<std::string> placed = render;
  placed.insert(placed.end(), {"--dataset", SourceDir() + "/examples/mic"});
  EXPECT_EQ(Run(placed).exit_code, kOk);
  ASSERT_EQ(state_.render.size(), 1u);
  EXPECT_EQ(state_.render[0].camera().width(), 32u);
  EXPECT_FLOAT_EQ(state_.render[0].camera().transform_matrix(7), -4) << "Blender's own frame";
}

TEST_F(ServiceTest, RenderOfADataSetsFolderSeesItsTestViewsBesideTheirPhotographs) {
  const TempDir dir;
  ImageU8 view{.width = 200, .height = 200, .n_channels = 3, .pixels = {}};
  view.pixels.assign(size_t{200} * 200 * 3, 255);
  state_.rendered_rgb = EncodePng(view).value();
  v1::Job& job = state_.jobs.emplace_back();
  job.set_name("projects/default/jobs/j-1");
  job.mutable_training_status()->mutable_progress()->set_samples(2e6);
  const CommandResult result = Run(
      {"render", "--job", "j-1", "--camera", SourceDir() + "/examples/mic", "--out", dir / "out"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.render.size(), 25u);
  EXPECT_EQ(state_.render[0].camera().width(), 200u);
  EXPECT_TRUE(std::filesystem::exists(dir / "out/rgb_r_0.png")) << "named after its photograph";
  EXPECT_THAT(result.err, HasSubstr("PSNR of 25 views against their photographs: "));
  EXPECT_THAT(result.err, HasSubstr(" dB is low; its likely reasons:\n"
                                    "  - little training (2.0 M samples): --samples 60M\n"));
  EXPECT_THAT(result.err, HasSubstr("`nerfctl scene check " + SourceDir() + "/examples/mic`"));
  const ImageU8 sheet = DecodeImage(dir / "out/compare.png").value();
  EXPECT_EQ(sheet.width, 3 * 200 + 2 * 4);
}

TEST_F(ServiceTest, RenderWithoutACameraAsksForAPathThatSuits) {
  const TempDir dir;
  state_.render_response.set_path(v1::PATH_SPIRAL);
  state_.render_response.set_seen_twice(0.5);
  state_.render_response.set_full_width(4000);
  state_.render_response.set_full_height(3000);
  const CommandResult result = Run({"render", "mic", "--frames", "2", "--out", dir.path()});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.render.size(), 2u);
  EXPECT_THAT(result.err, Not(HasSubstr("far from all training views")));
  EXPECT_EQ(state_.render[0].orbit().path(), v1::PATH_AUTO);
  EXPECT_THAT(result.err,
              HasSubstr("2 views on a spiral around the mean camera, 8x6 (reduced from "
                        "the 4000x3000 of the training; --full-size renders all of it)"));
  EXPECT_THAT(result.err, HasSubstr("warning: 2 of 2 views look where few photographs did (less "
                                    "than 75% of what they show lies in two training views): "
                                    "0000, 0001"));
  EXPECT_EQ(Run({"render", "mic", "--full-size", "--out", dir.path()}).exit_code, kOk);
  EXPECT_EQ(state_.render.size(), 10u);
  EXPECT_TRUE(state_.render.back().orbit().full_size());
}

TEST_F(ServiceTest, CamerasFarFromTheTrainingViewsAreWarnedOf) {
  const TempDir dir;
  std::ofstream(dir / "camera.json") << R"({
    "w": 8, "h": 6, "fl_x": 10,
    "frames": [{"transform_matrix": [[1,0,0,900],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})";
  const std::vector<std::string> args = {"render",  "m",        "--camera", dir / "camera.json",
                                         "--width", "8",        "--height", "6",
                                         "--out",   dir / "out"};
  CommandResult result = Run(args);
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("far from")));
  state_.render_response.set_far_from_cameras(true);
  result = Run(args);
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: 1 of 1 view far from all training views, as cameras "
                                    "of another data set would be: 0000"));
}

TEST_F(ServiceTest, NumberOfFramesIsRefusedWhereItWouldDoNothing) {
  const TempDir dir;
  std::ofstream(dir / "camera.json") << R"({
    "w": 40, "h": 30, "fl_x": 30, "fl_y": 30,
    "frames": [{"transform_matrix": [[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})";
  const CommandResult listed =
      Run({"render", "m", "--camera", dir / "camera.json", "--frames", "5", "--out", dir / "out"});
  EXPECT_EQ(listed.exit_code, kBadData);
  EXPECT_THAT(listed.err, HasSubstr("lists 1 cameras one by one"));
  EXPECT_EQ(Run({"render", "m", "--orbit", "3", "--frames", "5", "--out", dir / "out"}).exit_code,
            kUsage);
  EXPECT_EQ(state_.render.size(), 0u);
}

TEST_F(ServiceTest, CamerasOfMoreThanAMegapixelAreReducedUnlessAskedNotTo) {
  const TempDir dir;
  std::ofstream(dir / "camera.json") << R"({
    "w": 4000, "h": 3000, "fl_x": 3000, "fl_y": 3000,
    "frames": [{"transform_matrix": [[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})";
  std::vector<std::string> args = {"render", "m",        "--camera", dir / "camera.json",
                                   "--out",  dir / "out"};
  const CommandResult reduced = Run(args);
  ASSERT_EQ(reduced.exit_code, kOk) << reduced.err;
  EXPECT_LE(state_.render[0].width() * state_.render[0].height(), 1u << 20);
  EXPECT_GT(state_.render[0].width(), 1000u);
  EXPECT_THAT(reduced.err, HasSubstr("reduced from 4000x3000"));
  args.push_back("--full-size");
  EXPECT_EQ(Run(args).exit_code, kOk);
  EXPECT_EQ(state_.render[1].width(), 0u);
}

TEST_F(ServiceTest, ImagesThatComeAsBlobsAreFetched) {
  const TempDir dir;
  state_.render_in_blobs = true;
  state_.rendered_rgb = "the bytes of a picture";
  const CommandResult result = Run({"render", "mic", "--frames", "1", "--out", dir.path()});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(ReadFile(dir / "rgb_0000.png", 1000).value(), state_.rendered_rgb);
  for (auto& [digest, bytes] : state_.blobs) bytes.back() ^= 1;
  state_.keep_blobs = true;
  EXPECT_EQ(Run({"render", "mic", "--frames", "1", "--out", dir / "out"}).exit_code, kBug);
}

TEST_F(ServiceTest, ViewsBecomeAVideoAndWithoutAFolderTheImagesGo) {
  if (!FindProgram("ffmpeg").ok()) GTEST_SKIP() << "no ffmpeg";
  const TempDir dir;
  ImageU8 view{.width = 64, .height = 48, .n_channels = 3, .pixels = {}};
  view.pixels.assign(size_t{64} * 48 * 3, 200);
  state_.rendered_rgb = EncodePng(view).value();
  const CommandResult result =
      Run({"render", "mic", "--frames", "6", "--fps", "3", "--video", dir / "v.mp4"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(result.out, "6 views in " + (dir / "v.mp4") + "\n");
  EXPECT_GT(std::filesystem::file_size(dir / "v.mp4"), 500u);
  EXPECT_FALSE(std::filesystem::exists(dir / "v.mp4.frames"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("replaced")));
  const CommandResult again = Run({"render", "mic", "--frames", "2", "--video", dir / "v.mp4"});
  EXPECT_THAT(again.err, HasSubstr("v.mp4 is there already and is replaced"));
  // A video that cannot be made leaves its frames.
  const CommandResult failed =
      Run({"render", "mic", "--frames", "2", "--video", dir / "no/v.mp4", "--out", dir / "kept"});
  EXPECT_NE(failed.exit_code, kOk);
  EXPECT_TRUE(std::filesystem::exists(dir / "kept/rgb_0001.png"));
  EXPECT_THAT(failed.err, HasSubstr("the frames are in " + (dir / "kept")));
}

TEST_F(ServiceTest, RenderShowsItsBarBeforeTheFirstViewIsThere) {
  const TempDir dir;
  const CommandResult result = Run({"--progress", "bar", "render", "--job", "j-1", "--orbit", "2",
                                    "--channels", "rgb", "--out", dir / "out"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("render  0/2 views"));
}

TEST_F(ServiceTest, RenderThatFailsLeavesNoPartOfAView) {
  const TempDir dir;
  state_.errors["RenderImage"] = {
      WithReason(absl::FailedPreconditionError("no checkpoint yet"), reason::kStateConflict)};
  const CommandResult result = Run(
      {"render", "--job", "j-1", "--orbit", "1", "--channels", "rgb,depth", "--out", dir / "out"});
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_EQ(result.err, "nerfctl: no checkpoint yet (STATE_CONFLICT)\n");
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  // Nor the folders above one that was to be made.
  state_.errors["RenderImage"] = {absl::FailedPreconditionError("no checkpoint yet")};
  state_.on_call = [&](const std::string&) { EXPECT_FALSE(std::filesystem::exists(dir / "deep")); };
  Run({"render", "--job", "j-1", "--orbit", "1", "--out", dir / "deep/out"});
  state_.on_call = nullptr;
  EXPECT_FALSE(std::filesystem::exists(dir / "deep"));
  // A folder that was there stays.
  std::filesystem::create_directory(dir / "mine");
  state_.errors["RenderImage"] = {
      WithReason(absl::FailedPreconditionError("no checkpoint yet"), reason::kStateConflict)};
  Run({"render", "--job", "j-1", "--orbit", "1", "--out", dir / "mine"});
  EXPECT_TRUE(std::filesystem::is_empty(dir / "mine"));
}

}  // namespace
}  // namespace nerf
