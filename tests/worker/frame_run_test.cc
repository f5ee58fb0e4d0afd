// Ranges of frames of render jobs, from the order to the report of their end. The engine's answers
// are the test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "tests/testing/status_matchers.h"
#include "tests/worker/scripted_agent.h"
#include "worker/runs/render/movie_maker.h"

namespace nerf {
namespace {

constexpr char kFilm[] = "projects/default/jobs/film";
constexpr char kNext[] = "projects/default/jobs/next";

class FrameRunTest : public AgentTest {
 protected:
  // The order to render `n` frames, from index 4 on.
  v1::SynchronizeResponse Frames(int n, uint64_t epoch = 3, const std::string& job = kFilm) {
    v1::SynchronizeResponse message;
    v1::DesiredJob* desired = message.mutable_desired_job();
    desired->set_action(v1::DesiredJob::RENDER);
    desired->set_job(job);
    desired->set_lease_epoch(epoch);
    desired->set_part(2);
    desired->mutable_lease_ttl()->set_seconds(30);
    v1::FrameRange* range = desired->mutable_frames();
    *range->mutable_file() = server_.AddBlob("model");
    for (int i = 0; i < n; ++i) {
      v1::FrameTask* frame = range->add_frames();
      frame->set_index(static_cast<uint32_t>(4 + i));
      frame->mutable_view()->mutable_orbit()->set_count(100);
      frame->mutable_view()->add_channels(v1::RGB);
    }
    return message;
  }

  std::vector<WorkerRequest> Asked() const {
    std::vector<WorkerRequest> asked;
    for (const WorkerRequest& request : engines_.engine->sent) {
      if (request.has_render()) asked.push_back(request);
    }
    return asked;
  }
  std::string GivenUp() const { return engines_.Got(WorkerRequest::kCancel).id(); }

  void Cancel(uint64_t epoch = 3) {
    v1::SynchronizeResponse cancel;
    cancel.mutable_desired_job()->set_action(v1::DesiredJob::CANCEL);
    cancel.mutable_desired_job()->set_job(kFilm);
    cancel.mutable_desired_job()->set_lease_epoch(epoch);
    Send(cancel);
  }
  void AcknowledgeEnd(const std::string& job = kFilm) {
    v1::SynchronizeResponse acknowledged;
    acknowledged.set_finished_acknowledged(job);
    Send(acknowledged);
  }
  void Refuse(const WorkerRequest& render) {
    answered_.insert(render.id());
    Say(Refusal(render.id(), absl::CancelledError("the render was stopped")));
  }

  // The image of a render.
  static std::string Write(const WorkerRequest& render) {
    const std::string file = render.render().out() + "/" + render.id() + "_rgb.png";
    std::ofstream(file) << "image " << render.id();
    return file;
  }
  // Answers every render that the engine has been asked for and has not answered.
  void Answer() {
    for (const WorkerRequest& render : Asked()) {
      if (!answered_.insert(render.id()).second) continue;
      Say(RenderedTo(render.id(), {Write(render)}));
    }
  }

  std::set<uint32_t> Committed() const {
    std::set<uint32_t> indices;
    for (const auto& request : server_.frame_commits()) {
      for (const auto& frame : request.frames()) indices.insert(frame.index());
    }
    return indices;
  }

