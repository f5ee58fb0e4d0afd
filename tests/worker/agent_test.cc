// The agent's stream and job: the server's orders and the agent's reports.
#include "worker/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "common/process/exit_code.h"
#include "tests/testing/status_matchers.h"
#include "tests/worker/scripted_agent.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a failure to read the data set says.
EngineMessage DatasetFailure(const std::string& message, const std::string& problem) {
  EngineMessage failure = Failure(
      "projects/default/jobs/j-1@1",
      WithReason(absl::InvalidArgumentError(message), std::string(reason::kDatasetInvalid)));
  v1::SceneProblem* added = failure.mutable_failed()->add_problems();
  added->set_file("a.png");
  added->set_message(problem);
  return failure;
}

TEST_F(AgentTest, FirstMessageSaysHelloAndNamesNoJob) {
  Start();
  ASSERT_THAT(server_.messages(), SizeIs(1));
  const v1::SynchronizeRequest message = server_.messages()[0];
  EXPECT_EQ(message.hello().worker_id(), "w-test");
  EXPECT_EQ(message.hello().device_description(), "d");
  EXPECT_THAT(message.hello().methods(), ::testing::ElementsAre("ngp", "other"));
  EXPECT_THAT(message.hello().features(), ::testing::Contains("export-nvdb"));
  EXPECT_FALSE(message.has_job());
}

TEST_F(AgentTest, ConnectsOnlyOnceTheEngineIsUp) {
  engines_.hello = false;
  Start();
  EXPECT_EQ(server_.streams(), 0);
  Say(HelloOf("d"));
  EXPECT_EQ(server_.streams(), 1);
}

TEST_F(AgentTest, GrantIsPreparedTrainedCommittedAndReportedUntilAcknowledged) {
  Start();
  Send(Grant(server_, 1));
  ASSERT_TRUE(engines_.Got(WorkerRequest::kTrain).has_train());
  EXPECT_EQ(GotTrain().config().steps(), 30u);
  EXPECT_TRUE(fs::exists(GotTrain().dataset() + "/train/transforms.json"));
  EXPECT_EQ(server_.phase(), v1::JobReport::PREPARING);
  Started();
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_EQ(server_.last_report()->effective_config().background(), v1::TrainingConfig::WHITE);
  SayCheckpoint(30);
  ASSERT_THAT(server_.commits(), SizeIs(1));
  const v1::CommitCheckpointRequest commit = server_.commits()[0];
  EXPECT_EQ(commit.lease_epoch(), 1);
  EXPECT_EQ(commit.worker_id(), "w-test");
  EXPECT_EQ(commit.step(), 30u);
  EXPECT_EQ(server_.Blob(commit.checkpoint_blob().sha256()), "c30");
  EXPECT_EQ(server_.Blob(commit.model_blob().sha256()), "m30");
  SayDone();
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(server_.last_report()->final_psnr(), 31.5);
  EXPECT_EQ(server_.last_report()->progress().fraction(), 1);
  const size_t before = server_.messages().size();
  Pass(absl::Seconds(5));
  EXPECT_GT(server_.messages().size(), before);
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  Send(Acknowledge());
  EXPECT_FALSE(server_.last_report().has_value());
  EXPECT_TRUE(fs::is_empty(Room() + "/jobs"));
}

TEST_F(AgentTest, TrainOrderThatWasSentBeforeTheAcknowledgementIsIgnoredAfterIt) {
  StartTraining();
  SayCheckpoint(30);
  SayDone();
  Send(Acknowledge());
  Send(Grant(server_, 1));
  EXPECT_EQ(agent_->job(), nullptr);
  Send(Grant(server_, 2));
  EXPECT_NE(agent_->job(), nullptr);
}

TEST_F(AgentTest, SuccessIsReportedOnlyAfterTheLastCommit) {
  StartTraining();
  server_.SetCommitResult({absl::StatusCode::kUnavailable, "disk full", "STORE_READ_ONLY"});
  SayCheckpoint(30);
  SayDone();
  Pass(absl::Minutes(5));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  server_.SetCommitResult({});
  Pass(absl::Seconds(2));
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_THAT(server_.commits(), SizeIs(1));
}

TEST_F(AgentTest, CommitThatTheServerCannotTakeForMinutesEndsTheJobInsteadOfHoldingTheWorker) {
  StartTraining();
  server_.SetCommitResult({absl::StatusCode::kInternal, "incident 7", ""});
  SayCheckpoint(30);
  SayDone();
  for (int i = 0; i < 8; ++i) Pass(absl::Seconds(30));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING) << "it may pass within minutes";
  for (int i = 0; i < 12; ++i) Pass(absl::Seconds(30));
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_THAT(server_.last_report()->error().message(), HasSubstr("incident 7"));
}

TEST_F(AgentTest, ProgressIsCoalescedToOneMessageInAWhile) {
  StartTraining();
  const size_t before = server_.messages().size();
  for (int step = 1; step <= 50; ++step) Progress(step);
  EXPECT_EQ(server_.messages().size(), before);
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.messages().size(), before + 1);
  EXPECT_EQ(server_.last_report()->progress().step(), 50u);
}

