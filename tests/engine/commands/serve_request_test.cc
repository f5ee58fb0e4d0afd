#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "common/file_io.h"
#include "engine/protocol/scene_views.h"
#include "engine/scene/camera_file.h"
#include "engine/scene/image_io.h"
#include "engine/scene/scene_reader.h"
#include "fmt/format.h"
#include "tests/engine/commands/serve_loop_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// A frame of a live view, of the job in training or of a file.
Json ServedLiveFrame(Json render) {
  render["live"] = true;
  render["format"] = "jpeg";
  render["jpeg_quality"] = 40;
  return render;
}

// Renders and checks, alone and during a training.
class ServeRequestTest : public ServeLoopTest {
 protected:
  // A picture that takes minutes.
  Json HugeRender(const std::string& id, const std::string& job) {
    Json render = RenderMessage(id);
    render["job"] = job;
    render["width"] = 3000;
    render["height"] = 3000;
    return render;
  }

  // A data set that takes minutes to decode: one picture, listed many times.
  Json HugeCheck(const std::string& id) {
    const std::string folder = dir_ / "huge";
    std::filesystem::create_directory(folder);
    ImageU8 image{2000, 2000, 3, std::vector<uint8_t>(2000 * 2000 * 3)};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = (i * 2654435761u) >> 24;
    EXPECT_THAT(WritePng(folder + "/0000.png", image), IsOk());
    Json frames = Json::array();
    for (int i = 0; i < 5000; ++i) {
      const std::string file = fmt::format("{:04}.png", i);
      if (i > 0) std::filesystem::create_hard_link(folder + "/0000.png", folder + "/" + file);
      frames.push_back(
          {{"file_path", file},
           {"transform_matrix", {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 4}, {0, 0, 0, 1}}}});
    }
    std::ofstream(folder + "/transforms.json")
        << Json{{"w", 2000}, {"h", 2000}, {"fl_x", 2000}, {"frames", frames}}.dump();
    return {{"type", "check"}, {"id", id}, {"dataset", folder}};
  }

  // Waits until two progress messages have the same step: a request then runs between two steps.
  void WaitUntilARequestIsAtWork() {
    int before = -1;
    for (int step = ReceiveProgress()["step"]; step != before; step = ReceiveProgress()["step"])
      before = step;
  }

  // Waits until the job has taken another step. Only progress messages may come.
  void ExpectStepsAreTaken() {
    const Json before = ReceiveProgress();
    Json after = ReceiveProgress();
    while (!HasFailure() && after.value("step", 0) <= before.value("step", 0))
      after = ReceiveProgress();
  }
  Json ReceiveProgress() {
    Json message = Receive();
    EXPECT_EQ(message["type"], "progress") << message;
    return message;
  }

  // Cancels a running request.
  void CancelAtWork(const std::string& id) {
    Send({{"type", "cancel"}, {"id", id}});
    Json answer = ReceiveAnswer();
    while (answer["type"] == "working") answer = ReceiveAnswer();
    EXPECT_EQ(answer["type"], "error") << answer;
    EXPECT_EQ(answer["id"], id);
    EXPECT_EQ(answer["code"], "CANCELLED");
    EXPECT_NE(answer["message"].get<std::string>().find("was stopped"), std::string::npos)
        << answer << " had not begun";
  }
};

TEST_F(ServeRequestTest, RendersTheJobInTrainingBetweenItsSteps) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Json render = RenderMessage("r1");
  render["job"] = "j";
  Send(render);
  const Json rendered = ReceiveAnswer();
  ASSERT_EQ(rendered["type"], "rendered") << rendered;
  EXPECT_EQ(rendered["id"], "r1");
  EXPECT_EQ(rendered["width"], 16);
  EXPECT_EQ(rendered["height"], 12);
  EXPECT_GT(rendered["far"], 0);
  EXPECT_EQ(rendered["files"].size(), 3u);
  for (const auto& [channel, path] : rendered["files"].items()) {
    const auto image = DecodeImage(path.get<std::string>());
    ASSERT_THAT(image, IsOk()) << channel;
    EXPECT_EQ(image->width, 16);
  }
  render["job"] = "other";
  Send(render);
  EXPECT_EQ(ReceiveAnswer()["reason"], "STATE_CONFLICT") << "as a job's that has ended";
}

