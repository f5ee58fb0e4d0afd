// Renders and validations, from the server's request to the reply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "common/error_reason.h"
#include "common/rpc/rpc_status.h"
#include "engine/protocol/scene_views.h"
#include "nerf/v1/scene_service.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/worker/scripted_agent.h"
#include "worker/agent.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::SynchronizeResponse RenderOf(const v1::BlobRef& file, const std::string& id = "q1") {
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id(id);
  message.mutable_request()->set_project("default");
  v1::RenderTask* task = message.mutable_request()->mutable_render();
  *task->mutable_file() = file;
  task->mutable_view()->mutable_orbit()->set_count(8);
  return message;
}

v1::SynchronizeResponse CancelOf(const std::string& id) {
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id(id);
  message.mutable_request()->set_cancel(true);
  return message;
}

std::vector<v1::WorkerReply> Replies(const FakeServer& server) {
  std::vector<v1::WorkerReply> replies;
  for (const auto& message : server.messages()) {
    if (message.has_reply()) replies.push_back(message.reply());
  }
  return replies;
}

TEST_F(AgentTest, RenderFetchesTheModelAsksTheEngineAndRepliesInChunks) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  const Json render = engines_.Got("render");
  ASSERT_TRUE(render.is_object());
  EXPECT_THAT(ReadFile(render["file"], 100), IsOkAndHolds("model"));
  const std::string image = std::string((1 << 20) + 10, 'i');
  std::ofstream(render["out"].get<std::string>() + "/rgb_0000.png") << image;
  Say({{"type", "rendered"},
       {"id", render["id"]},
       {"width", 8},
       {"height", 6},
       {"far_from_cameras", true},
       {"files", {{"rgb", render["out"].get<std::string>() + "/rgb_0000.png"}}}});
  const auto replies = Replies(server_);
  ASSERT_THAT(replies, SizeIs(2));
  EXPECT_FALSE(replies[0].last());
  EXPECT_TRUE(replies[1].last());
  v1::RenderImageResponse response;
  ASSERT_TRUE(response.ParseFromString(replies[0].chunk() + replies[1].chunk()));
  EXPECT_EQ(response.images(0).content(), image);
  EXPECT_EQ(response.width(), 8u);
  EXPECT_TRUE(response.far_from_cameras());
  EXPECT_EQ(response.worker(), "workers/w-test");
  EXPECT_TRUE(fs::is_empty(Room() + "/requests"));
}

TEST_F(AgentTest, FrameOfALiveViewIsAJpegAheadOfOthers) {
  Start();
  v1::SynchronizeResponse message = RenderOf(server_.AddBlob("model"));
  message.mutable_request()->mutable_render()->mutable_view()->add_channels(v1::DEPTH);
  message.mutable_request()->mutable_render()->mutable_live()->set_jpeg_quality(40);
  message.mutable_request()->mutable_render()->mutable_live()->set_moving(true);
  Send(message);
  const Json render = engines_.Got("render");
  ASSERT_TRUE(render.is_object());
  EXPECT_EQ(render["live"], true);
  EXPECT_EQ(render["moving"], true);
  EXPECT_EQ(render["format"], "jpeg");
  EXPECT_EQ(render["jpeg_quality"], 40);
}

TEST_F(AgentTest, RenderOfTheJobInTrainingNamesItsKey) {
  StartTraining();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  Send(message);
  EXPECT_EQ(engines_.Got("render")["job"], Key());
}

// A check of many pictures may take longer than the silence that counts as a hang. The job's engine
// must not be killed for it, even if the caller of the check has left.
TEST_F(AgentTest, LongRequestIsNoHangOfTheTrainingBesideIt) {
  StartTraining();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  Send(message);
  Pass(absl::Seconds(400));
  EXPECT_EQ(engines_.launches, 1);
  message.mutable_request()->set_cancel(true);
  Send(message);
  Pass(absl::Seconds(100));
  EXPECT_EQ(engines_.launches, 1);
  Say({{"type", "error"}, {"id", engines_.Got("render")["id"]}, {"code", "CANCELLED"}});
  Progress(1);
  Pass(absl::Seconds(299));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
  Pass(absl::Seconds(2));
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED) << "nothing is asked of it any more";
}

TEST_F(AgentTest, RenderThatSaysItIsAtWorkMayTakeHours) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  for (int i = 0; i < 20; ++i) {
    Pass(absl::Minutes(9));
    Say({{"type", "working"}, {"id", "r1"}});
  }
  EXPECT_EQ(engines_.launches, 1);
  EXPECT_THAT(Replies(server_), IsEmpty());
}

