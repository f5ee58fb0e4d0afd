// Commands against a scripted server on a loopback port.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/file_io.h"
#include "common/ids.h"
#include "common/rpc/rpc_status.h"
#include "common/sha256.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"
#include "tests/client/fake_server.h"
#include "tests/client/run_command.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kJob = "projects/default/trainingJobs/j-fake";

// A Blender scene of four tiny pictures, with things in the folder that no reader looks at.
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

v1::WatchTrainingJobResponse Message(v1::WatchTrainingJobResponse::Kind kind, int sequence,
                                     v1::TrainingJob::State state, uint32_t step = 0) {
  v1::WatchTrainingJobResponse message;
  message.set_kind(kind);
  message.set_resume_token(fmt::format("token-{}", sequence));
  message.set_sequence(sequence);
  v1::TrainingJob& job = *message.mutable_training_job();
  job.set_name(kJob);
  job.set_state(state);
  job.set_attempt(1);
  job.set_worker("workers/w-1");
  job.mutable_config()->set_steps(100);
  if (step > 0) {
    job.mutable_progress()->set_step(step);
    job.mutable_progress()->set_fraction(step / 100.0);
  }
  return message;
}

using W = v1::WatchTrainingJobResponse;
using J = v1::TrainingJob;

class ServiceTest : public testing::Test {
 protected:
  CommandResult Run(std::vector<std::string> args, RunOptions options = {}) {
    args.insert(args.begin(), {"--server", server_.address()});
    return RunCommand(args, options);
  }
  // A watch that goes to success in one stream.
  void ScriptSuccess() {
    W done = Message(W::STATE_CHANGED, 3, J::SUCCEEDED, 100);
    done.mutable_training_job()->set_final_psnr(33.125);
    state_.watch_scripts.push_back(
        {{Message(W::SNAPSHOT, 1, J::QUEUED), Message(W::STATE_CHANGED, 2, J::RUNNING, 10), done},
         absl::OkStatus()});
  }

  FakeState state_;
  FakeServer server_{&state_};
};

TEST_F(ServiceTest, SceneCreateUploadsWhatTheReaderUsesAndTheServerMisses) {
  const TempDir dir;
  WriteScene(dir.path());
  const std::string present = ReadFile(dir / "r_0.png", 1 << 20).value();
  state_.blobs[Sha256Hex(present)] = present;

  const CommandResult result = Run({"scene", "create", dir.path(), "--display-name", "tiny"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
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

TEST_F(ServiceTest, TrainUploadsCreatesAndWatches) {
  const TempDir dir;
  WriteScene(dir.path());
  ScriptSuccess();
  const CommandResult result =
      Run({"train", dir.path(), "--steps", "100", "--set", "loss=mse", "--seed", "3"});
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  ASSERT_EQ(state_.create_job.size(), 1u);
  const v1::CreateTrainingJobRequest& request = state_.create_job[0];
  EXPECT_EQ(request.training_job().scene(), "projects/default/scenes/s-fake");
  EXPECT_EQ(request.training_job().config().steps(), 100u);
  EXPECT_EQ(request.training_job().config().seed(), 3u);
  EXPECT_EQ(request.training_job().config().settings().at("loss"), "mse");
  EXPECT_EQ(request.training_job().display_name(), std::filesystem::path(dir.path()).filename());
  EXPECT_EQ(result.out, "SUCCEEDED  j-fake  step 100  PSNR 33.12 dB over the test views\n");
  EXPECT_THAT(result.err, HasSubstr("job j-fake RUNNING on w-1"));
  EXPECT_THAT(result.err, HasSubstr("step  10/100   10%"));
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl render --job j-fake"));
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
  EXPECT_EQ(state_.create_job[0].training_job().scene(), "projects/default/scenes/mic");
  EXPECT_EQ(state_.create_job[0].training_job().config().init().model(),
            "projects/default/models/base");
  result = Run({"job", "create", "--scene", "mic", "--validate-only"});
  EXPECT_EQ(result.exit_code, kOk);
  EXPECT_TRUE(state_.create_job[1].validate_only());
  EXPECT_THAT(result.out, HasSubstr("nothing was created"));
}

TEST_F(ServiceTest, WatchGoesOnAtItsTokenAfterTheStreamBreaks) {
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 4, J::QUEUED), Message(W::STATE_CHANGED, 5, J::RUNNING, 20)},
       absl::UnavailableError("going down")},
      {{}, absl::UnavailableError("still down")},
      // The server went away politely, in the middle.
      {{Message(W::SNAPSHOT, 5, J::RUNNING, 50)}, absl::OkStatus()},
      {{Message(W::SNAPSHOT, 6, J::RUNNING, 60), Message(W::STATE_CHANGED, 7, J::SUCCEEDED, 100)},
       absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  std::vector<std::string> tokens;
  for (const auto& request : state_.watch) {
    EXPECT_EQ(request.name(), kJob);
    // gRPC itself tries again a stream that broke before its first message.
    if (tokens.empty() || tokens.back() != request.resume_token()) {
      tokens.push_back(request.resume_token());
    }
  }
  EXPECT_EQ(tokens.front(), "");
  EXPECT_EQ(tokens.back(), "token-5");
  EXPECT_THAT(result.err, HasSubstr("connection lost"));
  const size_t first = result.err.find("job j-fake RUNNING");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(result.err.find("job j-fake RUNNING", first + 1), std::string::npos)
      << "a state is told once, whatever the streams do";
}

TEST_F(ServiceTest, WatchThatAnEndingServerDropsGoesOn) {
  // Nobody here cancelled, so it is the server's end and no interruption.
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 4, J::RUNNING, 20)}, absl::CancelledError("CANCELLED")},
      {{Message(W::SNAPSHOT, 4, J::RUNNING, 60), Message(W::STATE_CHANGED, 5, J::SUCCEEDED, 100)},
       absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("connected again"));
}