TEST_F(ServeRequestTest, LargeRenderLetsTheTrainingGoOnAndCanBeCancelled) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeRender("r1", "j"));
  for (int i = 0; i < 3; ++i) ExpectStepsAreTaken();
  CancelAtWork("r1");
  ExpectStepsAreTaken();
}

TEST_F(ServeRequestTest, RenderBehindALargeOneIsAnsweredWhenItIsCancelled) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeRender("r1", "j"));
  Send(HugeRender("r2", "j"));
  ExpectStepsAreTaken();
  Send({{"type", "cancel"}, {"id", "r2"}});
  const Json answer = ReceiveAnswer();
  EXPECT_EQ(answer["id"], "r2");
  EXPECT_EQ(answer["code"], "CANCELLED");
  CancelAtWork("r1");
}

TEST_F(ServeRequestTest, SecondRenderOfAnIdIsRefusedAndTheFirstGoesOn) {
  Json huge = HugeRender("r1", "");
  huge.erase("job");
  huge["file"] = TrainToTheEnd("j", 5)["model"];
  Send(huge);
  EXPECT_EQ(ReceiveAnswer()["type"], "working");
  const auto next = [&] {
    Json message = ReceiveAnswer();
    while (message["type"] == "working") message = ReceiveAnswer();
    return message;
  };
  Json second = RenderMessage("r1");
  second["file"] = huge["file"];
  Send(second);
  // Answered in its turn: behind the render at work.
  CancelAtWork("r1");
  const Json refused = next();
  EXPECT_EQ(refused["type"], "error") << refused;
  EXPECT_EQ(refused["code"], "ALREADY_EXISTS");
  Send(second);
  EXPECT_EQ(next()["type"], "rendered") << "the id is free again";
}

// One that a live frame has interrupted keeps the memory of its picture.
TEST_F(ServeRequestTest, CancelOfASuspendedRenderIsAnsweredAtOnce) {
  Json huge = HugeRender("r1", "");
  huge.erase("job");
  huge["file"] = TrainToTheEnd("j", 5)["model"];
  Send(huge);
  EXPECT_EQ(ReceiveAnswer()["type"], "working");
  Json live = ServedLiveFrame(huge);
  live["id"] = "live";
  Send(live);
  Json working = ReceiveAnswer();
  while (working["id"] != "live") working = ReceiveAnswer();
  CancelAtWork("r1");
  CancelAtWork("live");
  ExpectAlive();
}

TEST_F(ServeRequestTest, StopDoesNotWaitForTheRenderAtWorkWhichGoesOn) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeRender("r1", "j"));
  ExpectStepsAreTaken();
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "checkpoint"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "checkpoint");
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
  const Json working = Receive();
  EXPECT_EQ(working["type"], "working");
  EXPECT_EQ(working["id"], "r1");
  CancelAtWork("r1");
  ExpectAlive();
}

TEST_F(ServeRequestTest, JobDoesNotWaitForTheRenderAtWork) {
  Json render = HugeRender("r1", "");
  render.erase("job");
  render["file"] = TrainToTheEnd("j", 5)["model"];
  Send(render);
  EXPECT_EQ(Receive()["type"], "working");
  Send(TrainMessage("k", 1e9));
  Json started = Receive();
  while (started["type"] == "working") started = Receive();
  EXPECT_EQ(started["type"], "started") << started;
  ExpectStepsAreTaken();
  CancelAtWork("r1");
}

// The render takes longer than the second that it may take at once.
TEST_F(ServeRequestTest, RenderThatATrainingInterruptsHasTheSameBytes) {
  const Json done = TrainToTheEnd("j", 20);
  Json render = RenderMessage("r1");
  render["file"] = done["model"];
  render["width"] = 400;
  render["height"] = 300;
  const auto bytes_of = [&] {
    Send(render);
    Json rendered = ReceiveAnswer();
    while (rendered["type"] == "working") rendered = ReceiveAnswer();
    EXPECT_EQ(rendered["type"], "rendered") << rendered;
    return ReadFile(rendered["files"]["rgb"].get<std::string>(), 1 << 20).value_or("none");
  };
  const std::string idle = bytes_of();
  Send(TrainMessage("k", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  render["id"] = "r2";
  EXPECT_TRUE(bytes_of() == idle);
}

TEST_F(ServeRequestTest, CheckAtWorkSaysThatTheJobLivesAndCanBeCancelled) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeCheck("c1"));
  WaitUntilARequestIsAtWork();
  CancelAtWork("c1");
  ExpectStepsAreTaken();
}