TEST_F(AgentTest, RenderThatNeverEndsCostsTheEngine) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  Pass(absl::Minutes(9));
  EXPECT_EQ(engines_.launches, 1);
  Pass(absl::Minutes(2));
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_EQ(Replies(server_)[0].error().code(), static_cast<int>(absl::StatusCode::kUnavailable));
}

TEST_F(AgentTest, RenderOfAJobThatIsElsewhereIsRefused) {
  Start();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  Send(message);
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_THAT(FromRpcStatus(Replies(server_)[0].error()),
              FailsWith(absl::StatusCode::kFailedPrecondition, reason::kStateConflict));
}

TEST_F(AgentTest, EngineDeathEndsRendersWithWorkerLost) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  engines_.Die({EngineExit::Kind::kSignal, 11});
  Settle();
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_THAT(FromRpcStatus(Replies(server_)[0].error()),
              FailsWith(absl::StatusCode::kUnavailable, reason::kWorkerLost));
}

TEST_F(AgentTest, DeathOfAnEngineThatOwedARenderIsReportedAsShared) {
  StartTraining();
  Send(RenderOf(server_.AddBlob("model")));
  engines_.Die({EngineExit::Kind::kSignal, 9});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_TRUE(server_.last_report()->shared_engine());
}

TEST_F(AgentTest, DeathOfAnEngineAtARenderThatWasCancelledIsReportedAsShared) {
  StartTraining();
  Send(RenderOf(server_.AddBlob("model")));
  Send(CancelOf("q1"));
  engines_.Die({EngineExit::Kind::kSignal, 9});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_TRUE(server_.last_report()->shared_engine());
}

TEST_F(AgentTest, DeathOfAnEngineThatHasNotAnsweredTheCancelledRenderIsReportedAsShared) {
  StartTraining();
  Send(RenderOf(server_.AddBlob("model")));
  Send(CancelOf("q1"));
  Progress(1);  // sent before the cancel arrived
  engines_.Die({EngineExit::Kind::kSignal, 9});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_TRUE(server_.last_report()->shared_engine());
}

TEST_F(AgentTest, DeathOfAnEngineThatHasAnsweredTheCancelledRenderIsTheJobsOwn) {
  StartTraining();
  Send(RenderOf(server_.AddBlob("model")));
  Send(CancelOf("q1"));
  Say({{"type", "error"}, {"id", engines_.Got("render")["id"]}, {"code", "CANCELLED"}});
  engines_.Die({EngineExit::Kind::kSignal, 9});
  Settle();
  EXPECT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_FALSE(server_.last_report()->shared_engine());
}

TEST_F(AgentTest, RendersWaitUntilAJobThatNeedsItsEngineAloneHasACheckpoint) {
  Start();
  v1::SynchronizeResponse grant = Grant(server_, 2);
  grant.mutable_desired_job()->set_alone(true);
  Send(grant);
  ASSERT_FALSE(engines_.Got("train").is_null());
  Send(RenderOf(server_.AddBlob("model")));
  Started(2);
  Pass(absl::Seconds(20));
  EXPECT_TRUE(engines_.Got("render").is_null());
  SayCheckpoint(10, 2);
  EXPECT_FALSE(engines_.Got("render").is_null());
}

TEST_F(AgentTest, JobThatNeedsItsEngineAloneStartsAfterTheRenderThatIsInIt) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  v1::SynchronizeResponse grant = Grant(server_, 2);
  grant.mutable_desired_job()->set_alone(true);
  Send(grant);
  Send(RenderOf(server_.AddBlob("model"), "q2"));
  EXPECT_TRUE(engines_.Got("train").is_null());
  Say({{"type", "error"}, {"id", engines_.Got("render")["id"]}, {"code", "INTERNAL"}});
  EXPECT_FALSE(engines_.Got("train").is_null());
}

