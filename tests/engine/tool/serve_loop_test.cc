#include "engine/tool/serve_loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/error_reason.h"
#include "common/file_io.h"
#include "engine/kernels/cuda/device.h"
#include "engine/scene/image_io.h"
#include "engine/tool/engine_runner.h"
#include "fmt/format.h"
#include "tests/engine/tool/ball_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

// The CPU, until it breaks as a CUDA device does: then nothing can be loaded any more.
class BreakableDevice final : public RenderDevice {
 public:
  explicit BreakableDevice(ThreadPool* pool, const std::atomic<bool>* broken)
      : cpu_(NewCpuRenderDevice(pool)), broken_(broken) {}
  std::unique_ptr<SceneRenderer> Load(TrainedModel model, const SceneGeometry& geometry,
                                      RenderPrecision precision) override {
    if (*broken_) throw kernels::cuda::CudaError("an illegal memory access was encountered");
    return cpu_->Load(std::move(model), geometry, precision);
  }

 private:
  const std::unique_ptr<RenderDevice> cpu_;
  const std::atomic<bool>* const broken_;
};

// A ServeLoop on its own thread, and the worker's end of its socket.
class ServeLoopTest : public ::testing::Test {
 protected:
  ServeLoopTest() {
    WriteBallDataset(dataset_);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) std::abort();
    engine_fd_ = fds[0];
    fd_ = fds[1];
    const timeval patience = {120, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    thread_ = std::thread([this] {
      const RealClock clock;
      ThreadPool pool(1);
      ServeOptions options;
      options.fd = engine_fd_;
      options.exit_grace = absl::InfiniteDuration();
      BreakableDevice device(&pool, &broken_);
      ended_ = ServeLoop(options, &device, &pool, &clock).Run();
    });
    EXPECT_EQ(Receive()["type"], "hello");
  }

  ~ServeLoopTest() override {
    End();
    close(engine_fd_);
  }

  // The worker goes away; returns when the loop has ended.
  void End() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    if (thread_.joinable()) thread_.join();
  }

  void SendRaw(const std::string& bytes) {
    LineSocket socket(fd_);
    ASSERT_TRUE(socket.Write(bytes));
  }
  void Send(const Json& message) { SendRaw(message.dump() + "\n"); }

  Json Receive() {
    size_t newline;
    while ((newline = received_.find('\n')) == std::string::npos) {
      char buffer[65536];
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) {
        ADD_FAILURE() << "nothing came";
        return Json::object();
      }
      received_.append(buffer, static_cast<size_t>(n));
    }
    const std::string line = received_.substr(0, newline);
    received_.erase(0, newline + 1);
    EXPECT_LE(line.size(), kMaxLineBytes);
    Json message = Json::parse(line, nullptr, false);
    EXPECT_TRUE(message.is_object()) << line;
    return message;
  }

  // The next message that is no progress or preview.
  Json ReceiveAnswer() {
    while (true) {
      Json message = Receive();
      const std::string type = message.value("type", "");
      if (type != "progress" && type != "preview") return message;
    }
  }

  // The types of all messages that come before the engine hangs up.
  std::vector<std::string> ReceiveToTheEnd() {
    char buffer[65536];
    while (true) {
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      EXPECT_GE(n, 0) << "it did not hang up";
      if (n <= 0) break;
      received_.append(buffer, static_cast<size_t>(n));
    }
    std::vector<std::string> types;
    std::istringstream lines(received_);
    for (std::string line; std::getline(lines, line);)
      types.push_back(Json::parse(line, nullptr, false).value("type", ""));
    return types;
  }

  Json TrainMessage(const std::string& job, double steps) {
    return {{"type", "train"},
            {"job", job},
            {"dataset", dataset_},
            {"out", dir_ / job},
            {"method", "ngp"},
            {"seed", 3},
            {"budget", {{"kind", "steps"}, {"amount", steps}}},
            {"settings",
             {{"log2_hashmap_size", "12"},
              {"grid_resolution", "32"},
              {"target_samples", "512"},
              {"initial_rays", "64"},
              {"warmup_steps", "10"},
              {"step", "0.05"}}}};
  }

  Json RenderMessage(const std::string& id) {
    return {{"type", "render"},
            {"id", id},
            {"orbit", {{"index", 1}, {"count", 4}}},
            {"width", 16},
            {"height", 12},
            {"channels", {"rgb", "depth", "opacity"}},
            {"format", "png"},
            {"out", dir_ / "renders"}};
  }

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

  // Until progress that does not move tells of one beside a job. Returns it.
  Json WaitUntilARequestIsAtWork() {
    Json before = Receive();
    for (Json now = Receive(); now.value("step", -1) != before.value("step", -2); now = Receive()) {
      before = now;
    }
    return before;
  }

  // The request keeps the job's steps, not its progress messages, until it is cancelled.
  void ExpectAtWorkBesideAJobUntilCancelled(const std::string& id) {
    const Json before = WaitUntilARequestIsAtWork();
    Send({{"type", "cancel"}, {"id", id}});
    const Json answer = ReceiveAnswer();
    EXPECT_EQ(answer["type"], "error");
    EXPECT_EQ(answer["id"], id);
    EXPECT_EQ(answer["code"], "CANCELLED") << answer;
    Json after = Receive();
    while (after.value("type", "") != "progress") after = Receive();
    EXPECT_GT(after["step"], before["step"]);
  }

  // Trains a job to its end; returns its "done".
  Json TrainToTheEnd(const std::string& job, double steps) {
    Send(TrainMessage(job, steps));
    EXPECT_EQ(ReceiveAnswer()["type"], "started");
    EXPECT_EQ(ReceiveAnswer()["type"], "checkpoint");
    Json done = ReceiveAnswer();
    EXPECT_EQ(done["type"], "done") << done;
    return done;
  }

  // A request that must still be answered after whatever came before.
  void ExpectAlive() {
    Send({{"type", "check"}, {"id", "alive"}, {"dataset", dataset_}});
    const Json answer = ReceiveAnswer();
    EXPECT_EQ(answer["type"], "checked") << answer;
    EXPECT_EQ(answer["id"], "alive");
    EXPECT_EQ(answer["ok"], true) << answer;
  }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
  int engine_fd_ = -1, fd_ = -1;
  std::atomic<bool> broken_ = false;
  absl::Status ended_ = absl::UnknownError("not ended");  // written before thread_ ends
  std::thread thread_;
  std::string received_;
};