TEST_F(ServeRequestTest, StopDoesNotWaitForTheCheckAtWorkWhichIsBegunAgain) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeCheck("c1"));
  WaitUntilARequestIsAtWork();
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "checkpoint"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "checkpoint");
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
  const Json working = ReceiveAnswer();
  EXPECT_EQ(working["type"], "working");
  EXPECT_EQ(working["id"], "c1");
  CancelAtWork("c1");
}

TEST_F(ServeRequestTest, StopOfAJobThatReadsItsDatasetIsHeard) {
  const Json check = HugeCheck("c1");
  Json train = TrainMessage("j", 1e9);
  train["dataset"] = check["dataset"];
  Send(train);
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "checkpoint"}});
  const Json stopped = Receive();
  EXPECT_EQ(stopped["type"], "stopped") << stopped;
  EXPECT_EQ(stopped["job"], "j");
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "j"));
  ExpectAlive();
}

TEST_F(ServeRequestTest, LiveFrameIsAnsweredBeforeTheRenderAtWorkWhichThenGoesOn) {
  const Json done = TrainToTheEnd("j", 5);
  Json huge = HugeRender("r1", "");
  huge.erase("job");
  huge["file"] = done["model"];
  Send(huge);
  EXPECT_EQ(ReceiveAnswer()["type"], "working");
  for (const char* id : {"live1", "live2"}) {
    Json live = ServedLiveFrame(RenderMessage(id));
    live["file"] = done["model"];
    Send(live);
    Json rendered = ReceiveAnswer();
    while (rendered["type"] == "working") rendered = ReceiveAnswer();
    ASSERT_EQ(rendered["type"], "rendered") << rendered;
    EXPECT_EQ(rendered["id"], id);
    EXPECT_EQ(rendered["files"].size(), 3u);
    for (const auto& [channel, path] : rendered["files"].items()) {
      const std::string bytes = ReadFile(path.get<std::string>(), 1 << 20).value_or("none");
      const auto header = ParseImageHeader(bytes);
      ASSERT_THAT(header, IsOk()) << channel;
      EXPECT_EQ(header->format, ImageFormat::kJpeg) << channel;
      EXPECT_EQ(header->width, 16) << channel;
    }
  }
  const Json working = ReceiveAnswer();
  EXPECT_EQ(working["type"], "working") << working;
  EXPECT_EQ(working["id"], "r1");
  CancelAtWork("r1");
  ExpectAlive();
}

TEST_F(ServeRequestTest, RenderThatLiveFramesInterruptHasTheSameBytes) {
  const Json done = TrainToTheEnd("j", 20);
  Json render = RenderMessage("r1");
  render["file"] = done["model"];
  render["width"] = 120;
  render["height"] = 90;
  const auto bytes_of = [&](const Json& rendered) {
    EXPECT_EQ(rendered["type"], "rendered") << rendered;
    return ReadFile(rendered["files"]["rgb"].get<std::string>(), 1 << 20).value_or("none");
  };
  const auto next = [&] {
    Json message = ReceiveAnswer();
    while (message["type"] == "working") message = ReceiveAnswer();
    return message;
  };
  Send(render);
  const std::string alone = bytes_of(next());
  render["id"] = "r2";
  Send(render);
  Json live = ServedLiveFrame(RenderMessage("live"));
  live["file"] = done["model"];
  std::string interrupted;
  // Until the render is done, live frames come one after another.
  for (int i = 0; i < 3 || interrupted.empty(); ++i) {
    live["id"] = "live" + std::to_string(i);
    Send(live);
    for (Json answer = next(); answer["id"] != live["id"]; answer = next()) {
      ASSERT_EQ(answer["id"], "r2") << answer;
      interrupted = bytes_of(answer);
    }
  }
  EXPECT_TRUE(interrupted == alone);
}

