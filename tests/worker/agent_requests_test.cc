// Renders and validations, from the server's request to the reply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
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
  const WorkerRequest asked = GotRender();
  ASSERT_TRUE(asked.has_render());
  EXPECT_THAT(ReadFile(asked.render().file(), 100), IsOkAndHolds("model"));
  EXPECT_EQ(asked.render().view().orbit().count(), 8u);
  const std::string image = std::string((1 << 20) + 10, 'i');
  const std::string file = asked.render().out() + "/rgb_0000.png";
  std::ofstream(file) << image;
  EngineMessage rendered = RenderedTo(asked.id(), {file});
  rendered.mutable_rendered()->mutable_response()->set_far_from_cameras(true);
  // Both are the worker's to say.
  rendered.mutable_rendered()->mutable_response()->set_worker("workers/another");
  rendered.mutable_rendered()->mutable_response()->mutable_images(0)->set_content("another");
  rendered.mutable_rendered()->mutable_response()->mutable_images(0)->set_channel(v1::DEPTH);
  rendered.mutable_rendered()->mutable_response()->mutable_crop()->add_size(1);
  rendered.mutable_rendered()->mutable_response()->set_seen_twice(7);
  rendered.mutable_rendered()->mutable_response()->set_far(HUGE_VAL);
  Say(rendered);
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
  EXPECT_EQ(response.images(0).channel(), v1::RGB);
  EXPECT_FALSE(response.has_crop());
  EXPECT_FALSE(response.has_seen_twice());
  EXPECT_EQ(response.far(), 0);
  EXPECT_TRUE(fs::is_empty(Room() + "/requests"));
}

TEST_F(AgentTest, RequestThatNoEngineTakesIsRefused) {
  Start();
  v1::SynchronizeResponse message = RenderOf(server_.AddBlob("model"));
  for (int i = 0; i < 200'000; ++i)
    message.mutable_request()->mutable_render()->mutable_view()->mutable_style()->add_background(1);
  Send(message);
  EXPECT_FALSE(engines_.Got(WorkerRequest::kRender).has_render());
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_THAT(FromRpcStatus(Replies(server_)[0].error()),
              FailsWith(absl::StatusCode::kResourceExhausted, reason::kSizeLimit));
}

TEST_F(AgentTest, FrameOfALiveViewIsAJpegAheadOfOthers) {
  Start();
  v1::SynchronizeResponse message = RenderOf(server_.AddBlob("model"));
  message.mutable_request()->mutable_render()->mutable_view()->add_channels(v1::DEPTH);
  message.mutable_request()->mutable_render()->mutable_live()->set_jpeg_quality(40);
  message.mutable_request()->mutable_render()->mutable_live()->set_moving(true);
  Send(message);
  const internal::Render render = GotRender().render();
  ASSERT_TRUE(render.has_live());
  EXPECT_TRUE(render.live().moving());
  EXPECT_EQ(render.live().jpeg_quality(), 40u);
  EXPECT_EQ(render.view().channels(0), v1::DEPTH);
}

TEST_F(AgentTest, RenderOfTheJobInTrainingNamesItsKey) {
  StartTraining();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  Send(message);
  EXPECT_EQ(GotRender().job(), Key());
  EXPECT_EQ(GotRender().render().file(), "");
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
  Say(Refusal(GotRender().id(), absl::CancelledError("cancelled")));
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
    Say(WorkingOn("r1"));
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
  Say(Refusal(GotRender().id(), absl::CancelledError("cancelled")));
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
  ASSERT_TRUE(engines_.Got(WorkerRequest::kTrain).has_train());
  Send(RenderOf(server_.AddBlob("model")));
  Started(2);
  Pass(absl::Seconds(20));
  EXPECT_FALSE(engines_.Got(WorkerRequest::kRender).has_render());
  SayCheckpoint(10, 2);
  EXPECT_TRUE(engines_.Got(WorkerRequest::kRender).has_render());
}

TEST_F(AgentTest, JobThatNeedsItsEngineAloneStartsAfterTheRenderThatIsInIt) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  v1::SynchronizeResponse grant = Grant(server_, 2);
  grant.mutable_desired_job()->set_alone(true);
  Send(grant);
  Send(RenderOf(server_.AddBlob("model"), "q2"));
  EXPECT_FALSE(engines_.Got(WorkerRequest::kTrain).has_train());
  Say(Refusal(GotRender().id(), absl::InternalError("no")));
  EXPECT_TRUE(engines_.Got(WorkerRequest::kTrain).has_train());
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
    Say(WorkingOn(GotRender().id()));
    Pass(absl::Minutes(9));
    EXPECT_FALSE(engines_.Got(WorkerRequest::kTrain).has_train());
    if (answers) {
      Say(Refusal(GotRender().id(), absl::CancelledError("cancelled")));
    } else {
      Pass(absl::Minutes(2));  // the engine is killed
      Pass(absl::Minutes(1));
    }
    EXPECT_TRUE(engines_.Got(WorkerRequest::kTrain).has_train());
    agent_.reset();
  }
}

