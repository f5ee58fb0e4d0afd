// What a watch makes of streams that break, end, hang and are interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/rpc/rpc_status.h"
#include "tests/client/service_fixture.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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

TEST_F(ServiceTest, JobThatAnotherStoreHadIsNotCalledDeleted) {
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 4, J::RUNNING, 10)}, absl::UnavailableError("x")},
      {{}, WithReason(absl::DataLossError("token of another store"), reason::kEpochMismatch)},
      {{}, WithReason(absl::NotFoundError("no job j-fake"), reason::kResourceNotFound)}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("the server was set up anew"));
  EXPECT_THAT(result.err, Not(HasSubstr("was deleted")));
}

TEST_F(ServiceTest, WatchOfAJobThatDoesNotExistIsNotRepeated) {
  state_.errors["WatchTrainingJob"] = {
      WithReason(absl::NotFoundError("no job j-9"), reason::kResourceNotFound)};
  const CommandResult result = Run({"job", "watch", "j-9"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_EQ(result.err, "nerfctl: no job j-9 (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(state_.calls["WatchTrainingJob"], 1);
}

TEST_F(ServiceTest, JobThatIsDeletedWhileTheStreamIsDownIsSaidToBe) {
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 4, J::RUNNING, 20)}, absl::UnavailableError("going down")},
      {{}, WithReason(absl::NotFoundError("no job j-fake"), reason::kResourceNotFound)}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("nerfctl: job j-fake was deleted"));
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

TEST_F(ServiceTest, WhatAQueuedJobWaitsForIsToldOnceAndWheneverItChanges) {
  W queued = Message(W::SNAPSHOT, 1, J::QUEUED);
  queued.mutable_training_job()->mutable_wait()->set_message("no worker is connected");
  W same = queued;
  same.set_kind(W::BOOKMARK);
  W later = same;
  later.mutable_training_job()->mutable_wait()->set_message("the only worker is busy\x1b");
  state_.watch_scripts = {
      {{queued, same, later, later, Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100)},
       absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.err, StartsWith("job j-fake QUEUED, waits: no worker is connected\n"
                                     "job j-fake waits: the only worker is busy?\n"
                                     "job j-fake SUCCEEDED\n"));
}

TEST_F(ServiceTest, JobThatComesBackSaysWhyInWordsAndWhereItGoesOnFrom) {
  W lost = Message(W::STATE_CHANGED, 2, J::QUEUED, 50);
  lost.mutable_training_job()->set_queue_reason("WORKER_LOST");
  W again = Message(W::STATE_CHANGED, 3, J::PREPARING, 50);
  again.mutable_training_job()->set_attempt(2);
  W crashed = Message(W::STATE_CHANGED, 4, J::QUEUED, 50);
  crashed.mutable_training_job()->set_attempt(2);
  crashed.mutable_training_job()->set_queue_reason("ENGINE_CRASHED");
  W third = Message(W::STATE_CHANGED, 5, J::PREPARING, 50);
  third.mutable_training_job()->set_attempt(3);
  for (const uint32_t step : {20u, 40u})
    third.mutable_training_job()->add_checkpoints()->set_step(step);
  state_.watch_scripts = {{{Message(W::SNAPSHOT, 1, J::RUNNING, 50), lost, again, crashed, third,
                            Message(W::STATE_CHANGED, 6, J::SUCCEEDED, 100)},
                           absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake", "--progress", "plain"});
  EXPECT_THAT(result.err,
              HasSubstr("job j-fake QUEUED again: its worker was lost (WORKER_LOST)\n"));
  EXPECT_THAT(result.err, HasSubstr("job j-fake PREPARING on w-1, attempt 2, from the start\n"));
  EXPECT_THAT(result.err,
              HasSubstr("job j-fake QUEUED again: the engine crashed (ENGINE_CRASHED)\n"));
  EXPECT_THAT(result.err,
              HasSubstr("job j-fake PREPARING on w-1, attempt 3, from checkpoint at step 40\n"));
}

TEST_F(ServiceTest, EvaluationAtTheEndIsShown) {
  W evaluating = Message(W::SNAPSHOT, 1, J::RUNNING, 100);
  evaluating.mutable_training_job()->mutable_progress()->set_evaluated_views(3);
  evaluating.mutable_training_job()->mutable_progress()->set_evaluation_views(25);
  state_.watch_scripts = {
      {{evaluating, Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100)}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake", "--progress", "plain"});
  EXPECT_THAT(result.err, HasSubstr("evaluating 3/25 test views"));
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
  EXPECT_THAT(result.err,
              HasSubstr("--timeout of 300ms ran out before the job's end; the job keeps "
                        "running (DEADLINE_EXCEEDED)\n"));
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

}  // namespace
}  // namespace nerf