TEST_F(AgentTest, MetricsCarryWhatHappenedSinceTheLastMessage) {
  StartTraining();
  Progress(10);
  Progress(14);
  Pass(absl::Seconds(1));
  const v1::WorkerMetrics metrics = server_.messages().back().metrics();
  EXPECT_EQ(metrics.train_steps(), 4);
  EXPECT_EQ(metrics.train_samples(), 400);
  EXPECT_EQ(metrics.step_seconds(), 0.5);
  EXPECT_EQ(metrics.loss(), 0.25);
  Pass(absl::Seconds(5));
  EXPECT_EQ(server_.messages().back().metrics().train_steps(), 0);
}

TEST_F(AgentTest, ReadingsOfTheDeviceGoUpOnce) {
  StartTraining();
  EngineMessage message = ProgressAt(1);
  v1::WorkerMetrics& device = *message.mutable_progress()->mutable_device();
  device.set_stall_fraction(0.125);
  device.set_gpu_utilization(0.75);
  device.set_gpu_memory_used_bytes(3'000'000'000);
  device.set_gpu_power_watts(250);
  Say(message);
  Pass(absl::Seconds(1));
  const v1::WorkerMetrics metrics = server_.messages().back().metrics();
  EXPECT_EQ(metrics.stall_fraction(), 0.125);
  EXPECT_EQ(metrics.gpu_utilization(), 0.75);
  EXPECT_EQ(metrics.gpu_memory_used_bytes(), 3'000'000'000u);
  EXPECT_EQ(metrics.gpu_power_watts(), 250);
  EXPECT_FALSE(metrics.has_gpu_temperature_celsius());
  Pass(absl::Seconds(5));
  EXPECT_FALSE(server_.messages().back().metrics().has_stall_fraction());
  EXPECT_FALSE(server_.messages().back().metrics().has_gpu_utilization());
}

TEST_F(AgentTest, WhatTheEngineCallsReadingsAreNoCountsOfTheWorker) {
  StartTraining();
  Progress(1);
  EngineMessage message = ProgressAt(2);
  v1::WorkerMetrics& device = *message.mutable_progress()->mutable_device();
  device.set_train_steps(1'000'000);
  device.set_train_rays(1'000'000);
  device.set_engine_restarts(7);
  device.set_loss(3);
  Say(message);
  Pass(absl::Seconds(1));
  const v1::WorkerMetrics metrics = server_.messages().back().metrics();
  EXPECT_EQ(metrics.train_steps(), 1u);
  EXPECT_EQ(metrics.train_rays(), 10u);
  EXPECT_EQ(metrics.engine_restarts(), 0u);
  EXPECT_EQ(metrics.loss(), 0.25);
}

TEST_F(AgentTest, FiguresThatTheSummaryLacksStayInTheLastReport) {
  StartTraining();
  EngineMessage message = ProgressAt(1);
  auto& sent = *message.mutable_progress()->mutable_progress()->mutable_figures();
  sent["picture_width"] = 4000;
  sent["trained_width"] = 1152;
  sent["occupied_share"] = 0.5;
  Say(message);
  SayCheckpoint(30);
  SayDone();
  Pass(absl::Seconds(1));
  ASSERT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  const v1::Progress progress = server_.last_report()->progress();
  const auto& figures = progress.figures();
  EXPECT_EQ(figures.at("picture_width"), 4000);
  EXPECT_EQ(figures.at("trained_width"), 1152);
  EXPECT_EQ(figures.at("occupied_share"), 0.5);
}

TEST_F(AgentTest, SharesAndTimesOutOfRangeAreClamped) {
  StartTraining();
  EngineMessage message = ProgressAt(1);
  v1::Progress& sent = *message.mutable_progress()->mutable_progress();
  sent.set_fraction(1.5);
  sent.set_eta_seconds(-3);
  Say(message);
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.last_report()->progress().fraction(), 1);
  EXPECT_EQ(server_.last_report()->progress().eta_seconds(), 0);
  sent.set_fraction(-0.5);
  sent.set_eta_seconds(90);
  Say(message);
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.last_report()->progress().fraction(), 0);
  EXPECT_EQ(server_.last_report()->progress().eta_seconds(), 90);
  sent.set_fraction(std::nan(""));
  sent.set_eta_seconds(std::nan(""));
  Say(message);
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.last_report()->progress().fraction(), 0);
  EXPECT_EQ(server_.last_report()->progress().eta_seconds(), 0);
}

// The server lets the job's project read the picture that is named.
TEST_F(AgentTest, OnlyTheWorkerNamesThePictureOfAPreview) {
  StartTraining();
  EngineMessage message = ProgressAt(1);
  v1::Progress& sent = *message.mutable_progress()->mutable_progress();
  *sent.mutable_preview_image() = server_.AddBlob("of another project");
  sent.set_preview_step(1);
  sent.set_psnr_preview(50);
  Say(message);
  Pass(absl::Seconds(1));
  EXPECT_FALSE(server_.last_report()->progress().has_preview_image());
  EXPECT_FALSE(server_.last_report()->progress().has_preview_step());
  EXPECT_FALSE(server_.last_report()->progress().has_psnr_preview());
}

