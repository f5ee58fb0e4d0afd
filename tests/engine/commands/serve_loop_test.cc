#include "engine/serve/serve_loop.h"

#include <filesystem>
#include <fstream>

#include "common/error_reason.h"
#include "common/file_io.h"
#include "engine/methods/describe/method_descriptions.h"
#include "engine/methods/ngp_autograd/autograd_library.h"
#include "engine/scene/image_io.h"
#include "engine/training/loaded_model.h"
#include "engine/training/training_methods.h"
#include "tests/engine/commands/serve_loop_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST_F(ServeLoopTest, HelloNamesTheMethodsThatAreThere) {
  Json methods = {"ngp"};
  if (std::filesystem::exists(AutogradLibraryPath())) methods.push_back("ngp-autograd");
  methods.push_back("ngp-tiles");
  methods.push_back("mlp");
  if (std::filesystem::exists(AutogradLibraryPath())) methods.push_back("mlp-autograd");
  for (const char* method : {"voxels", "dynamic"}) methods.push_back(method);
  if (std::filesystem::exists(AutogradLibraryPath())) {
    for (const char* method : {"t-nerf", "d-nerf"}) methods.push_back(method);
  }
  EXPECT_EQ(hello_["methods"], methods);
  std::vector<std::string> on_cuda = TrainingMethods("cuda:0");
  // Where LibTorch has CUDA, those through it, too.
  std::erase_if(on_cuda, [](const std::string& name) { return name.ends_with("nerf"); });
  std::erase(on_cuda, "mlp-autograd");
  EXPECT_EQ(on_cuda, (std::vector<std::string>{"ngp", "ngp-tiles", "mlp", "voxels", "dynamic"}));
  EXPECT_EQ(hello_["merges"], Json::array({"ngp-tiles"}));
  EXPECT_EQ(MergingMethods("cuda:0"), std::vector<std::string>{"ngp-tiles"});
}

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
  EXPECT_EQ(started["scene"]["flavor"], "blender");
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

TEST_F(ServeLoopTest, ExtendedTrainingGoesOnToTheBudgetOfItsMessage) {
  const Json done = TrainToTheEnd("j", 20);
  Json extend = TrainMessage("k", 40);
  extend["resume"] = done["checkpoint"];
  extend["extend"] = true;
  Send(extend);
  const Json started = ReceiveAnswer();
  ASSERT_EQ(started["type"], "started") << started;
  EXPECT_EQ(started["step"], 20);
  EXPECT_EQ(started["config"]["budget"]["amount"], 40);
  const Json checkpoint = ReceiveAnswer();
  ASSERT_EQ(checkpoint["type"], "checkpoint") << checkpoint;
  EXPECT_EQ(checkpoint["step"], 40);
  ASSERT_EQ(ReceiveAnswer()["type"], "done");

  // As after a crash: what it committed has the new budget.
  extend["job"] = "again";
  extend["out"] = dir_ / "again";
  extend["resume"] = checkpoint["checkpoint"];
  Send(extend);
  ASSERT_EQ(ReceiveAnswer()["step"], 40);
  ASSERT_EQ(ReceiveAnswer()["type"], "checkpoint");
  ASSERT_EQ(ReceiveAnswer()["type"], "done");

  extend["budget"]["amount"] = 39;
  Send(extend);
  const Json failed = ReceiveAnswer();
  EXPECT_EQ(failed["type"], "failed") << failed;
  EXPECT_EQ(failed["reason"], "FIELD_INVALID");
  EXPECT_THAT(failed["message"].get<std::string>(), testing::HasSubstr("has 40 steps already"));
}

// A checkpoint is due after every step, so that of the last step is written before the end.
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

TEST_F(ServeLoopTest, JobThatIsShorterThanThePreviewIntervalHasAPicture) {
  Send(TrainMessage("j", 5));
  Json message = Receive();
  while (message["type"] == "started" || message["type"] == "progress") message = Receive();
  ASSERT_EQ(message["type"], "preview") << message;
  EXPECT_EQ(message["step"], 5);
  EXPECT_THAT(DecodeImage(message["image"].get<std::string>()), IsOk());
  EXPECT_EQ(ReceiveAnswer()["type"], "checkpoint");
  EXPECT_EQ(ReceiveAnswer()["type"], "done");
}

TEST_F(ServeLoopTest, EvaluationAtTheEndSaysHowFarItIs) {
  Send(TrainMessage("j", 5));
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  ASSERT_EQ(ReceiveAnswer()["type"], "checkpoint");
  const Json progress = Receive();
  ASSERT_EQ(progress["type"], "progress") << progress;
  EXPECT_EQ(progress["step"], 5);
  EXPECT_EQ(progress["evaluated_views"], 0);
  EXPECT_EQ(progress["evaluation_views"], 2);
  EXPECT_EQ(ReceiveAnswer()["type"], "done");
}

// This run has sent no checkpoint message of the step where it continues.
TEST_F(ServeLoopTest, ResumeOfATrainingThatIsAtItsEndStillWritesACheckpoint) {
  const Json done = TrainToTheEnd("j", 20);
  Json resume = TrainMessage("k", 1);
  resume["resume"] = done["checkpoint"];
  Send(resume);
  ASSERT_EQ(ReceiveAnswer()["type"], "started");
  const Json checkpoint = ReceiveAnswer();
  ASSERT_EQ(checkpoint["type"], "checkpoint") << checkpoint;
  EXPECT_EQ(checkpoint["step"], 20);
  // Progress is sent during the evaluation, although no step was taken.
  Json progress = Receive();
  if (!progress.contains("evaluation_views")) progress = Receive();
  ASSERT_EQ(progress["type"], "progress") << progress;
  EXPECT_EQ(progress["step"], 20);
  EXPECT_EQ(progress["fraction"], 1);
  EXPECT_EQ(progress["evaluation_views"], 2);
  EXPECT_TRUE(progress["loss"].is_null());
  EXPECT_EQ(ReceiveAnswer()["type"], "done");
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
  Json answer = ReceiveAnswer();
  // If the data set was read before the stop.
  if (answer["type"] == "started") answer = ReceiveAnswer();
  EXPECT_EQ(answer["type"], "stopped") << answer;
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

// Each line is wrong in one way, is answered with one message and changes nothing.
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
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"background":[1,2],"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"crop":{"size":[1,0,1]},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"crop":{"turn":"x"},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"panorama":{"stereo":"x"},"out":"o"})",
    R"({"type":"render","id":"r","job":"j","orbit":{"count":1},"format":"gif","out":"o"})",
    R"({"type":"render","id":[],"job":"j","orbit":{"count":1},"out":"o"})",
    R"({"type":"check"})",
    R"({"type":"check","id":5,"dataset":false})",
};

TEST_F(ServeLoopTest, HostileLinesAreRefusedOneByOne) {
  for (const char* line : kHostileLines) {
    SendRaw(std::string(line) + "\n");
    const Json answer = ReceiveAnswer();
    // A job that is named fails; everything else is an error.
    const bool names_job = std::string_view(line).starts_with(R"({"type":"train","job":"j")");
    EXPECT_EQ(answer["type"], names_job ? "failed" : "error") << line << answer;
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
  SendRaw("\n\n\n");  // empty lines are ignored
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
