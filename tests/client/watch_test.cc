// Watches whose streams break, end, hang or are interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "client/flags/interrupt.h"
#include "client/show/terminal_image.h"
#include "common/clock.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/messages/blob_ref.h"
#include "common/messages/rpc_status.h"
#include "common/process/exit_code.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/temp_dir.h"

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
      // The server ended the stream with OK before the job's end.
      {{Message(W::SNAPSHOT, 5, J::RUNNING, 50)}, absl::OkStatus()},
      {{Message(W::SNAPSHOT, 6, J::RUNNING, 60), Message(W::STATE_CHANGED, 7, J::SUCCEEDED, 100)},
       absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  std::vector<std::string> tokens;
  for (const auto& request : state_.watch) {
    EXPECT_EQ(request.name(), kJob);
    // gRPC itself retries a stream that breaks before its first message.
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
      << "each state is printed once, however often the stream breaks";
}

TEST_F(ServiceTest, WatchThatAnEndingServerDropsGoesOn) {
  // The client did not cancel, so the server has ended the stream.
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
  EXPECT_THAT(result.err, HasSubstr("the server has a new store"));
  EXPECT_THAT(result.err, Not(HasSubstr("was deleted")));
}

TEST_F(ServiceTest, WatchOfAJobThatDoesNotExistIsNotRepeated) {
  state_.errors["WatchJob"] = {
      WithReason(absl::NotFoundError("no job j-9"), reason::kResourceNotFound)};
  const CommandResult result = Run({"job", "watch", "j-9"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_EQ(result.err, "nerfctl: no job j-9 (RESOURCE_NOT_FOUND)\n");
  EXPECT_EQ(state_.calls["WatchJob"], 1);
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
  *failed.mutable_job()->mutable_error() =
      ToRpcStatus(WithReason(absl::AbortedError("loss is not finite"), reason::kTrainingDiverged));
  v1::SceneProblem& problem = *failed.mutable_job()->add_problems();
  problem.set_file("a.png");
  problem.set_message("is cut off");
  state_.watch_scripts = {{{failed}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_EQ(result.exit_code, kJobFailed);
  EXPECT_THAT(result.err, HasSubstr("job j-fake failed: loss is not finite (TRAINING_DIVERGED)"));
  EXPECT_THAT(result.err, HasSubstr("error  a.png: is cut off"));
  EXPECT_THAT(result.err, Not(HasSubstr("next:")));
}

TEST_F(ServiceTest, ProblemsOfAFailedJobsSceneAreSaidOnce) {
  W failed = Message(W::SNAPSHOT, 1, J::FAILED);
  v1::Job& job = *failed.mutable_job();
  *job.mutable_error() = ToRpcStatus(
      WithReason(absl::InvalidArgumentError("a.png: is cut off"), reason::kDatasetInvalid));
  v1::SceneProblem& problem = *job.add_problems();
  problem.set_file("a.png");
  problem.set_message("is cut off");
  state_.watch_scripts = {{{failed}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  EXPECT_THAT(result.err,
              testing::EndsWith("error  a.png: is cut off\n"
                                "nerfctl: job j-fake failed: the scene cannot be trained on "
                                "(DATASET_INVALID)\n"));
}

TEST_F(ServiceTest, CancelledJobIsExitThree) {
  state_.watch_scripts = {{{Message(W::SNAPSHOT, 1, J::CANCELLED)}, absl::OkStatus()}};
  EXPECT_EQ(Run({"job", "watch", "j-fake"}).exit_code, kJobFailed);
}

TEST_F(ServiceTest, WhatAQueuedJobWaitsForIsToldOnceAndWheneverItChanges) {
  W queued = Message(W::SNAPSHOT, 1, J::QUEUED);
  queued.mutable_job()->mutable_wait()->set_message("no worker is connected");
  W same = queued;
  same.set_kind(W::BOOKMARK);
  W later = same;
  later.mutable_job()->mutable_wait()->set_message("the only worker is busy\x1b");
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
  lost.mutable_job()->set_queue_reason("WORKER_LOST");
  W again = Message(W::STATE_CHANGED, 3, J::PREPARING, 50);
  again.mutable_job()->set_attempt(2);
  W crashed = Message(W::STATE_CHANGED, 4, J::QUEUED, 50);
  crashed.mutable_job()->set_attempt(2);
  crashed.mutable_job()->set_queue_reason("ENGINE_CRASHED");
  W third = Message(W::STATE_CHANGED, 5, J::PREPARING, 50);
  third.mutable_job()->set_attempt(3);
  for (const uint32_t step : {20u, 40u})
    third.mutable_job()->mutable_training_status()->add_checkpoints()->set_step(step);
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
  evaluating.mutable_job()->mutable_training_status()->mutable_progress()->set_evaluated_views(3);
  evaluating.mutable_job()->mutable_training_status()->mutable_progress()->set_evaluation_views(25);
  state_.watch_scripts = {
      {{evaluating, Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100)}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake", "--progress", "plain"});
  EXPECT_THAT(result.err, HasSubstr("evaluating 3/25 test views"));
}

// A clock that goes on by a second with each look at it, and interrupts at the 60th.
class HastyClock final : public Clock {
 public:
  explicit HastyClock(Interrupt* interrupt) : interrupt_(interrupt) {}
  SteadyTime Now() const override {
    const int n = ++n_looks_;
    if (n == 60) interrupt_->Request(SIGINT);
    return SteadyTime() + absl::Seconds(n);
  }
  absl::Time WallNow() const override { return absl::UnixEpoch(); }

 private:
  Interrupt* const interrupt_;
  mutable std::atomic<int> n_looks_ = 0;
};

// A message of a job whose evaluation has just begun and is expected to take `seconds`.
W Evaluating(double seconds, double occupied_share) {
  W message = Message(W::SNAPSHOT, 1, J::RUNNING, 100);
  v1::Progress& progress = *message.mutable_job()->mutable_training_status()->mutable_progress();
  progress.set_evaluation_views(7);
  progress.set_eta_seconds(seconds);
  (*progress.mutable_figures())["occupied_share"] = occupied_share;
  return message;
}

TEST_F(ServiceTest, EvaluationWithoutMessagesCountsItsEtaDownAndSaysWhyItIsSlow) {
  Interrupt interrupt;
  const HastyClock clock(&interrupt);
  state_.watch_scripts = {{{Evaluating(220, 0.97)}, absl::OkStatus(), /*hang=*/true}};
  const CommandResult result =
      Run({"job", "watch", "j-fake", "--progress", "plain"},
          {.clock = &clock, .interrupt = &interrupt, .tick = absl::Milliseconds(1)});
  EXPECT_THAT(
      result.err,
      HasSubstr("views are slow because the model is barely trained: 97% of its space still "
                "counts as occupied, so rays skip little of it; the test views take about "
                "3:40\n"));
  EXPECT_THAT(result.err, HasSubstr("evaluating 0/7 test views  eta 3:40\n"));
  EXPECT_THAT(result.err, testing::ContainsRegex("evaluating 0/7 test views  eta 3:[0-3][0-9]\n"));
}

TEST_F(ServiceTest, EvaluationOfATrainedModelIsNotCalledSlow) {
  W done = Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100);
  state_.watch_scripts = {{{Evaluating(220, 0.03), done}, absl::OkStatus()}};
  EXPECT_THAT(Run({"job", "watch", "j-fake", "--progress", "plain"}).err,
              Not(HasSubstr("barely trained")));
  state_.watch_scripts = {{{Evaluating(2, 0.97), done}, absl::OkStatus()}};
  EXPECT_THAT(Run({"job", "watch", "j-fake", "--progress", "plain"}).err,
              Not(HasSubstr("barely trained")))
      << "it is fast";
}

TEST_F(ServiceTest, ReducedPicturesAreSaidOnce) {
  W running = Message(W::SNAPSHOT, 1, J::RUNNING, 10);
  auto& figures =
      *running.mutable_job()->mutable_training_status()->mutable_progress()->mutable_figures();
  figures["picture_width"] = 2992, figures["picture_height"] = 5318;
  figures["trained_width"] = 918, figures["trained_height"] = 1632;
  figures["evaluated_width"] = 768, figures["evaluated_height"] = 1365;
  state_.watch_scripts = {
      {{running, running, Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100)}, absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake"});
  const std::string line = "pictures 2992x5318, trained at 918x1632, evaluated at 768x1365\n";
  const size_t first = result.err.find(line);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(line, first + 1), std::string::npos);
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
              HasSubstr("--timeout of 300ms ran out before the job's end (DEADLINE_EXCEEDED)\n"
                        "  job j-fake keeps running; `nerfctl job watch j-fake` follows it again, "
                        "`nerfctl job cancel j-fake` stops it\n"));
}

TEST_F(ServiceTest, FirstCtrlCDetachesWithAHint) {
  Interrupt interrupt;
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 1, J::RUNNING, 5)}, absl::OkStatus(), /*hang=*/true}};
  state_.on_watch_message = [&] { interrupt.Request(SIGINT); };
  const CommandResult result = Run({"job", "watch", "j-fake"}, {.interrupt = &interrupt});
  EXPECT_EQ(result.exit_code, kInterrupted);
  EXPECT_THAT(
      result.err,
      HasSubstr("nerfctl: interrupted\n  job j-fake keeps running; `nerfctl job watch j-fake` "
                "follows it again, `nerfctl job cancel j-fake` stops it\n"));
  EXPECT_EQ(state_.calls.count("CancelJob"), 0u);
}

// A job with a preview of these bytes.
v1::Job WithPreview(const v1::Job& job, FakeState* state, const std::string& png) {
  state->blobs[Sha256Hex(png)] = png;
  v1::Job result = job;
  *result.mutable_training_status()->mutable_progress()->mutable_preview_image() = BlobOfBytes(png);
  result.mutable_training_status()->mutable_progress()->set_preview_step(10);
  return result;
}

TEST_F(ServiceTest, PreviewFileIsKeptAtTheNewestPreview) {
  const TempDir dir;
  W first = Message(W::PROGRESS, 2, J::RUNNING, 10),
    second = Message(W::PROGRESS, 3, J::RUNNING, 20);
  *first.mutable_job() = WithPreview(first.job(), &state_, "first");
  *second.mutable_job() = WithPreview(second.job(), &state_, "second");
  state_.watch_scripts = {{{Message(W::SNAPSHOT, 1, J::QUEUED), first, first, second,
                            Message(W::STATE_CHANGED, 4, J::SUCCEEDED, 100)},
                           absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake", "--preview", dir / "newest.png"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(ReadFile(dir / "newest.png", 100).value(), "second");
}

TEST_F(ServiceTest, PreviewThatTheServerHasDroppedDoesNotEndTheWatch) {
  const TempDir dir;
  W lost = Message(W::PROGRESS, 2, J::RUNNING, 10);
  *lost.mutable_job()->mutable_training_status()->mutable_progress()->mutable_preview_image() =
      BlobOfBytes("gone");
  state_.errors["Read"].assign(
      20, WithReason(absl::NotFoundError("no such blob"), reason::kResourceNotFound));
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 1, J::RUNNING, 1), lost, Message(W::STATE_CHANGED, 3, J::SUCCEEDED)},
       absl::OkStatus()}};
  EXPECT_EQ(Run({"job", "watch", "j-fake", "--preview", dir / "p.png"}).exit_code, kOk);
}

