#include "engine/program/serve/serve_loop.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/ngp_autograd/autograd_library.h"
#include "engine/program/serve/request_check.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_methods.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/engine/program/commands/serve_loop_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

std::vector<std::string> TextsOf(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

TEST_F(ServeLoopTest, HelloNamesTheMethodsThatAreThere) {
  std::vector<std::string> methods = {"ngp"};
  if (std::filesystem::exists(AutogradLibraryPath())) methods.push_back("ngp-autograd");
  methods.push_back("ngp-tiles");
  methods.push_back("mlp");
  if (std::filesystem::exists(AutogradLibraryPath())) methods.push_back("mlp-autograd");
  for (const char* method : {"voxels", "dynamic"}) methods.push_back(method);
  if (std::filesystem::exists(AutogradLibraryPath())) {
    for (const char* method : {"t-nerf", "d-nerf"}) methods.push_back(method);
  }
  EXPECT_EQ(TextsOf(hello_.methods()), methods);
  std::vector<std::string> on_cuda = TrainingMethods("cuda:0");
  // Where LibTorch has CUDA, those through it, too.
  std::erase_if(on_cuda, [](const std::string& name) { return name.ends_with("nerf"); });
  std::erase(on_cuda, "mlp-autograd");
  EXPECT_EQ(on_cuda, (std::vector<std::string>{"ngp", "ngp-tiles", "mlp", "voxels", "dynamic"}));
  EXPECT_EQ(TextsOf(hello_.merges()), std::vector<std::string>{"ngp-tiles"});
  EXPECT_EQ(MergingMethods("cuda:0"), std::vector<std::string>{"ngp-tiles"});
}

TEST_F(ServeLoopTest, HelloSaysWhatTheEngineIs) {
  EXPECT_FALSE(hello_.version().empty());
  EXPECT_EQ(hello_.device(), "cpu");
  EXPECT_EQ(hello_.threads(), 1u);
  EXPECT_FALSE(hello_.writes_nanovdb());
}

TEST_F(ServeLoopTest, TrainsToTheEndWithEveryMessageInOrder) {
  Send(TrainMessage("j1", 30));
  const EngineMessage first = Receive();
  ASSERT_THAT(first, Says(EngineMessage::kStarted));
  EXPECT_EQ(first.job(), "j1");
  const internal::Started& started = first.started();
  EXPECT_EQ(started.config().seed(), 3u);
  EXPECT_EQ(started.config().steps(), 30u);
  EXPECT_EQ(started.config().settings().at("target_samples"), "512");
  EXPECT_EQ(started.config().settings().at("learning_rate"),
            ConfigSettings(TrainConfig())["learning_rate"])
      << "defaults are echoed";
  EXPECT_EQ(started.flavor(), "blender");
  EXPECT_EQ(started.train_views(), 6u);
  EXPECT_EQ(started.test_views(), 2u);
  EXPECT_EQ(started.step(), 0u);

  EngineMessage message = Receive();
  for (; message.has_progress() || message.has_preview(); message = Receive()) {
    EXPECT_EQ(message.job(), "j1");
    if (!message.has_progress()) continue;
    const v1::Progress& progress = message.progress().progress();
    EXPECT_GT(progress.step(), 0u);
    for (const double figure :
         {progress.samples(), progress.marched(), progress.rays(), progress.loss(),
          progress.psnr_train(), progress.seconds(), progress.samples_per_second(),
          progress.rays_per_second(), progress.fraction()}) {
      EXPECT_GT(figure, 0) << message.ShortDebugString();
    }
    EXPECT_GE(progress.eta_seconds(), 0);
  }
  ASSERT_THAT(message, Says(EngineMessage::kCheckpoint));
  const internal::SavedState& saved = message.checkpoint();
  EXPECT_EQ(saved.step(), 30u);
  EXPECT_GT(saved.psnr(), 0);
  bool has_table = false;
  for (const v1::TensorSpec& tensor : saved.tensors()) {
    if (tensor.name() == "field.hash_table") {
      has_table = true;
      EXPECT_EQ(tensor.dtype(), "F16");
      EXPECT_THAT(tensor.shape(), testing::ElementsAre(8, 4096, 4));
    }
  }
  EXPECT_TRUE(has_table);
  ThreadPool pool(1);
  const auto device = NewCpuRenderDevice(&pool);
  const auto model = LoadModelFile(saved.model(), device.get());
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->kind, TrainFileKind::kModel);
  EXPECT_EQ(model->state.step, 30u);
  ASSERT_THAT(ReadTensorFile(saved.checkpoint()), IsOk());

  const EngineMessage done = ReceiveAnswer();
  ASSERT_THAT(done, Says(EngineMessage::kDone));
  EXPECT_EQ(done.job(), "j1");
  EXPECT_EQ(done.done().progress().step(), 30u);
  EXPECT_EQ(done.done().progress().fraction(), 1);
  EXPECT_GT(done.done().progress().samples(), 0);
  EXPECT_GT(done.done().psnr(), 0);
  EXPECT_EQ(done.done().test_views_size(), 2);
  ExpectAlive();
}

