// Live views through the service. A fake worker renders them; cameras rest when the fake clock
// moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <string>

#include "common/error_reason.h"
#include "nerf/v1/view_service.grpc.pb.h"
#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/rpc/test_stream.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

v1::View ViewAt(uint32_t index, uint32_t side = 400) {
  v1::View view;
  view.mutable_orbit()->set_count(100);
  view.mutable_orbit()->set_index(index);
  view.set_width(side);
  view.set_height(side);
  return view;
}

// A client's end of StreamViews.
class Stream : public TestStream<v1::StreamViewsResponse> {
 public:
  Stream(v1::ViewService::Stub& stub, const v1::StreamViewsRequest& request)
      : TestStream([&](auto* context) { return stub.StreamViews(context, request); }) {}

  v1::StreamViewsResponse Next() {
    v1::StreamViewsResponse response;
    EXPECT_TRUE(Read(&response)) << "the stream has ended";
    return response;
  }
  // The name in the first message.
  std::string Name() { return Next().scene().name(); }
  v1::ViewFrame Frame() { return Next().frame(); }
  absl::Status End() {
    v1::StreamViewsResponse ignored;
    while (Read(&ignored)) {
    }
    return Finish();
  }
};

class LiveViewTest : public testing::Test {
 protected:
  explicit LiveViewTest(bool over_socket = false) : server_(over_socket) {}

  // A model, and a job in training on a worker that shows live views.
  void SetUp() override {
    stub_ = v1::ViewService::NewStub(server_.channel);
    job_ = server_.CreateJob(server_.CreateScene("lego")).name();
    worker_ = Connect("w-1");
    grant_ = *worker_->WaitForOrder(v1::DesiredJob::TRAIN);
    const v1::CommitCheckpointRequest commit = CheckpointRequest(server_, grant_, 10);
    model_blob_ = commit.model_blob();
    ASSERT_THAT(worker_->Commit(commit), IsOk());
    worker_->SendReport(FakeWorker::Report(grant_, v1::JobReport::RUNNING, 10));
    ASSERT_TRUE(worker_->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
    model_ = PromoteNewest(server_, job_, "lego").name();
  }

  std::unique_ptr<FakeWorker> Connect(const std::string& id, bool shows_views = true) {
    auto worker = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id);
    v1::SynchronizeRequest message;
    message.mutable_hello()->set_worker_id(id);
    message.mutable_hello()->set_session_id("s-" + id);
    message.mutable_hello()->set_device("cpu");
    if (shows_views) message.mutable_hello()->add_features("views");
    worker->Send(message);
    return worker;
  }

  v1::StreamViewsRequest OfModel(uint32_t side = 400) const {
    v1::StreamViewsRequest request;
    request.set_model(model_);
    *request.mutable_view() = ViewAt(0, side);
    return request;
  }

  absl::Status Update(const std::string& name, double sequence, const v1::View& view) {
    v1::UpdateViewRequest request;
    request.set_name(name);
    request.set_sequence(sequence);
    *request.mutable_view() = view;
    v1::UpdateViewResponse response;
    return RpcTestServer::Call(*stub_, &v1::ViewService::Stub::UpdateView, request, &response);
  }

  // Renders a frame in `seconds`.
  void Render(FakeWorker& worker, const v1::ServerRequest& task, double seconds,
              uint32_t step = 10) {
    v1::RenderImageResponse image;
    image.set_width(task.render().view().width());
    image.set_height(task.render().view().height());
    image.set_step(step);
    image.set_seconds(seconds);
    image.add_images()->set_content("jpeg");
    image.mutable_images(0)->set_channel(task.render().view().channels(0));
    v1::SynchronizeRequest message;
    if (&worker == worker_.get()) {
      *message.mutable_job() = FakeWorker::Report(grant_, v1::JobReport::RUNNING, 11);
    }
    message.mutable_reply()->set_request_id(task.request_id());
    message.mutable_reply()->set_chunk(image.SerializeAsString());
    message.mutable_reply()->set_last(true);
    worker.Send(message);
  }

  void Fail(FakeWorker& worker, const v1::ServerRequest& task, const absl::Status& status) {
    v1::SynchronizeRequest message;
    *message.mutable_job() = FakeWorker::Report(grant_, v1::JobReport::RUNNING, 11);
    message.mutable_reply()->set_request_id(task.request_id());
    message.mutable_reply()->set_last(true);
    *message.mutable_reply()->mutable_error() = ToRpcStatus(status);
    worker.Send(message);
  }