TEST_F(ServeRequestTest, PixelsShowFourRaysOfAModelThatHasThemUnlessTheCameraMoves) {
  const auto trained = [&](const std::string& job, const char* rays_per_pixel) {
    Json train = TrainMessage(job, 20);
    train["settings"]["rays_per_pixel"] = rays_per_pixel;
    Send(train);
    Json answer = ReceiveAnswer();
    while (answer["type"] != "done" && !HasFailure()) {
      EXPECT_NE(answer["type"], "error") << answer;
      answer = ReceiveAnswer();
    }
    return answer;
  };
  const auto picture = [&](const Json& done, bool moving) {
    Json render = RenderMessage("r");
    render["file"] = done["model"];
    render["moving"] = moving;
    Send(render);
    const Json rendered = ReceiveAnswer();
    EXPECT_EQ(rendered["type"], "rendered") << rendered;
    return ReadFile(rendered["files"]["rgb"].get<std::string>(), 1 << 20).value_or("none");
  };
  const Json four = trained("four", "4"), one = trained("one", "1");
  EXPECT_FALSE(picture(four, false) == picture(four, true));
  EXPECT_TRUE(picture(one, false) == picture(one, true));
}

TEST_F(ServeRequestTest, LiveFramesOfAJobShareWeightsForASecondAndLaterOnesAreNewer) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Json live = ServedLiveFrame(RenderMessage("live"));
  live["job"] = "j";
  const auto step_of_frame = [&] {
    Send(live);
    const Json rendered = ReceiveAnswer();
    EXPECT_EQ(rendered["type"], "rendered") << rendered;
    return rendered.value("step", 0);
  };
  const SteadyTime begin = RealClock().Now();
  const int first = step_of_frame();
  std::set<int> steps = {first};
  int last = first;
  while (!HasFailure() && last == first) steps.insert(last = step_of_frame());
  EXPECT_GT(last, first);
  // At most one copy of the weights a second.
  const double seconds = absl::ToDoubleSeconds(RealClock().Now() - begin);
  EXPECT_LE(static_cast<double>(steps.size()), 2 + seconds);
}

TEST_F(ServeRequestTest, RenderWhoseWeightsCannotBeLoadedIsAnsweredAndTheJobGoesOn) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Json render = RenderMessage("r1");
  render["file"] = dir_ / "none.safetensors";
  Send(render);
  const Json answer = ReceiveAnswer();
  EXPECT_EQ(answer["id"], "r1");
  EXPECT_EQ(answer["code"], "NOT_FOUND") << answer;
  ExpectStepsAreTaken();
}

TEST_F(ServeRequestTest, RenderWithoutAJobSaysThatItIsAtWork) {
  const Json done = TrainToTheEnd("j", 5);
  Json render = HugeRender("r1", "");
  render.erase("job");
  render["file"] = done["model"];
  Send(render);
  for (int i = 0; i < 2; ++i) {
    const Json working = ReceiveAnswer();
    EXPECT_EQ(working["type"], "working") << working;
    EXPECT_EQ(working["id"], "r1");
  }
  CancelAtWork("r1");
}