TEST_F(ServeLoopTest, ABrokenDeviceEndsTheEngineWithAnErrorInsteadOfAnAnswer) {
  const internal::SavedState saved = TrainToTheEnd("j", 5);
  broken_ = true;
  Send(RenderMessage("r", saved.model()));
  EXPECT_THAT(ReceiveToTheEnd(), testing::IsEmpty());
  End();
  EXPECT_THAT(ended_, FailsWith(absl::StatusCode::kInternal, reason::kGpuFailed));
}

TEST_F(ServeLoopTest, ADeviceThatBreaksInTrainingEndsTheEngineAndFailsNoJob) {
  Send(TrainMessage("j", 1'000'000'000));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  broken_ = true;
  Send(RenderMessage("r", "", "j"));
  for (const EngineMessage& message : ReceiveToTheEnd())
    EXPECT_TRUE(message.has_progress() || message.has_preview()) << message.ShortDebugString();
  End();
  EXPECT_THAT(ended_, FailsWith(absl::StatusCode::kInternal, reason::kGpuFailed));
}

TEST_F(ServeLoopTest, StopWithCheckpointWritesOneFirst) {
  Send(TrainMessage("j", 1'000'000'000));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  Send(StopMessage("j", true));
  const EngineMessage saved = ReceiveAnswer();
  ASSERT_THAT(saved, Says(EngineMessage::kCheckpoint));
  EXPECT_THAT(ReadTensorFile(saved.checkpoint().checkpoint()), IsOk());
  const EngineMessage stopped = ReceiveAnswer();
  ASSERT_THAT(stopped, Says(EngineMessage::kStopped));
  EXPECT_EQ(stopped.stopped().step(), saved.checkpoint().step());
}

TEST_F(ServeLoopTest, CheckpointOnTheWayContinuesToTheSameBytes) {
  WorkerRequest train = TrainMessage("whole", 60);
  // After each of the first steps.
  train.mutable_train()->set_checkpoint_interval_seconds(0.001);
  Send(train);
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  const EngineMessage first = ReceiveAnswer();
  ASSERT_THAT(first, Says(EngineMessage::kCheckpoint));
  ASSERT_LT(first.checkpoint().step(), 60u);
  for (EngineMessage message = first; !message.has_done(); message = ReceiveAnswer()) {
    ASSERT_THAT(message, Says(EngineMessage::kCheckpoint));
  }
  const auto expected = ReadFile(dir_ / "whole/checkpoint_00000060.safetensors", 1 << 30);
  ASSERT_THAT(expected, IsOk());

  WorkerRequest resume = TrainMessage("part", 1);  // budget and the rest come from the checkpoint
  resume.mutable_train()->set_resume(first.checkpoint().checkpoint());
  Send(resume);
  const EngineMessage started = ReceiveAnswer();
  ASSERT_THAT(started, Says(EngineMessage::kStarted));
  EXPECT_EQ(started.started().step(), first.checkpoint().step());
  EXPECT_EQ(started.started().config().steps(), 60u);
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kCheckpoint));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));
  const auto bytes = ReadFile(dir_ / "part/checkpoint_00000060.safetensors", 1 << 30);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_TRUE(*bytes == *expected);
}