// A report has to fit a message, and each report of the last minutes is kept.
TEST_F(AgentTest, FiguresWithoutEndDoNotPileUp) {
  StartTraining();
  for (uint32_t step = 1; step <= 20; ++step) {
    EngineMessage message = ProgressAt(step);
    auto& figures = *message.mutable_progress()->mutable_progress()->mutable_figures();
    for (int i = 0; i < 1000; ++i) figures[fmt::format("figure_{}_{}", step, i)] = 1;
    figures[std::string(10'000, 'x')] = 1;
    // A field that no version knows.
    google::protobuf::Message& progress = *message.mutable_progress()->mutable_progress();
    progress.GetReflection()->MutableUnknownFields(&progress)->AddLengthDelimited(
        1000, std::string(10'000, 'x'));
    Say(message);
  }
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.last_report()->progress().step(), 20u);
  EXPECT_LT(server_.last_report()->progress().ByteSizeLong(), 20'000u);
}

TEST_F(AgentTest, EffectiveConfigIsTheEnginesWithTheInitOfTheOrder) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 1);
  grant.mutable_desired_job()->mutable_config()->mutable_init()->set_model("projects/p/models/m");
  Send(grant);
  EngineMessage message = AboutJob(Key());
  v1::TrainingConfig& config = *message.mutable_started()->mutable_config();
  config.set_method("ngp");
  config.set_seed(4);
  config.set_samples(1e6);
  config.set_test_every(0);
  config.set_background(v1::TrainingConfig::BLACK);
  (*config.mutable_settings())["ema_decay"] = "0.9";
  Say(message);
  *config.mutable_init() = grant.desired_job().config().init();
  EXPECT_EQ(server_.last_report()->effective_config().ShortDebugString(),
            config.ShortDebugString());
  Send(Order(v1::DesiredJob::ABANDON, 1));
  Say(StoppedAt(Key(), 0));

  Send(Grant(server_, 2));
  message.set_job(Key(2));
  config.mutable_init()->set_model("projects/other/models/m");
  Say(message);
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_FALSE(server_.last_report()->effective_config().has_init());
}

TEST_F(AgentTest, PreviewImageIsUploadedAndNamedInTheReport) {
  StartTraining();
  Progress(1);
  std::ofstream(OutDir() + "/p.png") << "pixels";
  EngineMessage preview = PreviewOf(OutDir() + "/p.png", 2);
  preview.mutable_preview()->set_psnr(20.5);
  Say(preview);
  Progress(3);
  Pass(absl::Seconds(1));
  const v1::Progress progress = server_.last_report()->progress();
  EXPECT_EQ(progress.step(), 3u);
  EXPECT_EQ(progress.preview_step(), 2u);
  EXPECT_EQ(progress.psnr_preview(), 20.5);
  EXPECT_EQ(server_.Blob(progress.preview_image().sha256()), "pixels");
}

TEST_F(AgentTest, CancelStopsTheEngineAndReportsCancelled) {
  StartTraining();
  Send(Order(v1::DesiredJob::CANCEL, 1));
  EXPECT_TRUE(WasToldToStop(/*checkpoint=*/false));
  Say(StoppedAt(Key(), 3));
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
  EXPECT_THAT(server_.commits(), IsEmpty());
}

TEST_F(AgentTest, EngineThatIgnoresTheStopIsKilledAfterFiveSeconds) {
  StartTraining();
  Send(Order(v1::DesiredJob::CANCEL, 1));
  Pass(absl::Milliseconds(4900));
  EXPECT_FALSE(engines_.engine->killed);
  const auto first = engines_.engine;
  Pass(absl::Milliseconds(200));
  EXPECT_TRUE(first->killed);
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
}

TEST_F(AgentTest, CancelWhileFetchingNeedsNoEngine) {
  Start();
  tasks_.Hold();
  Send(Grant(server_, 1));
  Send(Order(v1::DesiredJob::CANCEL, 1));
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
  tasks_.LetGo();
  Settle();
  EXPECT_FALSE(engines_.Got(WorkerRequest::kTrain).has_train());
}

TEST_F(AgentTest, CancelOfAJobThatIsNotHereIsReportedAsDone) {
  Start();
  v1::SynchronizeResponse cancel = Order(v1::DesiredJob::CANCEL, 4);
  cancel.mutable_desired_job()->set_part(2);  // of a render job or a gang
  Send(cancel);
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
  EXPECT_EQ(server_.last_report()->lease_epoch(), 4);
  EXPECT_EQ(server_.last_report()->part(), 2);
}

TEST_F(AgentTest, EngineCrashIsReportedAndTheJobTakenAgainAtAHigherEpoch) {
  StartTraining();
  engines_.Die({EngineExit::Kind::kSignal, 11});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_THAT(FromRpcStatus(server_.last_report()->error()),
              FailsWith(absl::StatusCode::kUnavailable, reason::kEngineCrashed));
  EXPECT_THAT(server_.last_report()->error().message(), HasSubstr("signal 11"));
  EXPECT_FALSE(server_.last_report()->shared_engine());
  Send(Acknowledge());
  Pass(absl::Seconds(1));
  EXPECT_EQ(engines_.launches, 2);
  Send(Grant(server_, 2));
  EXPECT_EQ(engines_.Got(WorkerRequest::kTrain).job(), Key(2));
  Pass(absl::Seconds(5));
  double restarts = 0;
  for (const auto& message : server_.messages()) restarts += message.metrics().engine_restarts();
  EXPECT_EQ(restarts, 1);
}

TEST_F(AgentTest, CheckpointThatWaitsIsCommittedBeforeACrashIsReported) {
  StartTraining();
  server_.SetCommitResult({absl::StatusCode::kUnavailable, "busy", ""});
  SayCheckpoint(10);
  engines_.Die({EngineExit::Kind::kSignal, 11});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  server_.SetCommitResult({});
  Pass(absl::Seconds(2));
  EXPECT_THAT(server_.commits(), SizeIs(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
}

TEST_F(AgentTest, SilentEngineIsKilledAndCountsAsCrashed) {
  StartTraining();
  Pass(absl::Seconds(301));
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_THAT(server_.last_report()->error().message(), HasSubstr("silent"));
}

TEST_F(AgentTest, LongIdleTimeBeforeAGrantIsNoHang) {
  Start();
  Pass(absl::Hours(3));
  Send(Grant(server_, 1));
  Started();
  Pass(absl::Seconds(100));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_EQ(engines_.launches, 1);
}

TEST_F(AgentTest, FencedCommitAbandonsTheJob) {
  StartTraining();
  server_.SetCommitResult(
      {absl::StatusCode::kFailedPrecondition, "stale", std::string(reason::kLeaseFenced)});
  SayCheckpoint(10);
  EXPECT_TRUE(WasToldToStop(/*checkpoint=*/false));
  EXPECT_FALSE(server_.last_report().has_value());
  EXPECT_EQ(agent_->job(), nullptr);
}

TEST_F(AgentTest, SecondCheckpointOfTheSameStepIsCommittedAfterTheFirst) {
  // The last step's checkpoint may still be uploading when the budget is spent.
  StartTraining();
  tasks_.Hold();
  SayCheckpoint(30);
  SayCheckpoint(30);
  SayDone();
  tasks_.LetGo();
  Settle();
  EXPECT_THAT(server_.commits(), SizeIs(2));
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
}

TEST_F(AgentTest, JobWhoseNewestCheckpointWasRefusedBeforeItsEndFails) {
  // The engine writes one checkpoint of its last step, and the server refused that one.
  StartTraining();
  SayCheckpoint(20);
  server_.SetCommitResult({absl::StatusCode::kInvalidArgument, "too large", ""});
  SayCheckpoint(30);
  server_.SetCommitResult({});
  SayDone();
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_THAT(server_.last_report()->error().message(), HasSubstr("too large"));
}

TEST_F(AgentTest, JobWhoseRefusedCheckpointWasFollowedByAGoodOneSucceeds) {
  StartTraining();
  server_.SetCommitResult({absl::StatusCode::kInvalidArgument, "too large", ""});
  SayCheckpoint(20);
  server_.SetCommitResult({});
  SayCheckpoint(30);
  SayDone();
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
}

TEST_F(AgentTest, CheckpointFileThatVanishesIsNotTakenForALostLease) {
  StartTraining();
  tasks_.Hold();
  SayCheckpoint(10);
  for (const auto& job : fs::directory_iterator(Room() + "/jobs")) {
    fs::remove_all(job.path() / "commit");
    fs::create_directory(job.path() / "commit");
  }
  tasks_.LetGo();
  Settle();
  EXPECT_FALSE(engines_.Got(WorkerRequest::kStop).has_stop());
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  SayCheckpoint(20);
  EXPECT_THAT(server_.commits(), SizeIs(1));

  // Without its last checkpoint the job has no result.
  tasks_.Hold();
  SayCheckpoint(30);
  SayDone();
  for (const auto& job : fs::directory_iterator(Room() + "/jobs")) {
    fs::remove_all(job.path() / "commit");
  }
  tasks_.LetGo();
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
}

TEST_F(AgentTest, AbandonOfAnEarlierEpochIsIgnored) {
  Start();
  Send(Grant(server_, 5));
  Started(5);
  Send(Order(v1::DesiredJob::ABANDON, 4));
  ASSERT_NE(agent_->job(), nullptr);
  Send(Order(v1::DesiredJob::ABANDON, 5));
  EXPECT_EQ(agent_->job(), nullptr);
}

TEST_F(AgentTest, NextJobWaitsUntilTheEngineHasLeftTheAbandonedOne) {
  StartTraining();
  Send(Order(v1::DesiredJob::ABANDON, 1));
  Send(Grant(server_, 2));
  EXPECT_EQ(engines_.Got(WorkerRequest::kTrain).job(), Key(1));
  Say(StoppedAt(Key(1), 3));
  EXPECT_EQ(engines_.Got(WorkerRequest::kTrain).job(), Key(2));
}

TEST_F(AgentTest, OutageDisturbsNothingAndTheStreamComesBackAtTheSameEpoch) {
  StartTraining();
  server_.SetAway(true);
  Settle();
  SayCheckpoint(10);
  Progress(12);
  Pass(absl::Minutes(2));
  EXPECT_TRUE(agent_->lease_doubtful());
  SayCheckpoint(20);  // replaces that of step 10
  EXPECT_FALSE(engines_.Got(WorkerRequest::kStop).has_stop());
  server_.SetAway(false);
  Pass(absl::Seconds(6));
  const v1::SynchronizeRequest first = server_.messages().back();
  EXPECT_TRUE(first.has_hello());
  EXPECT_EQ(first.job().job(), kJob);
  EXPECT_EQ(first.job().lease_epoch(), 1);
  EXPECT_EQ(first.job().phase(), v1::JobReport::RUNNING);
  EXPECT_EQ(first.job().progress().step(), 12u);
  ASSERT_THAT(server_.commits(), SizeIs(1));
  EXPECT_EQ(server_.commits()[0].step(), 20u);
  Send(Grant(server_, 1));
  EXPECT_FALSE(agent_->lease_doubtful());
  EXPECT_EQ(engines_.launches, 1);
}

TEST_F(AgentTest, ReconnectsWithGrowingPauses) {
  Start();
  server_.SetAway(true);
  Settle();
  for (int i = 0; i < 600; ++i) Pass(absl::Milliseconds(100));
  // 60 s, with pauses that grow to 2.5 to 5 s.
  EXPECT_GT(server_.streams(), 10);
  EXPECT_LT(server_.streams(), 32);
}

TEST_F(AgentTest, OrphanedJobCheckpointsAndStopsAfterTheGraceTime) {
  StartTraining();
  server_.SetAway(true);
  Settle();
  for (int minute = 0; minute < 31; ++minute) {
    Progress(minute);
    Pass(absl::Minutes(1));
  }
  EXPECT_TRUE(WasToldToStop(/*checkpoint=*/true));
  SayCheckpoint(29);
  Say(StoppedAt(Key(), 29));
  server_.SetAway(false);
  Pass(absl::Seconds(6));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
}

TEST_F(AgentTest, ShutdownCheckpointsCommitsReleasesAndEndsOnAcknowledgement) {
  StartTraining();
  agent_->Shutdown();
  Settle();
  EXPECT_TRUE(server_.messages().back().draining());
  EXPECT_TRUE(WasToldToStop(/*checkpoint=*/true));
  SayCheckpoint(7);
  Say(StoppedAt(Key(), 7));
  ASSERT_THAT(server_.commits(), SizeIs(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_FALSE(agent_->result().has_value());
  Send(Acknowledge());
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_TRUE(agent_->result()->ok());
}

TEST_F(AgentTest, PauseCommitsACheckpointAndReleasesTheJobWhileTheWorkerGoesOn) {
  StartTraining();
  Send(Order(v1::DesiredJob::CHECKPOINT_AND_STOP, 1));
  Send(Order(v1::DesiredJob::CHECKPOINT_AND_STOP, 1));  // repeated with each heartbeat
  EXPECT_TRUE(WasToldToStop(/*checkpoint=*/true));
  EXPECT_FALSE(server_.messages().back().draining());
  SayCheckpoint(7);
  Say(StoppedAt(Key(), 7));
  ASSERT_THAT(server_.commits(), SizeIs(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
  Send(Acknowledge());
  EXPECT_FALSE(agent_->result().has_value());
}

TEST_F(AgentTest, CancelAfterAPauseStopsWithoutWaitingForTheCheckpoint) {
  StartTraining();
  Send(Order(v1::DesiredJob::CHECKPOINT_AND_STOP, 1));
  Send(Order(v1::DesiredJob::CANCEL, 1));
  Say(StoppedAt(Key(), 7));
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
}

TEST_F(AgentTest, PauseOfAJobThatIsNotHereReleasesIt) {
  Start();
  Send(Order(v1::DesiredJob::CHECKPOINT_AND_STOP, 1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
}

TEST_F(AgentTest, ShutdownEndsWithinTwentyFiveSecondsWhateverIsMissing) {
  StartTraining();
  server_.SetAway(true);
  agent_->Shutdown();
  Pass(absl::Seconds(25));
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_TRUE(agent_->result()->ok());
}

TEST_F(AgentTest, IdleWorkerShutsDownAtOnce) {
  Start();
  agent_->Shutdown();
  Settle();
  EXPECT_TRUE(agent_->result().has_value());
}

TEST_F(AgentTest, DrainingWorkerHandsAGrantStraightBack) {
  Start();
  Send(Grant(server_, 1));
  agent_->Shutdown();
  Send(Order(v1::DesiredJob::ABANDON, 1));
  server_.Send(Grant(server_, 2));
  mailbox_.RunAll();
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->lease_epoch(), 2);
}

TEST_F(AgentTest, ErrorOfCodeOkIsStillAnError) {
  for (const bool refuses : {false, true}) {
    SCOPED_TRACE(refuses);
    const uint64_t epoch = refuses ? 2 : 1;
    if (!refuses) Start();
    Send(Grant(server_, epoch));
    EngineMessage message = AboutJob(Key(epoch));
    google::rpc::Status& error =
        refuses ? *message.mutable_refused() : *message.mutable_failed()->mutable_error();
    error.set_message("m");
    Say(message);
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
    EXPECT_THAT(FromRpcStatus(server_.last_report()->error()),
                StatusIs(absl::StatusCode::kUnknown, "m"));
    Send(Acknowledge());
  }
}

TEST_F(AgentTest, RefusalOfTheTrainingFailsTheJob) {
  Start();
  Send(Grant(server_, 1));
  Say(Refusal("", WithReason(absl::FailedPreconditionError("another job"), "BUSY"), Key()));
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_THAT(FromRpcStatus(server_.last_report()->error()),
              FailsWith(absl::StatusCode::kFailedPrecondition, "BUSY"));
}

TEST_F(AgentTest, FailureOfTheEngineCarriesReasonAndProblems) {
  Start();
  Send(Grant(server_, 1));
  Say(DatasetFailure("2 problems", "broken"));
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_THAT(FromRpcStatus(server_.last_report()->error()),
              FailsWith(absl::StatusCode::kInvalidArgument, "DATASET_INVALID"));
  ASSERT_EQ(server_.last_report()->problems_size(), 1);
  EXPECT_EQ(server_.last_report()->problems(0).file(), "a.png");
}

TEST_F(AgentTest, ListsOfTheEngineAreCut) {
  Start();
  Send(Grant(server_, 1));
  EngineMessage message = DatasetFailure("many problems", "broken");
  for (int i = 0; i < 100'000; ++i) message.mutable_failed()->add_problems();
  Say(message);
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  ASSERT_EQ(server_.last_report()->problems_size(), 500);
  EXPECT_EQ(server_.last_report()->problems(0).message(), "broken");
  EXPECT_EQ(server_.last_report()->problems(499).message(), "and 99502 more problems");
}

TEST_F(AgentTest, TrainingWithoutAGangTellsNobody) {
  StartTraining();
  EngineMessage text = AboutJob(Key());
  text.mutable_rank_text()->set_text("text");
  Say(text);
  EXPECT_FALSE(server_.messages().back().has_rank_text());
}

TEST_F(AgentTest, OrderThatNoEngineTakesFailsTheJob) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 1);
  (*grant.mutable_desired_job()->mutable_config()->mutable_settings())["large"] =
      std::string(2 << 20, 'x');
  Send(grant);
  EXPECT_FALSE(engines_.Got(WorkerRequest::kTrain).has_train());
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_THAT(FromRpcStatus(server_.last_report()->error()),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kSizeLimit));
}

TEST_F(AgentTest, FailureDoesNotNameFoldersOfTheWorker) {
  Start();
  Send(Grant(server_, 1));
  const std::string scene = GotTrain().dataset();
  Say(DatasetFailure(scene + ": a.png: broken", "cannot read " + scene + "/a.png"));
  EXPECT_EQ(server_.last_report()->error().message(), "a.png: broken");
  ASSERT_EQ(server_.last_report()->problems_size(), 1);
  EXPECT_EQ(server_.last_report()->problems(0).message(), "cannot read a.png");
}

TEST_F(AgentTest, ResumeFileIsFetchedAndHandedToTheEngine) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 2);
  *grant.mutable_desired_job()->mutable_resume()->mutable_checkpoint_blob() =
      server_.AddBlob("weights");
  Send(grant);
  EXPECT_THAT(ReadFile(GotTrain().resume(), 100), IsOkAndHolds("weights"));
  EXPECT_FALSE(GotTrain().extend());
}

TEST_F(AgentTest, ExtendedJobIsHandedToTheEngineAsSuch) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 2);
  *grant.mutable_desired_job()->mutable_resume()->mutable_checkpoint_blob() =
      server_.AddBlob("weights");
  grant.mutable_desired_job()->set_extend(true);
  Send(grant);
  EXPECT_TRUE(GotTrain().extend());
}

// Only checkpoints of a budget in seconds hold the training time; others begin at 0 again.
TEST_F(AgentTest, SecondsOfEarlierAttemptsCount) {
  for (const bool budget_in_seconds : {false, true}) {
    SCOPED_TRACE(budget_in_seconds);
    const uint64_t epoch = budget_in_seconds ? 3 : 2;
    if (!budget_in_seconds) Start();
    v1::SynchronizeResponse grant = Grant(server_, epoch);
    v1::DesiredJob& desired = *grant.mutable_desired_job();
    if (budget_in_seconds) desired.mutable_config()->set_seconds(100);
    *desired.mutable_resume()->mutable_checkpoint_blob() = server_.AddBlob("weights");
    desired.mutable_resume()->set_seconds(40);
    Send(grant);
    Started(epoch);
    Progress(10, epoch);
    Pass(absl::Seconds(1));
    const double before = budget_in_seconds ? 0 : 40;
    EXPECT_EQ(server_.last_report()->progress().seconds(), before + 5);
    SayCheckpoint(12, epoch);
    EXPECT_EQ(server_.commits().back().seconds(), before + 5);
    SayDone(epoch);
    EXPECT_EQ(server_.last_report()->progress().seconds(), before + 15);
    Send(Acknowledge());
  }
}

TEST_F(AgentTest, SceneFileOutsideTheSceneFailsTheJob) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 1);
  grant.mutable_desired_job()->mutable_files(0)->set_path("../../lock");
  Send(grant);
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_EQ(server_.last_report()->error().code(), 3);
  EXPECT_FALSE(engines_.Got(WorkerRequest::kTrain).has_train());
}

TEST_F(AgentTest, BlobWithWrongBytesIsFetchedAgainAndThenFailsTheJob) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 1);
  server_.CorruptBlob(grant.desired_job().files(0).blob(), "{\"frames\": [!]");
  Send(grant);
  EXPECT_EQ(server_.phase(), v1::JobReport::PREPARING);
  for (int i = 0; i < 3; ++i) Pass(absl::Seconds(2));
  EXPECT_EQ(server_.reads(), 3);
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_EQ(server_.last_report()->error().code(), 15);
}