TEST_F(ServiceTest, PreviewFlagsAreRefusedWhereTheyCannotWork) {
  EXPECT_THAT(Run({"job", "watch", "j-fake", "--show"}).err, HasSubstr("is no terminal"));
  EXPECT_THAT(Run({"job", "watch", "j-fake", "--preview", "/tmp"}).err, HasSubstr("is a folder"));
  EXPECT_THAT(Run({"job", "watch", "j-fake", "--preview", "no/such/p.png"}).err,
              HasSubstr("--preview: there is no folder no/such"));
  EXPECT_THAT(Run({"job", "create", "mic", "--preview", "p.png"}).err,
              HasSubstr("needs the job to be watched"));
  EXPECT_THAT(Run({"job", "preview", "j-1"}).err, HasSubstr("needs --out FILE or --show"));
  EXPECT_THAT(Run({"job", "preview", "j-1", "--out", "/tmp"}).err,
              HasSubstr("--out: /tmp is a folder"));
}

TEST_F(ServiceTest, PreviewCommandWritesTheLastPreview) {
  const TempDir dir;
  v1::Job job;
  job.set_name("projects/default/jobs/j-1");
  state_.jobs = {job};
  const CommandResult none = Run({"job", "preview", "j-1", "--out", dir / "p.png"});
  EXPECT_EQ(none.exit_code, kWrongState);
  EXPECT_THAT(none.err, HasSubstr("job j-1 has no preview yet"));
  state_.jobs = {WithPreview(job, &state_, "picture")};
  const CommandResult result = Run({"job", "preview", "j-1", "--out", dir / "p.png"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("preview of step 10 in " + (dir / "p.png")));
  EXPECT_EQ(ReadFile(dir / "p.png", 100).value(), "picture");
}

TEST_F(ServiceTest, ShowDrawsThePreviewInTheTerminal) {
  ImageU8 image{.width = 8, .height = 8, .n_channels = 3, .pixels = {}};
  image.pixels.assign(size_t{8} * 8 * 3, 200);
  const ScopedEnvironment terminal("TERM", "xterm-256color");
  W running = Message(W::PROGRESS, 2, J::RUNNING, 10);
  *running.mutable_job() = WithPreview(running.job(), &state_, EncodePng(image).value());
  state_.watch_scripts = {
      {{Message(W::SNAPSHOT, 1, J::RUNNING), running, Message(W::STATE_CHANGED, 3, J::SUCCEEDED)},
       absl::OkStatus()}};
  const CommandResult result = Run({"job", "watch", "j-fake", "--show"}, {.terminal = true});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  const auto shown = TerminalImage(image, 10, 5, {"TERM=xterm-256color"});
  if (absl::IsUnimplemented(shown.status())) GTEST_SKIP() << shown.status();
  // Colors of 24 bits or of the palette, by the terminal that libchafa detects.
  EXPECT_THAT(result.err, testing::ContainsRegex("\x1b\\[[34]8;[25];")) << "a colored block";
}

TEST(TerminalImageTest, TerminalsThatKnowPicturesGetThemAndOthersBlocks) {
  ImageU8 image{.width = 16, .height = 8, .n_channels = 3, .pixels = {}};
  image.pixels.assign(size_t{16} * 8 * 3, 200);
  const struct {
    std::vector<std::string> environment;
    std::string sign;  // what is nowhere but in pictures of this kind
  } cases[] = {{{"TERM=xterm-kitty", "KITTY_PID=1"}, "\x1b_G"},
               {{"TERM=xterm-256color", "TERM_PROGRAM=iTerm.app"}, "\x1b]1337;File="},
               {{"TERM=mlterm"}, "\x1bP"},
               {{"TERM=xterm-256color"}, "\xE2\x96\x88"}};
  for (const auto& c : cases) {
    const auto shown = TerminalImage(image, 10, 5, c.environment);
    if (absl::IsUnimplemented(shown.status())) GTEST_SKIP() << shown.status();
    ASSERT_TRUE(shown.ok());
    EXPECT_THAT(*shown, HasSubstr(c.sign)) << fmt::format("{}", fmt::join(c.environment, " "));
  }
  // Neither a picture of one pixel nor a terminal without room or name ends it.
  const ImageU8 dot{.width = 1, .height = 1, .n_channels = 4, .pixels = {1, 2, 3, 4}};
  EXPECT_TRUE(TerminalImage(dot, 10, 5, {}).ok());
  EXPECT_TRUE(TerminalImage(dot, 0, 0, {"TERM=xterm-256color"}).ok());
}

TEST_F(ServiceTest, WithProgressJsonEveryLineOfStandardErrorIsJson) {
  const auto expect_json = [](const std::string& err) {
    std::istringstream lines(err);
    size_t n_lines = 0;
    for (std::string line; std::getline(lines, line); ++n_lines) {
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    }
    EXPECT_GT(n_lines, 0u);
  };
  ScriptSuccess();
  const CommandResult success = Run({"job", "watch", "j-fake", "--progress", "json"});
  EXPECT_EQ(success.exit_code, kOk);
  expect_json(success.err);
  state_.errors["GetJob"] = {WithReason(absl::NotFoundError("no job j-9"),
                                        reason::kResourceNotFound,
                                        {{"resource", "projects/default/jobs/j-9"}})};
  expect_json(Run({"job", "show", "j-9", "--progress", "json"}).err);
  expect_json(Run({"train", "/nonexistent", "--progress", "json"}).err);
  expect_json(Run({"train", "x", "--steps", "many", "--progress", "json"}).err);
}

TEST_F(ServiceTest, NearestIdIsSuggestedForOneThatDoesNotExist) {
  state_.jobs.emplace_back().set_name("projects/default/jobs/nightly");
  state_.errors["GetJob"] = {WithReason(absl::NotFoundError("no such job"),
                                        reason::kResourceNotFound,
                                        {{"resource", "projects/default/jobs/nigthly"}})};
  EXPECT_THAT(Run({"job", "show", "nigthly"}).err,
              HasSubstr("  did you mean nightly? `nerfctl job ls` lists what there is\n"));
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