TEST_F(ServeLoopTest, ExtendedTrainingGoesOnToTheBudgetOfItsMessage) {
  const internal::SavedState saved = TrainToTheEnd("j", 20);
  WorkerRequest extend = TrainMessage("k", 40);
  extend.mutable_train()->set_resume(saved.checkpoint());
  extend.mutable_train()->set_extend(true);
  Send(extend);
  const EngineMessage started = ReceiveAnswer();
  ASSERT_THAT(started, Says(EngineMessage::kStarted));
  EXPECT_EQ(started.started().step(), 20u);
  EXPECT_EQ(started.started().config().steps(), 40u);
  const EngineMessage extended = ReceiveAnswer();
  ASSERT_THAT(extended, Says(EngineMessage::kCheckpoint));
  EXPECT_EQ(extended.checkpoint().step(), 40u);
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));

  // As after a crash: what it committed has the new budget.
  extend.set_job("again");
  extend.mutable_train()->set_out(dir_ / "again");
  extend.mutable_train()->set_resume(extended.checkpoint().checkpoint());
  Send(extend);
  EXPECT_EQ(ReceiveAnswer().started().step(), 40u);
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kCheckpoint));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));

  extend.mutable_train()->mutable_config()->set_steps(39);
  Send(extend);
  const EngineMessage failed = ReceiveAnswer();
  ASSERT_THAT(failed, Says(EngineMessage::kFailed));
  EXPECT_THAT(ErrorOf(failed),
              FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(failed.failed().error().message(), testing::HasSubstr("has 40 steps already"));
}

// A checkpoint is due after every step, so that of the last step is written before the end.
TEST_F(ServeLoopTest, EachStepIsCheckpointedOnceAndDoneComesBehindTheLast) {
  WorkerRequest train = TrainMessage("j", 5);
  train.mutable_train()->set_checkpoint_interval_seconds(0.001);
  auto& settings = *train.mutable_train()->mutable_config()->mutable_settings();
  settings["target_samples"] = "8192";  // a step then takes longer than the interval
  settings["initial_rays"] = "1024";
  Send(train);
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  std::vector<uint32_t> steps;
  internal::SavedState last;
  EngineMessage message = ReceiveAnswer();
  for (; message.has_checkpoint(); message = ReceiveAnswer()) {
    last = message.checkpoint();
    steps.push_back(last.step());
  }
  EXPECT_EQ(steps, (std::vector<uint32_t>{1, 2, 3, 4, 5}));
  ASSERT_THAT(message, Says(EngineMessage::kDone));
  EXPECT_EQ(last.checkpoint(), dir_ / "j/checkpoint_00000005.safetensors");
  EXPECT_EQ(last.model(), dir_ / "j/model_00000005.safetensors");
}

TEST_F(ServeLoopTest, JobThatIsShorterThanThePreviewIntervalHasAPicture) {
  Send(TrainMessage("j", 5));
  EngineMessage message = Receive();
  while (message.has_started() || message.has_progress()) message = Receive();
  ASSERT_THAT(message, Says(EngineMessage::kPreview));
  EXPECT_EQ(message.job(), "j");
  EXPECT_EQ(message.preview().step(), 5u);
  EXPECT_THAT(DecodeImage(message.preview().image()), IsOk());
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kCheckpoint));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));
}

TEST_F(ServeLoopTest, EvaluationAtTheEndSaysHowFarItIs) {
  Send(TrainMessage("j", 5));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kCheckpoint));
  const EngineMessage message = Receive();
  ASSERT_THAT(message, Says(EngineMessage::kProgress));
  const v1::Progress& progress = message.progress().progress();
  EXPECT_EQ(progress.step(), 5u);
  EXPECT_EQ(progress.evaluated_views(), 0u);
  EXPECT_EQ(progress.evaluation_views(), 2u);
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));
}

// This run has sent no checkpoint message of the step where it continues.
TEST_F(ServeLoopTest, ResumeOfATrainingThatIsAtItsEndStillWritesACheckpoint) {
  const internal::SavedState saved = TrainToTheEnd("j", 20);
  WorkerRequest resume = TrainMessage("k", 1);
  resume.mutable_train()->set_resume(saved.checkpoint());
  Send(resume);
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  const EngineMessage again = ReceiveAnswer();
  ASSERT_THAT(again, Says(EngineMessage::kCheckpoint));
  EXPECT_EQ(again.checkpoint().step(), 20u);
  // Progress is sent during the evaluation, although no step was taken.
  EngineMessage message = Receive();
  if (message.progress().progress().evaluation_views() == 0) message = Receive();
  ASSERT_THAT(message, Says(EngineMessage::kProgress));
  const v1::Progress& progress = message.progress().progress();
  EXPECT_EQ(progress.step(), 20u);
  EXPECT_EQ(progress.fraction(), 1);
  EXPECT_EQ(progress.evaluation_views(), 2u);
  EXPECT_EQ(progress.loss(), 0) << "not known";
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));
}