TEST_F(AgentTest, CancelledRenderIsForgotten) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  Send(CancelOf("q1"));
  EXPECT_EQ(engines_.Got(WorkerRequest::kCancel).id(), GotRender().id());
  // The engine still writes its picture.
  const std::string folder = GotRender().render().out();
  EXPECT_FALSE(std::filesystem::exists(folder));
  std::filesystem::create_directories(folder);
  Say(RenderedTo("r1", {}));
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

  Say(RenderedTo("r1", {}));
  Send(RenderOf(model, "taken"));
  EXPECT_THAT(Replies(server_), SizeIs(1));
}

TEST_F(AgentTest, RenderedFileOutsideTheRequestFolderIsRefused) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  Say(RenderedTo("r1", {"/etc/passwd"}));
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_EQ(Replies(server_)[0].error().code(), 13);
}

// Each is the answer to a render of one image.
TEST_F(AgentTest, RenderedImagesAndFilesThatDoNotMatchAreRefused) {
  Start();
  const auto answer = [&](const std::function<EngineMessage(const std::string& id,
                                                            const std::string& file)>& make) {
    Send(RenderOf(server_.AddBlob("model"), "q" + std::to_string(Replies(server_).size())));
    const WorkerRequest asked = GotRender();
    const std::string file = asked.render().out() + "/rgb_0000.png";
    std::ofstream(file) << "image";
    Say(make(asked.id(), file));
    return Replies(server_).empty() ? v1::WorkerReply() : Replies(server_).back();
  };
  const auto expect_refused = [&](const char* what, const auto& make) {
    SCOPED_TRACE(what);
    const size_t before = Replies(server_).size();
    EXPECT_EQ(answer(make).error().code(), 13);
    EXPECT_EQ(Replies(server_).size(), before + 1);
    EXPECT_TRUE(fs::is_empty(Room() + "/requests"));
  };
  expect_refused("nothing", [](const std::string& id, const std::string&) {
    EngineMessage message = AnswerTo(id);
    message.mutable_rendered();
    return message;
  });
  expect_refused("an image of no file", [](const std::string& id, const std::string&) {
    EngineMessage message = RenderedTo(id, {"/nowhere"});
    message.mutable_rendered()->clear_files();
    message.mutable_rendered()->mutable_response()->mutable_images(0)->set_content("image");
    return message;
  });
  expect_refused("a file of no image", [](const std::string& id, const std::string& file) {
    EngineMessage message = RenderedTo(id, {file});
    message.mutable_rendered()->mutable_response()->clear_images();
    return message;
  });
  expect_refused("more files than images", [](const std::string& id, const std::string& file) {
    EngineMessage message = RenderedTo(id, {file});
    message.mutable_rendered()->add_files(file);
    return message;
  });
  expect_refused("a file that is not there", [](const std::string& id, const std::string& file) {
    return RenderedTo(id, {file + ".not"});
  });
  expect_refused("a folder", [](const std::string& id, const std::string& file) {
    return RenderedTo(id, {fs::path(file).parent_path().string()});
  });
  expect_refused("a file without a name",
                 [](const std::string& id, const std::string&) { return RenderedTo(id, {""}); });
  // All of them would be read into memory.
  expect_refused("more images than asked for", [](const std::string& id, const std::string& file) {
    return RenderedTo(id, std::vector<std::string>(100, file));
  });
  EXPECT_FALSE(answer([](const std::string& id, const std::string& file) {
                 return RenderedTo(id, {file});
               }).has_error());
}