TEST_F(AgentTest, PictureThatTheServerCallsDamagedIsReportedAtOnce) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 1);
  server_.CorruptBlob(grant.desired_job().files(0).blob(), "{\"frames\": [!]");
  server_.SetCheckResult(WithReason(absl::DataLossError("damaged"), reason::kBlobDamaged));
  Send(grant);
  EXPECT_EQ(server_.reads(), 1);
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  const auto why = GetReason(FromRpcStatus(server_.last_report()->error()));
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->reason, reason::kBlobDamaged);
}

TEST_F(AgentTest, DamagedOrMissingCheckpointIsReportedAsSuch) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 1);
  const v1::BlobRef blob = server_.AddBlob("weights");
  *grant.mutable_desired_job()->mutable_resume()->mutable_checkpoint_blob() = blob;
  server_.CorruptBlob(blob, "weightz");
  Send(grant);
  for (int i = 0; i < 3; ++i) Pass(absl::Seconds(2));
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  const auto why = GetReason(FromRpcStatus(server_.last_report()->error()));
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->reason, reason::kCheckpointCorrupt);
}

// While this exists no file can be opened: missing file descriptors stand in for a full disk.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST_F(AgentTest, WorkerWithoutRoomForAJobsFilesHandsItBackAfterSomeTries) {
  Start();
  {
    const NoDescriptors no_room;
    Send(Grant(server_, 1));
    EXPECT_EQ(server_.phase(), v1::JobReport::PREPARING) << "there may be room in a moment";
    for (int i = 0; i < 3; ++i) Pass(absl::Seconds(30));
  }
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->release_reason(), v1::JobReport::NO_ROOM);
  Send(Acknowledge());
  Send(Grant(server_, 2));
  EXPECT_TRUE(engines_.Got(WorkerRequest::kTrain).has_train()) << "with room again";
}