TEST_F(ServeLoopTest, TrainsToTheEndWithEveryMessageInOrder) {
  Send(TrainMessage("j1", 30));
  const Json started = Receive();
  EXPECT_EQ(started["type"], "started");
  EXPECT_EQ(started["job"], "j1");
  EXPECT_EQ(started["config"]["seed"], 3);
  EXPECT_EQ(started["config"]["budget"]["kind"], "steps");
  EXPECT_EQ(started["config"]["settings"]["target_samples"], "512");
  EXPECT_EQ(started["config"]["settings"]["learning_rate"],
            ConfigSettings(TrainConfig())["learning_rate"])
      << "defaults are echoed";
  EXPECT_EQ(started["scene"]["flavour"], "blender");
  EXPECT_EQ(started["scene"]["train"], 6);
  EXPECT_EQ(started["scene"]["test"], 2);
  EXPECT_EQ(started["step"], 0);

  Json message = Receive();
  while (message["type"] == "progress" || message["type"] == "preview") {
    if (message["type"] == "progress") {
      for (const char* key :
           {"step", "samples", "marched", "rays", "loss", "psnr_train", "seconds",
            "samples_per_second", "rays_per_second", "stall_fraction", "fraction", "eta_seconds"}) {
        EXPECT_TRUE(message[key].is_number()) << key;
      }
    }
    message = Receive();
  }
  EXPECT_EQ(message["type"], "checkpoint");
  EXPECT_EQ(message["step"], 30);
  EXPECT_TRUE(message["psnr"].is_number());
  bool has_table = false;
  for (const Json& tensor : message["tensors"]) {
    if (tensor["name"] == "field.hash_table") {
      has_table = true;
      EXPECT_EQ(tensor["dtype"], "F16");
      EXPECT_EQ(tensor["shape"], Json({8, 4096, 4}));
    }
  }
  EXPECT_TRUE(has_table);
  ThreadPool pool(1);
  const auto device = NewCpuRenderDevice(&pool);
  const auto model = LoadModelFile(message["model"].get<std::string>(), device.get());
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->kind, TrainFileKind::kModel);
  EXPECT_EQ(model->state.step, 30u);
  ASSERT_THAT(ReadTensorFile(message["checkpoint"].get<std::string>()), IsOk());

  const Json done = ReceiveAnswer();
  EXPECT_EQ(done["type"], "done");
  EXPECT_EQ(done["step"], 30);
  EXPECT_TRUE(done["psnr"].is_number());
  EXPECT_GT(done["peak_rss_bytes"], 1 << 20);
  ExpectAlive();
}