TEST_F(AgentTest, JobThatNeedsItsEngineAloneWaitsForARenderThatWasCancelledButNotForEver) {
  for (const bool answers : {true, false}) {
    SCOPED_TRACE(answers);
    Start();
    Send(RenderOf(server_.AddBlob("model")));
    Send(CancelOf("q1"));
    v1::SynchronizeResponse grant = Grant(server_, 2);
    grant.mutable_desired_job()->set_alone(true);
    Send(grant);
    Say({{"type", "working"}, {"id", engines_.Got("render")["id"]}});
    Pass(absl::Minutes(9));
    EXPECT_TRUE(engines_.Got("train").is_null());
    if (answers) {
      Say({{"type", "error"}, {"id", engines_.Got("render")["id"]}, {"code", "CANCELLED"}});
    } else {
      Pass(absl::Minutes(2));  // the engine is killed
      Pass(absl::Minutes(1));
    }
    EXPECT_FALSE(engines_.Got("train").is_null());
    agent_.reset();
  }
}

TEST_F(AgentTest, CancelledRenderIsForgotten) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  Send(CancelOf("q1"));
  EXPECT_EQ(engines_.Got("cancel")["id"], engines_.Got("render")["id"]);
  // The engine still writes its picture.
  const std::string folder = engines_.Got("render")["out"];
  EXPECT_FALSE(std::filesystem::exists(folder));
  std::filesystem::create_directories(folder);
  Say({{"type", "rendered"}, {"id", "r1"}, {"files", Json::object()}, {"width", 1}, {"height", 1}});
  EXPECT_THAT(Replies(server_), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(AgentTest, CancelledRequestsCountUntilTheEngineHasAnsweredThem) {
  Start();
  const v1::BlobRef model = server_.AddBlob("model");
  for (int i = 0; i < 64; ++i) {
    Send(RenderOf(model, "q" + std::to_string(i)));
    Send(CancelOf("q" + std::to_string(i)));
  }
  Send(RenderOf(model, "refused"));
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_EQ(Replies(server_)[0].request_id(), "refused");
  EXPECT_EQ(Replies(server_)[0].error().code(), 8);

  Say({{"type", "rendered"}, {"id", "r1"}, {"files", Json::object()}, {"width", 1}, {"height", 1}});
  Send(RenderOf(model, "taken"));
  EXPECT_THAT(Replies(server_), SizeIs(1));
}

TEST_F(AgentTest, RenderedFileOutsideTheRequestFolderIsRefused) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  Say({{"type", "rendered"},
       {"id", "r1"},
       {"files", {{"rgb", "/etc/passwd"}}},
       {"width", 1},
       {"height", 1}});
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_EQ(Replies(server_)[0].error().code(), 13);
}

TEST_F(AgentTest, ErrorOfARenderOfTheJobDoesNotTouchTheJob) {
  StartTraining();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  Send(message);
  Say({{"type", "error"},
       {"id", "r1"},
       {"job", Key()},
       {"code", "INVALID_ARGUMENT"},
       {"message", "no camera"}});
  EXPECT_THAT(Replies(server_), SizeIs(1));
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
}

TEST_F(AgentTest, ValidationLaysTheSceneOutAndReturnsWhatTheEngineFound) {
  Start();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q2");
  v1::SceneManifestEntry* file = message.mutable_request()->mutable_validate()->add_files();
  file->set_path("transforms.json");
  *file->mutable_blob() = server_.AddBlob("{}");
  Send(message);
  const Json check = engines_.Got("check");
  ASSERT_TRUE(check.is_object());
  EXPECT_TRUE(fs::exists(check["dataset"].get<std::string>() + "/transforms.json"));
  Say({{"type", "checked"},
       {"id", check["id"]},
       {"ok", false},
       {"summary", "s"},
       {"problems", {{{"file", "transforms.json"}, {"field", "frames"}, {"message", "missing"}}}}});
  ASSERT_THAT(Replies(server_), SizeIs(1));
  v1::ValidateSceneResponse response;
  ASSERT_TRUE(response.ParseFromString(Replies(server_)[0].chunk()));
  EXPECT_EQ(response.problems(0).field(), "frames");
}

TEST_F(AgentTest, ValidationsAndErrorsDoNotNameFoldersOfTheWorker) {
  Start();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q2");
  v1::SceneManifestEntry* file = message.mutable_request()->mutable_validate()->add_files();
  file->set_path("a.png");
  *file->mutable_blob() = server_.AddBlob("{}");
  Send(message);
  const Json check = engines_.Got("check");
  const std::string scene = check["dataset"];
  Say({{"type", "checked"},
       {"id", check["id"]},
       {"ok", false},
       {"summary", "of " + scene},
       {"warnings", {"no " + scene + "/b.png"}},
       {"problems", {{{"file", "a.png"}, {"message", "cannot read " + scene + "/a.png"}}}}});
  ASSERT_THAT(Replies(server_), SizeIs(1));
  v1::ValidateSceneResponse response;
  ASSERT_TRUE(response.ParseFromString(Replies(server_)[0].chunk()));
  EXPECT_EQ(response.summary(), "of the scene");
  EXPECT_EQ(response.warnings(0), "no b.png");
  EXPECT_EQ(response.problems(0).message(), "cannot read a.png");

  message.mutable_request()->set_request_id("q3");
  Send(message);
  const Json again = engines_.Got("check");
  Say({{"type", "error"},
       {"id", again["id"]},
       {"code", "INTERNAL"},
       {"message", "open " + again["dataset"].get<std::string>() + "/a.png"}});
  ASSERT_THAT(Replies(server_), SizeIs(2));
  EXPECT_EQ(Replies(server_)[1].error().message(), "open a.png");
}