TEST_F(ServiceTest, WatchOfAnotherStoreBeginsAnew) {
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 4, J::RUNNING, 10)}, absl::UnavailableError("x")},
      {{}, WithReason(absl::DataLossError("token of another store"), reason::kEpochMismatch)},
      {{Message(W::SNAPSHOT, 1, J::SUCCEEDED, 100)}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(state_.watch.back().resume_token(), "");
}

TEST_F(ServiceTest, WatchOfAJobThatDoesNotExistIsNotRepeated) {
  state_.errors["WatchTrainingJob"] = {
      WithReason(absl::NotFoundError("no job j-9"), reason::kResourceNotFound)};
  const CommandResult result = Run({"job", "watch", "j-9"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_EQ(result.err, "nerfctl: no job j-9 (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(state_.calls["WatchTrainingJob"], 1);
}

TEST_F(ServiceTest, FailedJobIsExitThreeWithCauseAndProblems) {
  W failed = Message(W::SNAPSHOT, 1, J::FAILED);
  *failed.mutable_training_job()->mutable_error() =
      ToRpcStatus(WithReason(absl::AbortedError("loss is not finite"), reason::kTrainingDiverged));
  v1::SceneProblem& problem = *failed.mutable_training_job()->add_problems();
  problem.set_file("a.png");
  problem.set_message("is cut off");
  state_.watch_scripts = {{{failed}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kJobFailed);
  EXPECT_THAT(result.err, HasSubstr("job j-fake failed: loss is not finite (TRAINING_DIVERGED)"));
  EXPECT_THAT(result.err, HasSubstr("error  a.png: is cut off"));
  EXPECT_THAT(result.err, Not(HasSubstr("next:")));
}

TEST_F(ServiceTest, CancelledJobIsExitThree) {
  state_.watch_scripts = {{{Message(W::SNAPSHOT, 1, J::CANCELLED)}, absl::OkStatus()}};
  EXPECT_EQ(Run({"job", "watch", "j-fake"}).exit_code, kJobFailed);
}

TEST_F(ServiceTest, WatchJsonLinesAreTheMessages) {
  ScriptSuccess();
  const CommandResult result = Run({"job", "watch", "j-fake", "-o", "jsonl", "--quiet"});
  EXPECT_EQ(result.exit_code, kOk);
  EXPECT_THAT(result.err, IsEmpty());
  std::istringstream lines(result.out);
  std::string line;
  std::vector<std::string> kinds;
  while (std::getline(lines, line)) kinds.push_back(nlohmann::json::parse(line)["kind"]);
  EXPECT_THAT(kinds, ElementsAre("SNAPSHOT", "STATE_CHANGED", "STATE_CHANGED"));
}

TEST_F(ServiceTest, TimeoutEndsAWatchAndTheJobGoesOn) {
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 1, J::RUNNING, 5)}, absl::OkStatus(), /*hang=*/true}};
  const CommandResult result = Run({"job", "watch", "j-fake", "--timeout", "0.3"});
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("the job keeps running"));
}

TEST(SilentServerTest, CallEndsWithItsTimeout) {
  // A port that takes connections and says nothing.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string server = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  const CommandResult result = RunCommand({"--server", server, "--timeout", "0.2", "job", "ls"});
  close(listener);
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("gave no answer within"));
}