TEST_F(ServeLoopTest, StopWithoutCheckpointWritesNothing) {
  Send(TrainMessage("j", 1'000'000'000));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  Send(StopMessage("j"));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStopped));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "j"));
  ExpectAlive();
}

TEST_F(ServeLoopTest, StopSentRightBehindTrainStopsIt) {
  SendRaw(Delimited(TrainMessage("j", 1'000'000'000).SerializeAsString()) +
          Delimited(StopMessage("j").SerializeAsString()));
  EngineMessage answer = ReceiveAnswer();
  // If the data set was read before the stop.
  if (answer.has_started()) answer = ReceiveAnswer();
  EXPECT_THAT(answer, Says(EngineMessage::kStopped));
}

TEST_F(ServeLoopTest, SecondJobIsBusyAndTheFirstGoesOn) {
  Send(TrainMessage("j", 1'000'000'000));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  Send(TrainMessage("k", 10));
  const EngineMessage busy = ReceiveAnswer();
  ASSERT_THAT(busy, Says(EngineMessage::kRefused));
  EXPECT_EQ(busy.job(), "k");
  EXPECT_THAT(ErrorOf(busy), FailsWith(absl::StatusCode::kFailedPrecondition, reason::kBusy));
  Send(StopMessage("k"));
  EXPECT_THAT(ErrorOf(ReceiveAnswer()), StatusIs(absl::StatusCode::kNotFound));
  Send(StopMessage("j"));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStopped));
}

TEST_F(ServeLoopTest, CheckpointsComeAtTheirIntervalAndPreviewsToo) {
  WorkerRequest train = TrainMessage("j", 1'000'000'000);
  train.mutable_train()->set_checkpoint_interval_seconds(0.01);
  train.mutable_train()->set_preview_interval_seconds(0.01);
  Send(train);
  int n_checkpoints = 0, n_previews = 0;
  while (n_checkpoints < 2 || n_previews < 2) {
    const EngineMessage message = Receive();
    ASSERT_FALSE(HasFailure());
    if (message.has_checkpoint()) ++n_checkpoints;
    if (message.has_preview()) {
      ++n_previews;
      EXPECT_TRUE(message.preview().has_psnr());
      EXPECT_THAT(DecodeImage(message.preview().image()), IsOk());
    }
  }
}

TEST_F(ServeLoopTest, JobThatCannotBeginFailsWithItsProblemsAndTheNextRuns) {
  WorkerRequest train = TrainMessage("j", 10);
  train.mutable_train()->set_dataset(dir_ / "none");
  Send(train);
  EngineMessage failed = ReceiveAnswer();
  ASSERT_THAT(failed, Says(EngineMessage::kFailed));
  EXPECT_THAT(ErrorOf(failed), FailsWith(absl::StatusCode::kNotFound, reason::kResourceNotFound));

  std::filesystem::create_directory(dir_ / "empty");
  train.mutable_train()->set_dataset(dir_ / "empty");
  Send(train);
  failed = ReceiveAnswer();
  ASSERT_THAT(failed, Says(EngineMessage::kFailed));
  EXPECT_EQ(GetReason(ErrorOf(failed))->reason, reason::kDatasetInvalid);
  ASSERT_GT(failed.failed().problems_size(), 0);
  EXPECT_FALSE(failed.failed().problems(0).message().empty());

  train.mutable_train()->set_dataset(dataset_);
  std::ofstream(dir_ / "bad.safetensors") << "no checkpoint";
  train.mutable_train()->set_resume(dir_ / "bad.safetensors");
  Send(train);
  failed = ReceiveAnswer();
  ASSERT_THAT(failed, Says(EngineMessage::kFailed));
  EXPECT_THAT(ErrorOf(failed), StatusIs(absl::StatusCode::kInvalidArgument));
  TrainToTheEnd("k", 5);
}

TEST_F(ServeLoopTest, UnwritableFolderFailsTheJob) {
  WorkerRequest train = TrainMessage("j", 10);
  train.mutable_train()->set_out("/proc/nowhere");
  Send(train);
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kFailed));
  ExpectAlive();
}

TEST_F(ServeLoopTest, TrainingEndsWhenTheWorkerGoes) {
  Send(TrainMessage("j", 1'000'000'000));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  End();
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "j"));
}

// Bytes that are no message.
std::vector<std::string> HostileBytes() {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const std::string check = CheckMessage("id", "data set").SerializeAsString();
  return {"garbage",
          "{}",
          R"({"check":{"dataset":"d"},"id":"i"})",
          "\xff\xfe",
          "\x0a\x05j",                 // a text that goes on behind the end
          "\x0a\x01\xff",              // bytes in place of a text
          std::string("\x00\x00", 2),  // field 0
          check.substr(0, check.size() - 1),
          all,
          std::string(500'000, '\x7b')};  // groups in groups
}

// Each is wrong in one way, is answered with one message and changes nothing.
std::vector<WorkerRequest> HostileRequests() {
  std::vector<WorkerRequest> requests(3);
  // As a kind of a later version would be.
  requests[1].GetReflection()->MutableUnknownFields(&requests[1])->AddVarint(99, 1);
  requests[2].set_job("j");
  const auto train = [&](const std::function<void(internal::Train&)>& change) {
    WorkerRequest request = ValidTrain("j");
    change(*request.mutable_train());
    requests.push_back(request);
  };
  using Train = internal::Train;
  requests.push_back(ValidTrain(""));
  requests.push_back(ValidTrain(std::string(kMaxNameBytes + 1, 'j')));
  train([](Train& train) { train.clear_dataset(); });
  train([](Train& train) { train.clear_out(); });
  train([](Train& train) { train.clear_out(), train.clear_dataset(); });
  train([](Train& train) { train.mutable_config()->set_method("no such method"); });
  train([](Train& train) { train.mutable_config()->set_steps(0); });
  for (const double amount : {-1.0, 0.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    train([&](Train& train) { train.mutable_config()->set_samples(amount); });
    train([&](Train& train) { train.mutable_config()->set_seconds(amount); });
  }
  train([](Train& train) {
    train.mutable_config()->set_background(static_cast<v1::TrainingConfig::Background>(77));
  });
  train([](Train& train) { train.mutable_config()->set_test_every(4'000'000'000); });
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"learning_rate", "fast"},
                                          {"no_such_key", "1"},
                                          {std::string(1000, 'k'), "1"},
                                          {"step", std::string(1000, '1')}}) {
    train([&](Train& train) { (*train.mutable_config()->mutable_settings())[key] = value; });
  }
  for (const double seconds : {-1.0, 0.0001, 1e10, std::nan("")}) {
    train([&](Train& train) { train.set_checkpoint_interval_seconds(seconds); });
    train([&](Train& train) { train.set_preview_interval_seconds(seconds); });
  }
  train([](Train& train) { train.add_merge(""); });
  train([](Train& train) { train.mutable_ranks()->set_count(1); });
  train([](Train& train) { train.mutable_ranks()->set_count(33); });
  requests.push_back(StopMessage(""));
  requests.push_back(StopMessage("none"));
  requests.emplace_back().mutable_rank_texts();
  requests.push_back(CancelMessage(""));
  requests.push_back(CheckMessage("", "d"));
  requests.push_back(CheckMessage("c", ""));

  const auto render = [&](const std::function<void(internal::Render&)>& change) {
    WorkerRequest request = ValidRender("r");
    change(*request.mutable_render());
    requests.push_back(request);
  };
  using Render = internal::Render;
  requests.push_back(ValidRender(""));
  requests.push_back(ValidRender("r"));  // of a file that is not there
  requests.push_back(ValidRender("r"));
  requests.back().set_job("j");  // and of a file
  render([](Render& render) { render.clear_file(); });
  render([](Render& render) { render.set_file("/etc/passwd"); });
  render([](Render& render) { render.clear_out(); });
  render([](Render& render) { render.clear_view(); });
  const auto view = [&](const std::function<void(v1::RenderImageRequest&)>& change) {
    render([&](Render& render) { change(*render.mutable_view()); });
  };
  using View = v1::RenderImageRequest;
  view([](View& view) { view.mutable_camera(); });
  view([](View& view) { view.clear_orbit(), view.mutable_camera(); });
  view([](View& view) { view.mutable_orbit()->set_index(9); });
  view([](View& view) { view.mutable_orbit()->set_count(4'000'000'000); });
  view([](View& view) { view.mutable_orbit()->set_path(static_cast<v1::PathKind>(77)); });
  view([](View& view) { view.set_width(4'000'000'000); });
  view([](View& view) { view.set_width(99'999); });
  view([](View& view) { view.add_channels(v1::RENDER_CHANNEL_UNSPECIFIED); });
  view([](View& view) { view.add_channels(static_cast<v1::RenderChannel>(77)); });
  view([](View& view) { view.set_format(static_cast<v1::ImageFormat>(77)); });
  view([](View& view) { view.mutable_style()->add_background(1); });
  view([](View& view) {
    for (const double side : {1, 0, 1}) view.mutable_style()->mutable_crop()->add_size(side);
  });
  view([](View& view) { view.mutable_style()->mutable_crop()->add_turn(1); });
  view([](View& view) {
    view.mutable_style()->mutable_panorama()->set_stereo(static_cast<v1::Panorama::Stereo>(7));
  });
  render([](Render& render) { render.mutable_live(); });
  return requests;
}

TEST_F(ServeLoopTest, HostileRequestsAreRefusedOneByOne) {
  for (const std::string& bytes : HostileBytes()) {
    SendRaw(Delimited(bytes));
    const EngineMessage answer = ReceiveAnswer();
    EXPECT_THAT(answer, Says(EngineMessage::kRefused)) << bytes.substr(0, 64);
    EXPECT_THAT(ErrorOf(answer),
                FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid));
  }
  for (const WorkerRequest& request : HostileRequests()) {
    SCOPED_TRACE(request.ShortDebugString());
    Send(request);
    const EngineMessage answer = ReceiveAnswer();
    // A job that is named fails; everything else is refused.
    const bool names_job = request.has_train() && request.job() == "j";
    EXPECT_THAT(answer, Says(names_job ? EngineMessage::kFailed : EngineMessage::kRefused));
    EXPECT_FALSE(ErrorOf(answer).message().empty());
    EXPECT_TRUE(GetReason(ErrorOf(answer)).has_value());
  }
  ExpectAlive();
  EXPECT_FALSE(std::filesystem::exists("o")) << "nothing was created";
}

TEST_F(ServeLoopTest, HostileRequestsDoNotDisturbATraining) {
  Send(TrainMessage("busy", 1'000'000'000));
  ASSERT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
  for (const std::string& bytes : HostileBytes()) {
    SendRaw(Delimited(bytes));
    EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kRefused)) << bytes.substr(0, 64);
  }
  for (const WorkerRequest& request : HostileRequests()) {
    SCOPED_TRACE(request.ShortDebugString());
    Send(request);
    EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kRefused));
  }
  WorkerRequest wrong_stop = StopMessage("busy");
  wrong_stop.set_id(std::string(kMaxNameBytes + 1, 'i'));
  Send(wrong_stop);
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kRefused));
  Send(RenderMessage("r", "", "busy"));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kRendered)) << "it trains on";
  Send(StopMessage("busy"));
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStopped));
}

// A job whose fields are wrong ends, so that its worker can report it.
TEST_F(ServeLoopTest, EveryWrongFieldOfAJobIsListedInItsFailure) {
  WorkerRequest train = ValidTrain("j");
  train.mutable_train()->clear_dataset();
  train.mutable_train()->clear_out();
  Send(train);
  EngineMessage failed = ReceiveAnswer();
  ASSERT_THAT(failed, Says(EngineMessage::kFailed));
  EXPECT_EQ(failed.job(), "j");
  EXPECT_EQ(failed.failed().error().message(), "train.dataset: is missing; train.out: is missing");

  train = TrainMessage("j", 0);
  train.mutable_train()->mutable_config()->set_test_every(4'000'000'000);
  Send(train);
  failed = ReceiveAnswer();
  ASSERT_THAT(failed, Says(EngineMessage::kFailed));
  EXPECT_THAT(failed.failed().error().message(),
              testing::AllOf(testing::HasSubstr("config.steps: "),
                             testing::HasSubstr("config.test_every: ")));
}

TEST_F(ServeLoopTest, EmptyMessageIsAnsweredAsOneWithoutARequest) {
  SendRaw(std::string(3, '\0'));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(ErrorOf(ReceiveAnswer()),
                StatusIs(absl::StatusCode::kInvalidArgument, "request: is missing"));
  }
  ExpectAlive();
}

TEST_F(ServeLoopTest, FieldsThatAreNotKnownAreIgnored) {
  WorkerRequest request = CheckMessage("c", dataset_);
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(99, 1);
  Send(request);
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kChecked));
}

TEST_F(ServeLoopTest, MessageOfMoreThanTheLimitIsRefusedOnceAndTheNextIsRead) {
  SendRaw("\x80\x80\xc0\x02");  // of 5 MiB
  for (int i = 0; i < 5; ++i) SendRaw(std::string(1 << 20, 'x'));
  EXPECT_THAT(ErrorOf(ReceiveAnswer()), StatusIs(absl::StatusCode::kInvalidArgument, "1 MiB"));
  ExpectAlive();
}

TEST_F(ServeLoopTest, NothingIsReadBehindALengthOfMoreThan32Bits) {
  SendRaw("\xff\xff\xff\xff\xff\x01");
  EXPECT_THAT(ErrorOf(ReceiveAnswer()), StatusIs(absl::StatusCode::kInvalidArgument));
  for (int i = 0; i < 3; ++i) Send(CheckMessage("c", dataset_));
  HangUp();
  EXPECT_THAT(ReceiveToTheEnd(), testing::IsEmpty());
  EXPECT_THAT(ended_, IsOk());
}

TEST_F(ServeLoopTest, HugeIdsAndNamesGiveShortAnswers) {
  const std::string huge(1'000'000, 'i');
  for (WorkerRequest request : {CheckMessage(huge, dataset_), ValidTrain(huge), ValidRender(huge),
                                StopMessage(huge), CancelMessage(huge)}) {
    Send(request);
    const EngineMessage answer = ReceiveAnswer();
    EXPECT_THAT(answer, Says(EngineMessage::kRefused));
    EXPECT_LT(answer.ByteSizeLong(), 1000u);
  }
  WorkerRequest check = CheckMessage(std::string(kMaxNameBytes, 'i'), dataset_);
  check.set_job(std::string(kMaxNameBytes + 1, 'j'));
  Send(check);
  const EngineMessage refused = ReceiveAnswer();
  EXPECT_EQ(refused.id(), check.id()) << "is short enough";
  EXPECT_EQ(refused.job(), "");
  EXPECT_THAT(ErrorOf(refused), StatusIs(absl::StatusCode::kInvalidArgument, "job: is too long"));
  check.clear_job();
  Send(check);
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kChecked));
  ExpectAlive();
}

TEST_F(ServeLoopTest, MessageThatIsCutByTheEndIsIgnored) {
  const std::string check = Delimited(CheckMessage("x", dataset_).SerializeAsString());
  SendRaw(check.substr(0, check.size() - 1));
  HangUp();
  EXPECT_THAT(ReceiveToTheEnd(), testing::IsEmpty());
}

// ---- The same as JSON, one message a line, for people.

class ServeJsonTest : public ServeLoopTest {
 protected:
  ServeJsonTest() : ServeLoopTest(MessageForm::kJson) {}

  void SendLine(const std::string& line) { SendRaw(line + "\n"); }
  // What could not be parsed names neither job nor id in its answer.
  void ExpectNoMessage(const std::string& line, const std::string& words = "") {
    SendLine(line);
    const EngineMessage answer = ReceiveAnswer();
    EXPECT_THAT(answer, Says(EngineMessage::kRefused)) << line.substr(0, 200);
    EXPECT_EQ(answer.job() + answer.id(), "") << line.substr(0, 200);
    EXPECT_THAT(ErrorOf(answer), StatusIs(absl::StatusCode::kInvalidArgument, words));
    EXPECT_LT(answer.ByteSizeLong(), 1000u);
  }
};

TEST_F(ServeJsonTest, CheckIsAnsweredByALine) {
  EXPECT_EQ(hello_.device(), "cpu");
  SendLine(R"({"id":"c","check":{"dataset":")" + dataset_ + R"("}})");
  const nlohmann::json answer = nlohmann::json::parse(ReceiveBytes(), nullptr, false);
  ASSERT_TRUE(answer.is_object());
  EXPECT_EQ(answer["id"], "c");
  EXPECT_EQ(answer["checked"]["response"]["ok"], true);
}

TEST_F(ServeJsonTest, JobIsTrainedToItsEnd) { EXPECT_EQ(TrainToTheEnd("j", 5).step(), 5u); }

TEST_F(ServeJsonTest, NamesOfFieldsAreAsTheyAreDeclared) {
  SendLine(R"({"job":"j","train":{"dataset":"/none","out":")" + (dir_ / "j") +
           R"(","checkpoint_interval_seconds":-1}})");
  EXPECT_THAT(ErrorOf(ReceiveAnswer()),
              StatusIs(absl::StatusCode::kInvalidArgument, "train.checkpoint_interval_seconds"));
  SendLine(R"({"id":"r","render":{"file":"none","out":"o","view":{"orbit":{"count":1}}}})");
  EXPECT_THAT(ErrorOf(ReceiveAnswer()), StatusIs(absl::StatusCode::kNotFound));
}