TEST_F(ServeLoopTest, ABrokenDeviceEndsTheEngineWithAnErrorInsteadOfAnAnswer) {
  const Json done = TrainToTheEnd("j", 5);
  broken_ = true;
  Json render = RenderMessage("r");
  render["file"] = done["model"];
  Send(render);
  EXPECT_EQ(ReceiveToTheEnd(), std::vector<std::string>());
  End();
  EXPECT_THAT(ended_, FailsWith(absl::StatusCode::kInternal, reason::kGpuFailed));
}

TEST_F(ServeLoopTest, ADeviceThatBreaksInTrainingEndsTheEngineAndFailsNoJob) {
  Send(TrainMessage("j", 1e9));
  EXPECT_EQ(ReceiveAnswer()["type"], "started");
  broken_ = true;
  Json render = RenderMessage("r");
  render["job"] = "j";
  Send(render);
  for (const std::string& type : ReceiveToTheEnd())
    EXPECT_TRUE(type == "progress" || type == "preview") << type;
  End();
  EXPECT_THAT(ended_, FailsWith(absl::StatusCode::kInternal, reason::kGpuFailed));
}

TEST_F(ServeLoopTest, StopWithCheckpointWritesOneFirst) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "checkpoint"}});
  const Json checkpoint = ReceiveAnswer();
  ASSERT_EQ(checkpoint["type"], "checkpoint") << checkpoint;
  EXPECT_THAT(ReadTensorFile(checkpoint["checkpoint"].get<std::string>()), IsOk());
  const Json stopped = ReceiveAnswer();
  EXPECT_EQ(stopped["type"], "stopped");
  EXPECT_EQ(stopped["step"], checkpoint["step"]);
}

TEST_F(ServeLoopTest, CheckpointOnTheWayContinuesToTheSameBytes) {
  Json train = TrainMessage("whole", 60);
  train["checkpoint_interval_seconds"] = 0.001;  // after each of the first steps
  Send(train);
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  const Json first = ReceiveAnswer();
  ASSERT_EQ(first["type"], "checkpoint") << first;
  ASSERT_LT(first["step"], 60);
  for (Json message = first; message["type"] != "done"; message = ReceiveAnswer()) {
    ASSERT_EQ(message["type"], "checkpoint") << message;
  }
  const auto expected = ReadFile(dir_ / "whole/checkpoint_00000060.safetensors", 1 << 30);
  ASSERT_THAT(expected, IsOk());

  Json resume = TrainMessage("part", 1);  // budget and the rest come from the checkpoint
  resume["resume"] = first["checkpoint"];
  Send(resume);
  const Json started = ReceiveAnswer();
  ASSERT_EQ(started["type"], "started") << started;
  EXPECT_EQ(started["step"], first["step"]);
  EXPECT_EQ(started["config"]["budget"]["amount"], 60);
  ASSERT_EQ(ReceiveAnswer()["type"], "checkpoint");
  ASSERT_EQ(ReceiveAnswer()["type"], "done");
  const auto bytes = ReadFile(dir_ / "part/checkpoint_00000060.safetensors", 1 << 30);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_TRUE(*bytes == *expected);
}