TEST_F(ServeRequestTest, RendersModelFilesWithAndWithoutTraining) {
  const Json done = TrainToTheEnd("j", 20);
  Json render = RenderMessage("r1");
  render["file"] = done["model"];
  render["format"] = "jpeg";
  render["channels"] = {"rgb"};
  Send(render);
  const Json idle = ReceiveAnswer();
  ASSERT_EQ(idle["type"], "rendered") << idle;
  EXPECT_EQ(idle["step"], 20);
  EXPECT_EQ(idle["far"], 0);
  EXPECT_THAT(DecodeImage(idle["files"]["rgb"].get<std::string>()), IsOk());

  Send(TrainMessage("k", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  render["id"] = "../../evil id";
  render["format"] = "png";
  Send(render);
  const Json busy = ReceiveAnswer();
  ASSERT_EQ(busy["type"], "rendered") << busy;
  EXPECT_EQ(busy["files"]["rgb"], dir_ / "renders/______evil_id_rgb.png");
}

TEST_F(ServeRequestTest, ModelAndCheckpointRenderTheSameBytes) {
  const Json done = TrainToTheEnd("j", 20);
  std::vector<std::string> pictures;
  for (const char* key : {"model", "checkpoint"}) {
    Json render = RenderMessage(key);
    render["file"] = done[key];
    Send(render);
    const Json rendered = ReceiveAnswer();
    ASSERT_EQ(rendered["type"], "rendered") << rendered;
    const auto bytes = ReadFile(rendered["files"]["rgb"].get<std::string>(), 1 << 20);
    ASSERT_THAT(bytes, IsOk());
    pictures.push_back(*bytes);
  }
  EXPECT_TRUE(pictures[0] == pictures[1]);
}

TEST_F(ServeRequestTest, RendersTheCameraOfACameraFile) {
  const Json done = TrainToTheEnd("j", 20);
  Json render = RenderMessage("r");
  render.erase("orbit");
  render["file"] = done["model"];
  render["width"] = render["height"] = 0;
  render["camera"] = Json::parse(
      R"({"w":10,"h":8,"fl_x":12,"fl_y":12,"cx":5,"cy":4,
          "frames":[{"transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}]})");
  Send(render);
  const Json rendered = ReceiveAnswer();
  ASSERT_EQ(rendered["type"], "rendered") << rendered;
  EXPECT_EQ(rendered["width"], 10);
  EXPECT_EQ(rendered["height"], 8);
  EXPECT_FALSE(rendered.contains("far_from_cameras"));
  render["camera"]["frames"][0]["transform_matrix"][0][3] = 900;
  Send(render);
  EXPECT_EQ(ReceiveAnswer()["far_from_cameras"], true);
  render["camera"]["frames"].push_back(render["camera"]["frames"][0]);
  Send(render);
  EXPECT_EQ(ReceiveAnswer()["code"], "INVALID_ARGUMENT") << "two frames are two views";
}

TEST_F(ServeRequestTest, CheckWithAFolderListsTheViewsThere) {
  Send({{"type", "check"}, {"id", "c"}, {"dataset", dataset_}, {"out", dir_ / "described"}});
  const Json checked = ReceiveAnswer();
  ASSERT_EQ(checked["type"], "checked") << checked;
  ASSERT_EQ(checked["ok"], true) << checked;
  const auto text = ReadFile(checked["views"], 1 << 20);
  ASSERT_THAT(text, IsOk());
  const auto views = protocol::ParseSceneViews(*text);
  ASSERT_THAT(views, IsOk());
  const absl::StatusOr<Scene> scene = LoadScene(dataset_);
  ASSERT_THAT(scene, IsOk());
  ASSERT_EQ(views->size(), scene->train.size() + scene->test.size());
  for (size_t i = 0; i < views->size(); ++i) {
    const bool is_test = i < scene->test.size();
    const View& view = is_test ? scene->test[i] : scene->train[i - scene->test.size()];
    EXPECT_EQ((*views)[i].is_test, is_test);
    EXPECT_EQ((*views)[i].file, view.file);
    EXPECT_EQ((*views)[i].width, static_cast<uint32_t>(view.image.width));
    const Camera own = ToOwnFrame(view.camera, scene->geometry.frame);
    EXPECT_NEAR((*views)[i].matrix[3], own.camera_to_world.m[0][3], 1e-5);
    EXPECT_NEAR((*views)[i].matrix[10], own.camera_to_world.m[2][2], 1e-5);
  }
}

TEST_F(ServeRequestTest, CheckReportsProblems) {
  std::filesystem::create_directory(dir_ / "empty");
  Send({{"type", "check"}, {"id", "c"}, {"dataset", dir_ / "empty"}});
  const Json checked = ReceiveAnswer();
  EXPECT_EQ(checked["type"], "checked");
  EXPECT_EQ(checked["ok"], false);
  EXPECT_FALSE(checked["problems"].empty());
  EXPECT_TRUE(checked["warnings"].is_array());
}

}  // namespace
}  // namespace nerf