  // The next frame that the worker is asked for; cancels of others are passed over.
  static v1::ServerRequest NextTask(FakeWorker& worker) {
    while (true) {
      auto task = worker.WaitForRequest();
      EXPECT_TRUE(task.has_value()) << "no frame was ordered";
      if (!task.has_value()) return {};
      if (!task->cancel()) return *std::move(task);
    }
  }

  // All passes of a resting camera.
  void RenderPasses(Stream& stream, FakeWorker& worker) {
    while (true) {
      Render(worker, NextTask(worker), 10);
      if (stream.Frame().stride() == 1) return;
    }
  }

  double OpenViews() {
    for (const auto& family : server_.metrics->registry()->Collect()) {
      if (family.name == "nerfd_live_views") return family.metric[0].gauge.value;
    }
    return -1;
  }
  bool WaitUntilNoneIsOpen() {
    return WaitUntil(absl::Minutes(1), [&] { return OpenViews() == 0; });
  }

  RpcTestServer server_;
  std::unique_ptr<v1::ViewService::Stub> stub_;
  std::string job_, model_;
  v1::DesiredJob grant_;
  v1::BlobRef model_blob_;
  std::unique_ptr<FakeWorker> worker_;
};

TEST_F(LiveViewTest, SceneComesFirstThenThreePassesOfTheFirstView) {
  Stream stream(*stub_, OfModel());
  const auto scene = stream.Next();
  EXPECT_THAT(scene.scene().name(), HasSubstr("projects/default/models/lego/views/"));
  EXPECT_EQ(scene.scene().target_fps(), 15);
  for (const uint32_t side : {100u, 200u, 400u}) {
    const v1::ServerRequest task = NextTask(*worker_);
    EXPECT_EQ(task.render().file().sha256(), model_blob_.sha256());
    EXPECT_EQ(task.render().live().jpeg_quality(), 75u);
    EXPECT_FALSE(task.render().live().moving());
    EXPECT_EQ(task.render().view().width(), side);
    EXPECT_EQ(task.render().view().height(), side);
    EXPECT_EQ(task.render().view().channels(0), v1::RGB);
    Render(*worker_, task, 10);
    const v1::ViewFrame frame = stream.Frame();
    EXPECT_EQ(frame.sequence(), 0);
    EXPECT_EQ(frame.width(), side);
    EXPECT_EQ(frame.stride(), 400.0 / side);
    EXPECT_EQ(frame.content(), "jpeg");
    EXPECT_EQ(frame.step(), 10u);
    EXPECT_EQ(frame.worker(), "workers/w-1");
    EXPECT_FALSE(frame.moving());
  }
}

TEST_F(LiveViewTest, MoveInterruptsAPassAndPassesFollowOnceTheCameraRests) {
  Stream stream(*stub_, OfModel());
  const std::string name = stream.Name();
  const v1::ServerRequest pass = NextTask(*worker_);
  v1::View depth = ViewAt(5);
  depth.set_channel(v1::DEPTH);
  ASSERT_THAT(Update(name, 1, depth), IsOk());
  const auto cancel = worker_->WaitForRequest();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_TRUE(cancel->cancel());
  EXPECT_EQ(cancel->request_id(), pass.request_id());
  const v1::ServerRequest task = NextTask(*worker_);
  EXPECT_EQ(task.render().live().jpeg_quality(), 40u);
  EXPECT_TRUE(task.render().live().moving());
  EXPECT_EQ(task.render().view().orbit().index(), 5u);
  EXPECT_EQ(task.render().view().channels(0), v1::DEPTH);
  Render(*worker_, task, 10);
  const v1::ViewFrame moving = stream.Frame();
  EXPECT_EQ(moving.sequence(), 1);
  EXPECT_TRUE(moving.moving());
  EXPECT_EQ(moving.channel(), v1::DEPTH);
  server_.clock.Advance(absl::Milliseconds(200));
  const v1::ServerRequest rest = NextTask(*worker_);
  EXPECT_EQ(rest.render().live().jpeg_quality(), 75u);
  Render(*worker_, rest, 10);
  const v1::ViewFrame still = stream.Frame();
  EXPECT_EQ(still.sequence(), 1);
  EXPECT_FALSE(still.moving());
}