TEST_F(AgentTest, AnswerOfAnotherKindThanTheRequestIsNoReply) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  EngineMessage checked = AnswerTo("r1");
  checked.mutable_checked()->mutable_response()->set_ok(true);
  Say(checked);
  EXPECT_THAT(Replies(server_), IsEmpty());
  const std::string file = GotRender().render().out() + "/rgb_0000.png";
  std::ofstream(file) << "image";
  Say(RenderedTo("r1", {file}));
  EXPECT_THAT(Replies(server_), SizeIs(1));
}

TEST_F(AgentTest, ErrorOfARenderWithCodeOkIsStillAnError) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  EngineMessage message = AnswerTo("r1");
  message.mutable_refused()->set_message("m");
  Say(message);
  ASSERT_THAT(Replies(server_), SizeIs(1));
  EXPECT_THAT(FromRpcStatus(Replies(server_)[0].error()),
              StatusIs(absl::StatusCode::kUnknown, "m"));
}

TEST_F(AgentTest, ErrorOfARenderOfTheJobDoesNotTouchTheJob) {
  StartTraining();
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  Send(message);
  Say(Refusal("r1", absl::InvalidArgumentError("no camera"), Key()));
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
  const WorkerRequest asked = engines_.Got(WorkerRequest::kCheck);
  ASSERT_TRUE(asked.has_check());
  EXPECT_TRUE(fs::exists(asked.check().dataset() + "/transforms.json"));
  EXPECT_EQ(asked.check().out(), "");
  EngineMessage checked = AnswerTo(asked.id());
  v1::ValidateSceneResponse& found = *checked.mutable_checked()->mutable_response();
  found.set_summary("s");
  v1::SceneProblem* problem = found.add_problems();
  problem->set_file("transforms.json");
  problem->set_field("frames");
  problem->set_message("missing");
  Say(checked);
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
  const std::string scene = engines_.Got(WorkerRequest::kCheck).check().dataset();
  EngineMessage checked = AnswerTo(engines_.Got(WorkerRequest::kCheck).id());
  v1::ValidateSceneResponse& found = *checked.mutable_checked()->mutable_response();
  found.set_summary("of " + scene);
  found.add_warnings("no " + scene + "/b.png");
  v1::SceneProblem* problem = found.add_problems();
  problem->set_file("a.png");
  problem->set_message("cannot read " + scene + "/a.png");
  Say(checked);
  ASSERT_THAT(Replies(server_), SizeIs(1));
  v1::ValidateSceneResponse response;
  ASSERT_TRUE(response.ParseFromString(Replies(server_)[0].chunk()));
  EXPECT_EQ(response.summary(), "of the scene");
  EXPECT_EQ(response.warnings(0), "no b.png");
  EXPECT_EQ(response.problems(0).message(), "cannot read a.png");

  message.mutable_request()->set_request_id("q3");
  Send(message);
  const WorkerRequest again = engines_.Got(WorkerRequest::kCheck);
  Say(Refusal(again.id(), absl::InternalError("open " + again.check().dataset() + "/a.png")));
  ASSERT_THAT(Replies(server_), SizeIs(2));
  EXPECT_EQ(Replies(server_)[1].error().message(), "open a.png");
}

TEST_F(AgentTest, RequestsEndWithTheirStream) {
  Start();
  Send(RenderOf(server_.AddBlob("model")));
  server_.SetAway(true);
  Settle();
  EXPECT_TRUE(engines_.Got(WorkerRequest::kCancel).has_cancel());
  server_.SetAway(false);
  Pass(absl::Seconds(6));
  EXPECT_THAT(Replies(server_), IsEmpty());
}