TEST_F(AgentTest, RequestsEndWithTheirStream) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  server_.SetAway(true);
  Settle();
  EXPECT_TRUE(engines_.Got("cancel").is_object());
  server_.SetAway(false);
  Pass(absl::Seconds(6));
  EXPECT_THAT(Replies(server_), IsEmpty());
}

class DescribeTest : public AgentTest {
 protected:
  // The engine's answer with this file of views; the reply to the server.
  v1::WorkerReply ReplyTo(const std::function<std::string(const std::string& folder)>& views,
                          bool ok = true) {
    Start();
    v1::SynchronizeResponse message;
    message.mutable_request()->set_request_id("q3");
    v1::DescribeTask& task = *message.mutable_request()->mutable_describe();
    task.set_test_every(4);
    for (const char* path : {"transforms.json", "a.png"}) {
      v1::SceneManifestEntry* file = task.add_files();
      file->set_path(path);
      *file->mutable_blob() = server_.AddBlob(path);
    }
    Send(message);
    const Json check = engines_.Got("check");
    EXPECT_EQ(check["test_every"], 4);
    Say({{"type", "checked"},
         {"id", check["id"]},
         {"ok", ok},
         {"problems", ok ? Json::array() : Json::array({{{"file", "a.png"}, {"message", "bad"}}})},
         {"views", views(check["out"])}});
    EXPECT_THAT(Replies(server_), SizeIs(1));
    return Replies(server_).empty() ? v1::WorkerReply() : Replies(server_)[0];
  }
  static std::string Write(const std::string& path, const std::string& file) {
    protocol::SceneView view;
    view.file = file;
    view.is_test = true;
    view.width = 40;
    view.height = 30;
    view.fl_x = view.fl_y = 35;
    view.matrix.assign(12, 0.5);
    std::ofstream(path) << protocol::ToText({view});
    return path;
  }
};

TEST_F(DescribeTest, ViewsComeWithTheirCamerasAndBlobs) {
  const v1::WorkerReply reply =
      ReplyTo([](const std::string& folder) { return Write(folder + "/views.json", "a.png"); });
  v1::DescribeSceneResponse response;
  ASSERT_TRUE(response.ParseFromString(reply.chunk())) << reply.error().message();
  ASSERT_EQ(response.views_size(), 1);
  EXPECT_EQ(response.views(0).file(), "a.png");
  EXPECT_EQ(response.views(0).split(), v1::SceneView::TEST);
  EXPECT_EQ(response.views(0).camera().transform_matrix_size(), 16);
  EXPECT_EQ(response.views(0).camera().fl_x(), 35);
  EXPECT_EQ(response.views(0).blob().size_bytes(), 5);
  EXPECT_EQ(response.test_views(), 1u);
  EXPECT_EQ(response.training_views(), 0u);
}

TEST_F(DescribeTest, SceneWithProblemsIsRefusedWithTheFirst) {
  const v1::WorkerReply reply = ReplyTo([](const std::string&) { return ""; }, /*ok=*/false);
  EXPECT_EQ(reply.error().code(), 9);
  EXPECT_EQ(reply.error().message(), "a.png: bad");
}

TEST_F(DescribeTest, FileElsewhereIsAnInternalError) {
  EXPECT_EQ(ReplyTo([](const std::string&) { return "/etc/passwd"; }).error().code(), 13);
}

TEST_F(DescribeTest, PictureThatTheSceneDoesNotHaveIsAnInternalError) {
  const v1::WorkerReply reply =
      ReplyTo([](const std::string& folder) { return Write(folder + "/views.json", "../b.png"); });
  EXPECT_EQ(reply.error().code(), 13);
}

}  // namespace
}  // namespace nerf