TEST_F(LiveViewTest, OfUpdatesDuringAFrameTheLastOneIsShown) {
  Stream stream(*stub_, OfModel());
  const std::string name = stream.Name();
  ASSERT_THAT(Update(name, 1, ViewAt(1)), IsOk());
  v1::ServerRequest task = NextTask(*worker_);
  while (task.render().view().orbit().index() != 1) task = NextTask(*worker_);
  for (const int sequence : {2, 9, 5}) {
    ASSERT_THAT(Update(name, sequence, ViewAt(static_cast<uint32_t>(sequence))), IsOk());
  }
  Render(*worker_, task, 0.1);
  EXPECT_EQ(stream.Frame().sequence(), 1);
  const v1::ServerRequest last = NextTask(*worker_);
  EXPECT_EQ(last.render().view().orbit().index(), 9u) << "5 is older";
  Render(*worker_, last, 0.1);
  EXPECT_EQ(stream.Frame().sequence(), 9);
}

TEST_F(LiveViewTest, RunningJobIsShownByItsWorkerAndAgainAsItLearns) {
  v1::StreamViewsRequest request = OfModel();
  request.set_training_job(job_);
  Stream stream(*stub_, request);
  stream.Name();
  const auto idle = Connect("w-2");
  for (const uint32_t side : {100u, 200u, 400u, 400u, 400u}) {
    const v1::ServerRequest task = NextTask(*worker_);
    EXPECT_EQ(task.render().job(), job_);
    EXPECT_EQ(task.render().view().width(), side);
    Render(*worker_, task, 0.01, side);
    EXPECT_EQ(stream.Frame().step(), side);
    server_.clock.Advance(absl::Seconds(5));
  }
}

TEST_F(LiveViewTest, FrameOfARunningJobIsGivenUpAfterTwoSeconds) {
  v1::StreamViewsRequest request = OfModel();
  request.set_training_job(job_);
  Stream stream(*stub_, request);
  stream.Name();
  const v1::ServerRequest slow = NextTask(*worker_);
  ASSERT_EQ(slow.render().view().width(), 100u);
  const auto cancel = worker_->WaitForRequest();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_TRUE(cancel->cancel());
  EXPECT_EQ(cancel->request_id(), slow.request_id());
  // The next one comes once the training has had its time.
  server_.clock.Advance(absl::Seconds(9));
  const v1::ServerRequest again = NextTask(*worker_);
  EXPECT_LT(again.render().view().width(), 100u) << "smaller";
  Render(*worker_, again, 0.01, 20);
  EXPECT_EQ(stream.Frame().step(), 20u);
}

TEST_F(LiveViewTest, JobThatEndsDuringAFrameIsShownFromItsLastCheckpoint) {
  v1::StreamViewsRequest request = OfModel();
  request.set_training_job(job_);
  Stream stream(*stub_, request);
  stream.Name();
  Render(*worker_, NextTask(*worker_), 0.1, 12);
  EXPECT_EQ(stream.Frame().step(), 12u);
  const v1::ServerRequest late = NextTask(*worker_);
  EXPECT_EQ(late.render().job(), job_);
  const v1::CommitCheckpointRequest commit = CheckpointRequest(server_, grant_, 30);
  ASSERT_THAT(worker_->Commit(commit), IsOk());
  // The reply comes with the report of the job's end.
  v1::SynchronizeRequest message;
  *message.mutable_job() = FakeWorker::Report(grant_, v1::JobReport::SUCCEEDED, 30);
  message.mutable_reply()->set_request_id(late.request_id());
  message.mutable_reply()->set_last(true);
  *message.mutable_reply()->mutable_error() = ToRpcStatus(WithReason(
      absl::FailedPreconditionError("the job is not in training"), reason::kStateConflict));
  worker_->Send(message);
  const v1::ServerRequest last = NextTask(*worker_);
  EXPECT_EQ(last.render().file().sha256(), commit.model_blob().sha256());
  message.Clear();
  v1::RenderImageResponse image;
  image.set_step(30);
  image.add_images()->set_content("jpeg");
  message.mutable_reply()->set_request_id(last.request_id());
  message.mutable_reply()->set_chunk(image.SerializeAsString());
  message.mutable_reply()->set_last(true);
  worker_->Send(message);
  EXPECT_EQ(stream.Frame().step(), 30u);
}