class DescribeTest : public AgentTest {
 protected:
  // The engine's answer with this file of views; the reply to the server.
  v1::WorkerReply ReplyTo(const std::function<std::string(const std::string& folder)>& views,
                          bool ok = true) {
    const size_t before = Replies(server_).size();
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
    const WorkerRequest asked = engines_.Got(WorkerRequest::kCheck);
    EXPECT_EQ(asked.check().test_every(), 4u);
    EngineMessage checked = AnswerTo(asked.id());
    v1::ValidateSceneResponse& found = *checked.mutable_checked()->mutable_response();
    found.set_ok(ok);
    if (!ok) {
      v1::SceneProblem* problem = found.add_problems();
      problem->set_file("a.png");
      problem->set_message("bad");
    }
    checked.mutable_checked()->set_views(views(asked.check().out()));
    Say(checked);
    EXPECT_THAT(Replies(server_), SizeIs(before + 1));
    return Replies(server_).empty() ? v1::WorkerReply() : Replies(server_).back();
  }
  // One view of the picture.
  static v1::DescribeSceneResponse ViewOf(const std::string& picture) {
    v1::DescribeSceneResponse views;
    views.set_test_views(1);
    v1::SceneView* view = views.add_views();
    view->set_file(picture);
    view->set_split(v1::SceneView::TEST);
    view->mutable_camera()->set_width(40);
    view->mutable_camera()->set_height(30);
    view->mutable_camera()->set_fl_x(35);
    for (int i = 0; i < 16; ++i) view->mutable_camera()->add_transform_matrix(0.5);
    return views;
  }
  static std::string Write(const std::string& folder, const std::string& bytes) {
    std::ofstream(folder + "/views.binpb", std::ios::binary) << bytes;
    return folder + "/views.binpb";
  }
};

TEST_F(DescribeTest, ViewsComeWithTheirCamerasAndBlobs) {
  v1::DescribeSceneResponse views = ViewOf("a.png");
  // Only the worker names blobs.
  *views.mutable_views(0)->mutable_blob() = BlobRefOf("of another project");
  const v1::WorkerReply reply =
      ReplyTo([&](const std::string& folder) { return Write(folder, views.SerializeAsString()); });
  v1::DescribeSceneResponse response;
  ASSERT_TRUE(response.ParseFromString(reply.chunk())) << reply.error().message();
  ASSERT_EQ(response.views_size(), 1);
  EXPECT_EQ(response.views(0).file(), "a.png");
  EXPECT_EQ(response.views(0).split(), v1::SceneView::TEST);
  EXPECT_EQ(response.views(0).camera().transform_matrix_size(), 16);
  EXPECT_EQ(response.views(0).camera().fl_x(), 35);
  EXPECT_EQ(response.views(0).blob().sha256(), Sha256Hex("a.png"));
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
  const v1::WorkerReply reply = ReplyTo([](const std::string& folder) {
    v1::DescribeSceneResponse views = ViewOf("a.png");
    views.MergeFrom(ViewOf("../b.png"));
    return Write(folder, views.SerializeAsString());
  });
  EXPECT_EQ(reply.error().code(), 13);
}

TEST_F(DescribeTest, ViewsAreWholeAndCountedHere) {
  v1::DescribeSceneResponse views = ViewOf("a.png");
  views.set_test_views(9);
  views.set_training_views(9);
  views.set_next_page_token("more");
  views.mutable_views(0)->set_split(v1::SceneView::SPLIT_UNSPECIFIED);
  const auto ask = [&] {
    agent_.reset();
    return ReplyTo(
        [&](const std::string& folder) { return Write(folder, views.SerializeAsString()); });
  };
  v1::DescribeSceneResponse response;
  ASSERT_TRUE(response.ParseFromString(ask().chunk()));
  EXPECT_EQ(response.training_views(), 1u);
  EXPECT_EQ(response.test_views(), 0u);
  EXPECT_EQ(response.next_page_token(), "");
  EXPECT_EQ(response.views(0).split(), v1::SceneView::TRAINING);
  v1::Camera& camera = *views.mutable_views(0)->mutable_camera();
  camera.set_time(2);
  EXPECT_EQ(ask().error().code(), 13);
  camera.set_time(0);
  camera.set_transform_matrix(3, std::nan(""));
  EXPECT_EQ(ask().error().code(), 13);
  camera.mutable_transform_matrix()->Truncate(12);
  EXPECT_EQ(ask().error().code(), 13);
}

TEST_F(DescribeTest, ListThatCannotBeReadIsAnInternalError) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff"), std::string(1000, '\0'), std::string("{\"views\":[]}")}) {
    const v1::WorkerReply reply =
        ReplyTo([&](const std::string& folder) { return Write(folder, bytes); });
    EXPECT_EQ(reply.error().code(), 13);
    EXPECT_EQ(reply.error().message(), "the engine's list of views cannot be read");
    agent_.reset();
  }
}

TEST_F(DescribeTest, ListWithoutAFileIsAnInternalError) {
  EXPECT_EQ(ReplyTo([](const std::string&) { return ""; }).error().code(), 13);
}

}  // namespace
}  // namespace nerf