// A checkpoint is due after every step, so the last step's is written before the end comes.
TEST_F(ServeLoopTest, EachStepIsCheckpointedOnceAndDoneComesBehindTheLast) {
  Json train = TrainMessage("j", 5);
  train["checkpoint_interval_seconds"] = 0.001;
  train["settings"]["target_samples"] = "8192";  // a step then takes longer than the interval
  train["settings"]["initial_rays"] = "1024";
  Send(train);
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  std::vector<int> steps;
  Json message = ReceiveAnswer();
  for (; message["type"] == "checkpoint"; message = ReceiveAnswer()) {
    steps.push_back(message["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3, 4, 5}));
  ASSERT_EQ(message["type"], "done") << message;
  EXPECT_EQ(message["checkpoint"], dir_ / "j/checkpoint_00000005.safetensors");
  EXPECT_EQ(message["model"], dir_ / "j/model_00000005.safetensors");
}

// The step it goes on from has no checkpoint message of this run yet.
TEST_F(ServeLoopTest, StopBeforeTheFirstStepOfAResumeStillWritesACheckpoint) {
  const Json done = TrainToTheEnd("j", 20);
  Json resume = TrainMessage("k", 1);
  resume["resume"] = done["checkpoint"];
  SendRaw(resume.dump() + "\n" + R"({"type":"stop","job":"k","mode":"checkpoint"})" + "\n");
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  const Json checkpoint = ReceiveAnswer();
  ASSERT_EQ(checkpoint["type"], "checkpoint") << checkpoint;
  EXPECT_EQ(checkpoint["step"], 20);
}

TEST_F(ServeLoopTest, StopWithDiscardWritesNothing) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "discard"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "j"));
  ExpectAlive();
}

TEST_F(ServeLoopTest, StopSentRightBehindTrainStopsIt) {
  SendRaw(TrainMessage("j", 1e9).dump() + "\n" + R"({"type":"stop","job":"j","mode":"discard"})" +
          "\n");
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
}

TEST_F(ServeLoopTest, SecondJobIsBusyAndTheFirstGoesOn) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(TrainMessage("k", 10));
  const Json busy = ReceiveAnswer();
  EXPECT_EQ(busy["type"], "error");
  EXPECT_EQ(busy["job"], "k");
  EXPECT_EQ(busy["reason"], "BUSY");
  EXPECT_EQ(busy["code"], "FAILED_PRECONDITION");
  Send({{"type", "stop"}, {"job", "k"}, {"mode", "discard"}});
  EXPECT_EQ(ReceiveAnswer()["code"], "NOT_FOUND");
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "discard"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
}

TEST_F(ServeLoopTest, CheckpointsComeAtTheirIntervalAndPreviewsToo) {
  Json train = TrainMessage("j", 1e9);
  train["checkpoint_interval_seconds"] = 0.01;
  train["preview_interval_seconds"] = 0.01;
  Send(train);
  int n_checkpoints = 0, n_previews = 0;
  while (n_checkpoints < 2 || n_previews < 2) {
    const Json message = Receive();
    ASSERT_TRUE(message["type"].is_string());
    if (message["type"] == "checkpoint") ++n_checkpoints;
    if (message["type"] == "preview") {
      ++n_previews;
      EXPECT_TRUE(message["psnr"].is_number());
      EXPECT_THAT(DecodeImage(message["image"].get<std::string>()), IsOk());
    }
  }
}

TEST_F(ServeLoopTest, RendersTheJobInTrainingBetweenItsSteps) {
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
  EXPECT_EQ(ReceiveAnswer()["code"], "NOT_FOUND");
}

TEST_F(ServeLoopTest, RenderAtWorkSaysThatTheJobLivesAndCanBeCancelled) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeRender("r1", "j"));
  ExpectAtWorkBesideAJobUntilCancelled("r1");
}

TEST_F(ServeLoopTest, StopDoesNotWaitForTheRenderAtWork) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeRender("r1", "j"));
  WaitUntilARequestIsAtWork();
  Send({{"type", "stop"}, {"job", "j"}, {"mode", "checkpoint"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "checkpoint");
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
  const Json answer = ReceiveAnswer();
  EXPECT_EQ(answer["id"], "r1");
  EXPECT_EQ(answer["code"], "NOT_FOUND") << "begun again when its job had ended";
}

TEST_F(ServeLoopTest, CheckAtWorkSaysThatTheJobLivesAndCanBeCancelled) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  Send(HugeCheck("c1"));
  ExpectAtWorkBesideAJobUntilCancelled("c1");
}