TEST_F(LiveViewTest, ViewGoesOnWithAnotherWorkerWhenItsOwnIsLost) {
  auto idle = Connect("w-2");
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return server_.workers->List()->size() == 2; }));
  Stream stream(*stub_, OfModel());
  stream.Name();
  Render(*idle, NextTask(*idle), 10);
  EXPECT_EQ(stream.Frame().worker(), "workers/w-2");
  NextTask(*idle);
  idle.reset();
  Render(*worker_, NextTask(*worker_), 10);
  EXPECT_EQ(stream.Frame().worker(), "workers/w-1");
}

TEST_F(LiveViewTest, ErrorOfTheWorkerEndsTheStreamWithItsReason) {
  Stream stream(*stub_, OfModel());
  Fail(*worker_, NextTask(*worker_),
       WithReason(absl::ResourceExhaustedError("too large"), reason::kOutOfMemory));
  EXPECT_THAT(stream.End(), FailsWith(StatusCode::kResourceExhausted, reason::kOutOfMemory));
}

TEST_F(LiveViewTest, ReaderThatLeavesEndsTheViewAndItsFrame) {
  Stream stream(*stub_, OfModel());
  const std::string name = stream.Name();
  const v1::ServerRequest task = NextTask(*worker_);
  EXPECT_EQ(OpenViews(), 1);
  stream.Cancel();
  const auto cancel = worker_->WaitForRequest();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_TRUE(cancel->cancel());
  EXPECT_EQ(cancel->request_id(), task.request_id());
  EXPECT_TRUE(WaitUntilNoneIsOpen());
  EXPECT_THAT(Update(name, 1, ViewAt(1)),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
}

TEST_F(LiveViewTest, ReaderThatReadsNothingIsBrokenOff) {
  Stream stream(*stub_, OfModel());
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return OpenViews() == 1; }));
  // Frames are rendered as long as they can be written.
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (OpenViews() != 0 && absl::Now() < deadline) {
    const auto task =
        worker_->WaitFor([](const auto& m) { return m.has_request(); }, absl::Milliseconds(200));
    if (task.has_value() && !task->request().cancel()) Render(*worker_, task->request(), 10);
  }
  EXPECT_EQ(OpenViews(), 0);
}

TEST_F(LiveViewTest, WithoutAWorkerThatShowsViewsTheCallerLearnsItAtOnce) {
  worker_->Cancel();
  EXPECT_FALSE(worker_->WaitForEnd().ok());
  const auto other = Connect("w-2", /*shows_views=*/false);
  Stream stream(*stub_, OfModel());
  EXPECT_THAT(stream.End(), FailsWith(StatusCode::kUnavailable, reason::kNoWorker));
}

TEST_F(LiveViewTest, WrongRequestsAreRefusedWithEveryField) {
  v1::StreamViewsRequest request;
  request.set_target_fps(1000);
  request.mutable_view()->set_width(5000);
  request.mutable_view()->set_channel(static_cast<v1::RenderChannel>(77));
  const absl::Status status = Stream(*stub_, request).End();
  EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  for (const char* field :
       {"source", "target_fps", "view.width", "view.height", "view.camera", "view.channel"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
  v1::StreamViewsRequest large = OfModel(4096);
  EXPECT_THAT(Stream(*stub_, large).End(), StatusIs(StatusCode::kInvalidArgument));
  v1::StreamViewsRequest unknown = OfModel();
  unknown.set_model("projects/default/models/none");
  EXPECT_THAT(Stream(*stub_, unknown).End(), StatusIs(StatusCode::kNotFound));

  Stream stream(*stub_, OfModel());
  const std::string name = stream.Name();
  EXPECT_THAT(Update(name, 0, ViewAt(1)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Update(name, 1, v1::View()), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Update("projects/default/models/lego/views/none", 1, ViewAt(1)),
              StatusIs(StatusCode::kNotFound));
}

// The in-process transport closes before the last message arrives.
class LiveViewOverSocketTest : public LiveViewTest {
 protected:
  LiveViewOverSocketTest() : LiveViewTest(/*over_socket=*/true) {}
};

TEST_F(LiveViewOverSocketTest, ShutdownEndsTheStreamWithDraining) {
  Stream stream(*stub_, OfModel());
  stream.Name();
  server_.rpc->Shutdown(absl::Seconds(20));
  EXPECT_THAT(stream.End(), FailsWith(StatusCode::kUnavailable, reason::kDraining));
  worker_.reset();
}

}  // namespace
}  // namespace nerf