TEST_F(AgentTest, JobWhoseEngineFindsTheDiskFullIsHandedBack) {
  StartTraining();
  Say(Failure(Key(),
              WithReason(absl::UnavailableError("write step10.checkpoint: No space left on device"),
                         std::string(reason::kStoreReadOnly))));
  Pass(absl::Seconds(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->release_reason(), v1::JobReport::NO_ROOM);
}

TEST_F(AgentTest, ReplacedProcessEndsForGood) {
  StartTraining();
  server_.SetOpenResult({absl::StatusCode::kFailedPrecondition, "another process has taken over",
                         std::string(reason::kWorkerReplaced)});
  server_.SetAway(true);  // ends the stream; the next one is refused
  Settle();
  server_.SetAway(false);
  Pass(absl::Seconds(10));
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_EQ(agent_->result()->reason, reason::kWorkerReplaced);
}

TEST_F(AgentTest, PathsOutsideTheOutFolderAreRefused) {
  StartTraining();
  std::ofstream(dir_ / "secret") << "secret";
  fs::create_symlink(dir_ / "secret", OutDir() + "/link");
  for (const std::string& path :
       {dir_ / "secret", OutDir() + "/../../../secret", OutDir() + "/link", std::string()}) {
    Say(CheckpointOf(path, path, 3));
    Say(PreviewOf(path, 3));
  }
  Pass(absl::Seconds(2));
  EXPECT_THAT(server_.commits(), IsEmpty());
  EXPECT_FALSE(server_.last_report()->progress().has_preview_image());
  EXPECT_FALSE(server_.Blob(Sha256Hex("secret")).has_value());
  EXPECT_TRUE(fs::exists(dir_ / "secret"));
}

TEST_F(AgentTest, EngineThatNeverStartsEndsTheWorkerWithTheReason) {
  engines_.broken = true;
  Start();
  for (int i = 0; i < 10; ++i) Pass(absl::Seconds(5));
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_THAT(agent_->result()->message, HasSubstr("/nowhere"));
}

TEST_F(AgentTest, EngineThatRefusesItsDeviceEndsTheWorkerAtOnce) {
  engines_.hello = false;
  Start();
  engines_.Die({EngineExit::Kind::kCode, kUsage});
  Pass(absl::Milliseconds(10));
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_THAT(agent_->result()->message, HasSubstr("refuses the device"));
  EXPECT_EQ(engines_.launches, 1);
}

TEST_F(AgentTest, DeviceThatHasWorkedIsTriedAgain) {
  Start();
  engines_.hello = false;
  for (int i = 0; i < 2; ++i) {
    engines_.Die({EngineExit::Kind::kCode, kUsage});
    Settle();
    Pass(absl::Seconds(1));
  }
  EXPECT_FALSE(agent_->result().has_value());
  EXPECT_EQ(engines_.launches, 3);
}

TEST_F(AgentTest, RefusedTokenEndsAWorkerThatNeverConnected) {
  server_.SetOpenResult({absl::StatusCode::kUnauthenticated, "bad token", "TOKEN_INVALID"});
  Start();
  ASSERT_TRUE(agent_->result().has_value());
  EXPECT_EQ(agent_->result()->code, absl::StatusCode::kUnauthenticated);
}

TEST_F(AgentTest, LeftoverFoldersOfAnEarlierProcessAreRemoved) {
  fs::create_directories(dir_ / "rooms/7/jobs/1/scene");
  fs::create_directories(dir_ / "jobs/7/scene");  // of an earlier version
  fs::create_directories(dir_ / "open");
  Start();
  EXPECT_FALSE(fs::exists(dir_ / "rooms/7"));
  EXPECT_FALSE(fs::exists(dir_ / "jobs"));
  EXPECT_FALSE(fs::exists(dir_ / "open"));
  EXPECT_TRUE(fs::is_empty(Room() + "/jobs"));
}

TEST_F(AgentTest, MessagesThatCannotBeReadChangeNothing) {
  StartTraining();
  const std::string good = ProgressAt(3).SerializeAsString();
  EngineMessage of_no_kind = AboutJob(Key());
  of_no_kind.set_id("r1");
  for (const std::string& bytes :
       {std::string(), std::string("\xff\xff\xff"), std::string(100, '\0'),
        good.substr(0, good.size() - 1), of_no_kind.SerializeAsString(),
        std::string("{\"progress\":{}}"), std::string(1 << 20, 'x')}) {
    ScriptedEngines::SayBytes(bytes, *engines_.engine);
    Settle();
  }
  // A text that is not UTF-8.
  EngineMessage text = AboutJob(Key());
  text.mutable_failed()->mutable_error()->set_message("mmmm");
  std::string bytes = text.SerializeAsString();
  bytes.replace(bytes.find("mmmm"), 4, "\xff\xfe\xff\xfe");
  ScriptedEngines::SayBytes(bytes, *engines_.engine);
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  EXPECT_EQ(engines_.launches, 1);
  // Neither does an engine that sends nothing else count as one that works.
  for (int i = 0; i < 4; ++i) {
    Pass(absl::Seconds(100));
    if (engines_.launches > 1) break;
    ScriptedEngines::SayBytes("\xff", *engines_.engine);
  }
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
}

TEST_F(AgentTest, JobOfAnotherProjectGetsAnEngineThatHasWorkedForNoOther) {
  StartTraining();
  SayCheckpoint(30);
  SayDone();
  Send(Acknowledge());
  Send(Grant(server_, 2));
  EXPECT_EQ(engines_.launches, 1) << "the same project";
  Started(2);
  SayCheckpoint(30, 2);
  SayDone(2);
  Send(Acknowledge());
  v1::SynchronizeResponse other = Grant(server_, 1);
  other.mutable_desired_job()->set_job("projects/other/jobs/j-1");
  const auto before = engines_.engine;
  Send(other);
  EXPECT_EQ(engines_.launches, 2);
  EXPECT_FALSE(before->alive);
  EXPECT_EQ(engines_.Got(WorkerRequest::kTrain).job(), "projects/other/jobs/j-1@1");
  EXPECT_EQ(server_.messages().back().metrics().engine_restarts(), 0u);
}

}  // namespace
}  // namespace nerf