TEST_F(ServeLoopTest, StopDoesNotWaitForTheCheckAtWorkWhichIsBegunAgain) {
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
  Send({{"type", "cancel"}, {"id", "c1"}});
  Json answer = ReceiveAnswer();
  while (answer["type"] == "working") answer = ReceiveAnswer();
  EXPECT_EQ(answer["id"], "c1");
  EXPECT_EQ(answer["code"], "CANCELLED") << answer;
}

TEST_F(ServeLoopTest, RenderWithoutAJobSaysThatItIsAtWork) {
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
  Send({{"type", "cancel"}, {"id", "r1"}});
  Json answer = ReceiveAnswer();
  while (answer["type"] == "working") answer = ReceiveAnswer();
  EXPECT_EQ(answer["code"], "CANCELLED") << answer;
}

TEST_F(ServeLoopTest, RendersModelFilesWithAndWithoutTraining) {
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

TEST_F(ServeLoopTest, ModelAndCheckpointRenderTheSameBytes) {
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

TEST_F(ServeLoopTest, RendersTheCameraOfACameraFile) {
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
  render["camera"]["frames"].push_back(render["camera"]["frames"][0]);
  Send(render);
  EXPECT_EQ(ReceiveAnswer()["code"], "INVALID_ARGUMENT") << "two frames are two views";
}

TEST_F(ServeLoopTest, JobThatCannotBeginFailsWithItsProblemsAndTheNextRuns) {
  Json train = TrainMessage("j", 10);
  train["dataset"] = dir_ / "none";
  Send(train);
  Json failed = ReceiveAnswer();
  EXPECT_EQ(failed["type"], "failed");
  EXPECT_EQ(failed["code"], "NOT_FOUND");

  std::filesystem::create_directory(dir_ / "empty");
  train["dataset"] = dir_ / "empty";
  Send(train);
  failed = ReceiveAnswer();
  EXPECT_EQ(failed["reason"], "DATASET_INVALID");
  ASSERT_FALSE(failed["problems"].empty());
  EXPECT_TRUE(failed["problems"][0]["message"].is_string());

  train["dataset"] = dataset_;
  std::ofstream(dir_ / "bad.safetensors") << "no checkpoint";
  train["resume"] = dir_ / "bad.safetensors";
  Send(train);
  failed = ReceiveAnswer();
  EXPECT_EQ(failed["type"], "failed");
  EXPECT_EQ(failed["code"], "INVALID_ARGUMENT");
  TrainToTheEnd("k", 5);
}

TEST_F(ServeLoopTest, UnwritableFolderFailsTheJob) {
  Json train = TrainMessage("j", 10);
  train["out"] = "/proc/nowhere";
  Send(train);
  EXPECT_EQ(ReceiveAnswer()["type"], "failed");
  ExpectAlive();
}

TEST_F(ServeLoopTest, TrainingEndsWhenTheWorkerGoes) {
  Send(TrainMessage("j", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  End();
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "j"));
}

TEST_F(ServeLoopTest, CheckReportsProblems) {
  std::filesystem::create_directory(dir_ / "empty");
  Send({{"type", "check"}, {"id", "c"}, {"dataset", dir_ / "empty"}});
  const Json checked = ReceiveAnswer();
  EXPECT_EQ(checked["type"], "checked");
  EXPECT_EQ(checked["ok"], false);
  EXPECT_FALSE(checked["problems"].empty());
  EXPECT_TRUE(checked["warnings"].is_array());
}

// Lines that are wrong in one way each. Each is answered with one message and changes nothing.
const char* const kHostileLines[] = {
    "garbage",
    "{",
    "[]",
    "null",
    "3",
    R"("train")",
    R"({})",
    R"({"type":7})",
    R"({"type":null})",
    R"({"type":{"type":"train"}})",
    R"({"type":"fly"})",
    R"({"type":"train"})",
    R"({"type":"train","job":3,"dataset":[],"out":{}})",
    R"({"type":"train","job":"","dataset":"d","out":"o"})",
    R"({"type":"train","job":"j","dataset":"d\u0000e","out":"o"})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","seed":-1})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","seed":1.5})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","seed":1e300})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","budget":"all"})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","budget":{"kind":"steps"}})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","budget":{"kind":7,"amount":"x"}})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","background":"plaid"})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","settings":[1,2]})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","settings":{"learning_rate":1}})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","settings":{"no_such_key":"1"}})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","init":"f","init_scope":"half"})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","test_every":1e9})",
    R"({"type":"train","job":"j","dataset":"d","out":"o","checkpoint_interval_seconds":-1})",
    R"({"type":"stop"})",
    R"({"type":"stop","job":"j","mode":"now"})",
    R"({"type":"stop","job":"none","mode":"discard"})",
    R"({"type":"render"})",
    R"({"type":"render","id":"r","file":"/etc/passwd","orbit":{"index":0,"count":1},"out":"/tmp"})",
    R"({"type":"render","id":"r","file":"f","job":"j","orbit":{"index":0,"count":1},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","camera":{},"orbit":{},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","camera":"x","out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"index":9,"count":3},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"index":0,"count":1e12},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"width":-5,"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"width":99999,"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"channels":"rgb","out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"channels":[1],"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"format":"gif","out":"o"})",
    R"({"type":"render","id":[],"job":"j","orbit":{"count":1},"out":"o"})",
    R"({"type":"check"})",
    R"({"type":"check","id":5,"dataset":false})",
};