// People write these lines.
TEST_F(ServeJsonTest, FieldsAndWordsThatAreNotKnownAreErrors) {
  ExpectNoMessage(R"({"id":"c","validate":{"dataset":"d"}})", "validate");
  ExpectNoMessage(R"({"fly":{}})", "fly");
  ExpectNoMessage(R"({"id":"c","check":{"dataset":"d","more":1}})", "more");
  ExpectNoMessage(R"({"job":"j","train":{"config":{"background":"PLAID"}}})", "PLAID");
  ExpectNoMessage(R"({"id":"r","render":{"view":{"format":"GIF"}}})", "GIF");
  ExpectAlive();
}

TEST_F(ServeJsonTest, LinesThatAreNoMessageAreRefused) {
  for (const char* line :
       {"garbage", "{", "[]", "null", "3", R"("train")", R"({"check":7})", R"({"check":[]})",
        R"({"id":5,"check":{"dataset":false}})", R"({"job":"j","train":{"dataset":[]}})",
        R"({"job":"j","train":{"config":{"seed":-1}}})",
        R"({"job":"j","train":{"config":{"seed":1.5}}})",
        R"({"job":"j","train":{"config":{"steps":1e300}}})",
        R"({"job":"j","train":{"config":{"settings":[1,2]}}})",
        R"({"id":"r","render":{"view":{"width":-5}}})",
        R"({"id":"r","render":{"view":{"camera":"x"}}})",
        R"({"stop":{},"cancel":{},"job":"j","id":"i"})"}) {
    ExpectNoMessage(line);
  }
  ExpectNoMessage("{}", "request: is missing");
  ExpectAlive();
}