  std::set<std::string> answered_;
};

TEST_F(FrameRunTest, RendersUploadsAndCommitsEveryFrameThenReportsItsEnd) {
  Start();
  Send(Frames(5));
  ASSERT_EQ(Asked().size(), 2u);  // one is rendered, one waits
  EXPECT_THAT(ReadFile(Asked()[0].render().file(), 100), IsOkAndHolds("model"));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  for (int i = 0; i < 5; ++i) Answer();
  EXPECT_EQ(Committed(), (std::set<uint32_t>{4, 5, 6, 7, 8}));
  const v1::CommitFramesRequest commit = server_.frame_commits().front();
  EXPECT_EQ(commit.job(), kFilm);
  EXPECT_EQ(commit.lease_epoch(), 3u);
  EXPECT_EQ(commit.part(), 2u);
  EXPECT_EQ(commit.worker_id(), "w-test");
  EXPECT_TRUE(server_.Blob(commit.frames(0).images(0).sha256()).has_value());
  ASSERT_TRUE(server_.last_report().has_value());
  EXPECT_EQ(server_.last_report()->phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(server_.last_report()->job(), kFilm);
  EXPECT_EQ(server_.last_report()->part(), 2u);
  AcknowledgeEnd();
  EXPECT_TRUE(agent_->idle());
}

TEST_F(FrameRunTest, FailedCommitIsRepeatedAndRenderingPausesMeanwhile) {
  Start();
  Send(Frames(16));
  server_.SetCommitResult({absl::StatusCode::kUnavailable, "busy", ""});
  for (int i = 0; i < 16; ++i) Answer();
  EXPECT_LT(Asked().size(), 12u);
  EXPECT_TRUE(Committed().empty());
  server_.SetCommitResult({});
  for (int i = 0; i < 20; ++i) {
    Pass(absl::Seconds(6));
    Answer();
  }
  EXPECT_EQ(Committed().size(), 16u);
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
}

TEST_F(FrameRunTest, LostLeaseStopsItWithoutAReport) {
  Start();
  Send(Frames(4));
  server_.SetCommitResult(
      {absl::StatusCode::kFailedPrecondition, "stale", std::string(reason::kLeaseFenced)});
  Answer();
  Settle();
  EXPECT_EQ(agent_->job(), nullptr);
  Answer();  // what the engine still had
  EXPECT_TRUE(agent_->idle());
  EXPECT_FALSE(server_.last_report().has_value());
}

TEST_F(FrameRunTest, CancelDropsWhatTheEngineHasAndReportsCancelled) {
  Start();
  Send(Frames(4));
  Cancel();
  EXPECT_EQ(GivenUp(), Asked().back().id());
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING) << "the engine still has two frames";
  Answer();
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
  EXPECT_EQ(Asked().size(), 2u);
  EXPECT_TRUE(Committed().empty());
}

// The engine still works on a cancelled frame when the next job's frames come: neither its answer
// nor its file may be taken for theirs.
TEST_F(FrameRunTest, NextJobHasNothingToDoWithTheFramesOfACancelledOne) {
  Start();
  Send(Frames(4));
  const std::vector<WorkerRequest> cancelled = Asked();
  ASSERT_EQ(cancelled.size(), 2u);
  Cancel();
  Refuse(cancelled[1]);  // it waited
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  Answer();  // it was faster than the cancel
  ASSERT_EQ(server_.phase(), v1::JobReport::CANCELLED);
  AcknowledgeEnd();
  Send(Frames(4, /*epoch=*/3, kNext));
  ASSERT_EQ(Asked().size(), 4u);
  for (const WorkerRequest& late : cancelled) {
    Refuse(late);
    Say(RenderedTo(late.id(), {late.render().out() + "/late.png"}));
  }
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  for (int i = 0; i < 4; ++i) Answer();
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(Committed().size(), 4u);
}

// Of jobs, of attempts and of views beside them.
TEST_F(FrameRunTest, NoTwoRequestsToEnginesHaveTheSameId) {
  Start();
  v1::SynchronizeResponse still;
  still.mutable_request()->set_project("default");
  *still.mutable_request()->mutable_render()->mutable_file() = server_.AddBlob("model");
  still.mutable_request()->mutable_render()->mutable_view()->mutable_orbit()->set_count(8);
  for (const char* job : {kFilm, kNext, kFilm}) {
    Send(Frames(4, /*epoch=*/3, job));
    still.mutable_request()->set_request_id("q" + std::to_string(Asked().size()));
    Send(still);
    for (int i = 0; i < 4; ++i) Answer();
    ASSERT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
    AcknowledgeEnd(job);
  }
  std::set<std::string> ids;
  for (const WorkerRequest& render : Asked()) ids.insert(render.id());
  EXPECT_EQ(Asked().size(), 15u);
  EXPECT_EQ(ids.size(), 15u);
}

TEST_F(FrameRunTest, EngineThatKeepsACancelledFrameIsKilledAndTheNextJobGoesOn) {
  Start();
  Send(Frames(4));
  const auto stuck = engines_.engine;
  Cancel();
  Pass(absl::Seconds(4));
  EXPECT_FALSE(stuck->killed);
  Pass(absl::Seconds(2));
  EXPECT_TRUE(stuck->killed);
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
  AcknowledgeEnd();
  Pass(absl::Seconds(10));
  Send(Frames(3, /*epoch=*/3, kNext));
  for (int i = 0; i < 3; ++i) Answer();
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
}

// An engine makes the folder of a render again if it was removed.
TEST_F(FrameRunTest, FolderStaysUntilTheEngineHasAnsweredAndGoesThen) {
  Start();
  Send(Frames(4));
  const std::string folder = Asked()[0].render().out();
  Cancel();
  EXPECT_TRUE(std::filesystem::exists(folder));
  Answer();  // writes there
  AcknowledgeEnd();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(FrameRunTest, JobThatReplacesAnotherOneWaitsUntilTheEngineHasGivenItUp) {
  Start();
  Send(Frames(4));
  Send(Frames(4, /*epoch=*/1, kNext));  // the server has given the first one to others
  EXPECT_EQ(Asked().size(), 2u);
  EXPECT_EQ(GivenUp(), Asked().back().id());
  Answer();
  EXPECT_TRUE(Committed().empty());
  for (int i = 0; i < 4; ++i) Answer();
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(server_.last_report()->job(), kNext);
  EXPECT_EQ(Committed().size(), 4u);
}

TEST_F(FrameRunTest, AnswersAboutNothingChangeNothing) {
  Start();
  Send(Frames(4));
  const std::string key = std::string(kFilm) + "@3";
  for (const char* id : {"", "f3-2-0", "r0", "r999"}) {
    for (const std::string& job : {std::string(), key}) {
      Say(Refusal(id, absl::InternalError("no"), job));
    }
  }
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  for (int i = 0; i < 4; ++i) Answer();
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
}

TEST_F(FrameRunTest, CrashOfTheEngineIsReportedAndARefusalFailsThePart) {
  Start();
  Send(Frames(4));
  engines_.Die(EngineExit{EngineExit::Kind::kSignal, 11});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  AcknowledgeEnd();
  Pass(absl::Seconds(10));
  Send(Frames(4, /*epoch=*/4));
  Say(Refusal(Asked().front().id(),
              WithReason(absl::ResourceExhaustedError("no memory for the view"),
                         std::string(reason::kOutOfMemory))));
  EXPECT_EQ(GivenUp(), Asked().back().id());
  Refuse(Asked().back());
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_EQ(server_.last_report()->error().message(), "no memory for the view");
}

TEST_F(FrameRunTest, FrameWithAnotherNumberOfImagesFailsThePart) {
  uint64_t epoch = 3;
  Start();
  for (const size_t n_files : {0, 2}) {
    SCOPED_TRACE(n_files);
    Send(Frames(4, ++epoch));
    ASSERT_GE(Asked().size(), 2u);
    const WorkerRequest first = Asked()[Asked().size() - 2], waits = Asked().back();
    Say(RenderedTo(first.id(), std::vector<std::string>(n_files, Write(first))));
    Refuse(waits);
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
    EXPECT_EQ(server_.last_report()->error().code(), 13);
    EXPECT_TRUE(Committed().empty());
    AcknowledgeEnd();
  }
}

TEST_F(FrameRunTest, ImagesOfNoFileOrOutsideTheFolderFailThePart) {
  uint64_t epoch = 3;
  Start();
  for (const std::string file : {"", "/nowhere", "/etc/passwd"}) {
    SCOPED_TRACE(file);
    Send(Frames(4, ++epoch));
    ASSERT_GE(Asked().size(), 2u);
    const WorkerRequest first = Asked()[Asked().size() - 2], waits = Asked().back();
    Say(RenderedTo(first.id(), {file}));
    Refuse(waits);
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
    EXPECT_EQ(server_.last_report()->error().code(), 13);
    EXPECT_TRUE(Committed().empty());
    AcknowledgeEnd();
  }
}

TEST_F(FrameRunTest, StillsAreRenderedBetweenFrames) {
  Start();
  Send(Frames(4));
  v1::SynchronizeResponse still;
  still.mutable_request()->set_request_id("q1");
  still.mutable_request()->set_project("default");
  v1::RenderTask* task = still.mutable_request()->mutable_render();
  *task->mutable_file() = server_.AddBlob("model");
  task->mutable_view()->mutable_orbit()->set_count(8);
  Send(still);
  for (int i = 0; i < 4; ++i) Answer();
  EXPECT_EQ(Committed().size(), 4u);
  bool has_reply = false;
  for (const auto& message : server_.messages()) has_reply = has_reply || message.has_reply();
  EXPECT_TRUE(has_reply);
}

// The model's file is in the room of the job's project, and only its engine may read it.
TEST_F(FrameRunTest, FramesKeepTheirEngineFromAnotherProject) {
  Start();
  Send(Frames(4));
  v1::SynchronizeResponse still;
  still.mutable_request()->set_project("other");
  *still.mutable_request()->mutable_render()->mutable_file() = server_.AddBlob("model");
  still.mutable_request()->mutable_render()->mutable_view()->mutable_orbit()->set_count(8);
  const auto renders_frames = engines_.engine;
  for (int i = 0; i < 3; ++i) {
    still.mutable_request()->set_request_id("q" + std::to_string(i));
    Send(still);
    Pass(absl::Seconds(6));
  }
  EXPECT_TRUE(renders_frames->alive);
  EXPECT_EQ(engines_.launches, 2);
  engines_.engine = renders_frames;
  for (int i = 0; i < 4; ++i) Answer();
  EXPECT_EQ(Committed().size(), 4u);
}

TEST(MovieMakerTest, FfmpegHasTheMemoryLimit) {
  TempDir dir;
  if (!CanMakeMovies(dir.path())) GTEST_SKIP() << "no ffmpeg that encodes H.264";
  EXPECT_FALSE(CanMakeMovies(dir.path(), uint64_t{1} << 20));
}

}  // namespace
}  // namespace nerf