TEST_F(ServeLoopTest, HostileLinesAreRefusedOneByOne) {
  for (const char* line : kHostileLines) {
    SendRaw(std::string(line) + "\n");
    const Json answer = ReceiveAnswer();
    EXPECT_TRUE(answer["type"] == "error" || answer["type"] == "failed") << line << answer;
    EXPECT_TRUE(answer["code"].is_string()) << line;
    EXPECT_FALSE(answer["message"].get<std::string>().empty()) << line;
  }
  ExpectAlive();
  EXPECT_FALSE(std::filesystem::exists("o")) << "nothing was created";
}

TEST_F(ServeLoopTest, HostileLinesDoNotDisturbATraining) {
  Send(TrainMessage("busy", 1e9));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  for (const char* line : kHostileLines) {
    SendRaw(std::string(line) + "\n");
    EXPECT_EQ(ReceiveAnswer()["type"], "error") << line;
  }
  Send({{"type", "stop"}, {"job", "busy"}, {"mode", "now"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  Json render = RenderMessage("r");
  render["job"] = "busy";
  Send(render);
  EXPECT_EQ(ReceiveAnswer()["type"], "rendered") << "it trains on";
  Send({{"type", "stop"}, {"job", "busy"}, {"mode", "discard"}});
  EXPECT_EQ(ReceiveAnswer()["type"], "stopped");
}

TEST_F(ServeLoopTest, BytesThatAreNoTextAreRefused) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    if (i != '\n') bytes.push_back(static_cast<char>(i));
  }
  SendRaw(bytes + "\n");
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  SendRaw("{\"type\":\"check\",\"id\":\"\xff\xfe\",\"dataset\":\"d\"}\n");
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  SendRaw("\n\n\n");  // empty lines are nothing
  ExpectAlive();
}

TEST_F(ServeLoopTest, EndlessLineIsRefusedOnceAndTheNextLineIsRead) {
  for (int i = 0; i < 5; ++i) SendRaw(std::string(1 << 20, 'x'));
  SendRaw("\n");
  const Json answer = ReceiveAnswer();
  EXPECT_EQ(answer["type"], "error");
  EXPECT_NE(answer["message"].get<std::string>().find("1 MiB"), std::string::npos);
  ExpectAlive();
}

TEST_F(ServeLoopTest, DeepNestingIsRefused) {
  SendRaw(R"({"type":"render","id":"r","camera":)" + std::string(500000, '[') + "\n");
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  SendRaw(std::string(1000000, '{') + "\n");
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  ExpectAlive();
}

TEST_F(ServeLoopTest, HugeIdsAndNamesGiveShortAnswers) {
  const std::string huge(1000000, 'i');
  Send({{"type", "check"}, {"id", huge}, {"dataset", 3}});
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  Send({{"type", "train"}, {"job", huge}});
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  Send({{"type", huge}});
  EXPECT_EQ(ReceiveAnswer()["type"], "error");
  ExpectAlive();
}

TEST_F(ServeLoopTest, LineThatIsCutByTheEndIsIgnored) {
  SendRaw(R"({"type":"check","id":"x")");
  End();
}

}  // namespace
}  // namespace nerf