TEST_F(ServeJsonTest, BytesThatAreNoTextAreRefused) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    if (i != '\n') bytes.push_back(static_cast<char>(i));
  }
  ExpectNoMessage(bytes);
  ExpectNoMessage("{\"id\":\"\xff\xfe\",\"check\":{\"dataset\":\"d\"}}");
  SendRaw("\n\n\n");  // empty lines are ignored
  ExpectAlive();
}

TEST_F(ServeJsonTest, EndlessLineIsRefusedOnceAndTheNextLineIsRead) {
  for (int i = 0; i < 5; ++i) SendRaw(std::string(1 << 20, 'x'));
  ExpectNoMessage("", "1 MiB");
  ExpectAlive();
}

TEST_F(ServeJsonTest, DeepNestingIsRefused) {
  for (const auto& [open, close] :
       std::map<std::string, std::string>{{"[", "]"}, {R"({"a":)", "}"}}) {
    std::string opened, closed;
    for (int i = 0; i < 100'000; ++i) opened += open, closed += close;
    ExpectNoMessage(R"({"check":)" + opened);
    ExpectNoMessage(R"({"id":"r","check":)" + opened + "1" + closed + "}");
    ExpectNoMessage(R"({"id":"r","more":)" + opened + "1" + closed + "}");
  }
  ExpectNoMessage(std::string(1'000'000, '{'));
  ExpectAlive();
}

TEST_F(ServeJsonTest, BracketsInStringsAreNoNesting) {
  SendLine(R"({"id":")" + std::string(1000, '[') + R"({","check":{"dataset":")" + dataset_ +
           R"("}})");
  EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kChecked));
}

TEST_F(ServeJsonTest, LineThatIsCutByTheEndIsIgnored) {
  SendRaw(R"({"id":"x","check":{"dataset":"d"}})");
  HangUp();
  EXPECT_THAT(ReceiveToTheEnd(), testing::IsEmpty());
}

}  // namespace
}  // namespace nerf