TEST_F(ServiceTest, FirstCtrlCDetachesWithAHint) {
  Interrupt interrupt;
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 1, J::RUNNING, 5)}, absl::OkStatus(), /*hang=*/true}};
  state_.on_watch_message = [&] { interrupt.Request(SIGINT); };
  const CommandResult result = Run({"job", "watch", "j-fake"}, {.interrupt = &interrupt});
  EXPECT_EQ(result.exit_code, kInterrupted);
  EXPECT_THAT(result.err,
              HasSubstr("job j-fake keeps running; nerfctl job cancel j-fake stops it\n"));
  EXPECT_EQ(state_.calls.count("CancelTrainingJob"), 0u);
}

TEST_F(ServiceTest, SignalsEndTheBinaryWithTheirCodes) {
  for (const auto& [signal, exit_code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    state_.watch_scripts = {
        {{Message(W::SNAPSHOT, 1, J::RUNNING, 5)}, absl::OkStatus(), /*hang=*/true}};
    RunningBinary binary({"--server", server_.address(), "job", "watch", "j-fake"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (binary.err().find("RUNNING") == std::string::npos &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    binary.Signal(signal);
    const CommandResult result = binary.Wait();
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_THAT(result.err, HasSubstr("job j-fake keeps running"));
  }
}

TEST_F(ServiceTest, CancelSaysWhereTheJobStands) {
  const CommandResult result = Run({"job", "cancel", "j-1"});
  EXPECT_EQ(result.exit_code, kOk);
  EXPECT_EQ(result.out, "CANCELLING  j-1\n");
  EXPECT_THAT(state_.names, ElementsAre("projects/default/trainingJobs/j-1"));
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
      {C::kDataLoss, kBadData},
  };
  for (const auto& [code, exit_code] : expected) {
    state_.errors["GetTrainingJob"] = {WithReason(absl::Status(code, "because"), "SOME_REASON")};
    const CommandResult result = Run({"job", "show", "j-1"});
    EXPECT_EQ(result.exit_code, exit_code) << absl::StatusCodeToString(code);
    EXPECT_EQ(result.err, "nerfctl: because (SOME_REASON)\n");
  }
}

TEST_F(ServiceTest, ViolationsOfTheServerComeOneALine) {
  state_.errors["CreateTrainingJob"] = {
      InvalidFieldsError({{"config.steps", "is 0"}, {"config.seed", "is odd"}})};
  const CommandResult result = Run({"job", "create", "s-1"});
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.err, HasSubstr("  config.steps: is 0\n  config.seed: is odd\n"));
}

TEST_F(ServiceTest, ListingsFollowPagesUpToTheLimit) {
  for (int i = 0; i < 7; ++i) {
    v1::TrainingJob job;
    job.set_name(fmt::format("projects/default/trainingJobs/j-{}", i));
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

TEST_F(ServiceTest, PromoteTakesTheNewestCheckpointOfAJob) {
  const CommandResult result = Run({"model", "promote", "j-1", "--id", "mic"});
  EXPECT_EQ(result.exit_code, kOk);
  ASSERT_EQ(state_.promote.size(), 1u);
  EXPECT_EQ(state_.promote[0].name(), "projects/default/trainingJobs/j-1/checkpoints/-");
  EXPECT_EQ(state_.promote[0].model_id(), "mic");
  EXPECT_THAT(result.err, HasSubstr("next: nerfctl render --model mic"));
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
  EXPECT_THAT(names,
              ElementsAre("depth.json", "depth_0000.png", "depth_0001.png", "opacity_0000.png",
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
  EXPECT_EQ(state_.render[1].width(), 8u);
  EXPECT_EQ(state_.render[1].height(), 0u);
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
  EXPECT_EQ(state_.render[0].training_job(), "projects/default/trainingJobs/j-1");
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

TEST_F(ServiceTest, RenderIsRepeatedWhereTheWorkerWasLost) {
  const TempDir dir;
  state_.errors["RenderImage"] = {
      WithReason(absl::UnavailableError("worker lost"), reason::kWorkerLost)};
  EXPECT_EQ(Run({"render", "--model", "m", "--orbit", "1", "--out", dir.path()}).exit_code, kOk);
  EXPECT_GE(state_.render.size(), 2u);
}

TEST_F(ServiceTest, RenderThatFailsLeavesNoPartOfAView) {
  const TempDir dir;
  state_.errors["RenderImage"] = {
      WithReason(absl::FailedPreconditionError("no checkpoint yet"), reason::kStateConflict)};
  const CommandResult result = Run(
      {"render", "--job", "j-1", "--orbit", "1", "--channels", "rgb,depth", "--out", dir / "out"});
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_EQ(result.err, "nerfctl: no checkpoint yet (STATE_CONFLICT)\n");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
}

TEST_F(ServiceTest, ProjectFlagDecidesWhereShortIdsBelong) {
  Run({"--project", "lab", "job", "show", "j-1"});
  EXPECT_THAT(state_.names, ElementsAre("projects/lab/trainingJobs/j-1"));
}

}  // namespace
}  // namespace nerf
