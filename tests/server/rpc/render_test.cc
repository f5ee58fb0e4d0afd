// Renders and validations through the broker. A fake worker replies in pieces, late, wrongly or not
// at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "tests/server/rpc/checkpoints.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class RenderTest : public testing::Test {
 protected:
  // A job with one checkpoint, in training on a connected worker.
  void SetUp() override {
    job_ = server_.CreateJob(server_.CreateScene("lego")).name();
    worker_ = std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, "w-1");
    worker_->Hello({}, {}, {"style"});
    grant_ = *worker_->WaitForOrder(v1::DesiredJob::TRAIN);
    const v1::CommitCheckpointRequest commit = CheckpointRequest(server_, grant_, 10);
    model_blob_ = commit.model_blob();
    ASSERT_THAT(worker_->Commit(commit), IsOk());
    worker_->SendReport(FakeWorker::Report(grant_, v1::JobReport::RUNNING, 10));
    ASSERT_TRUE(worker_->WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
  }

  static v1::RenderImageRequest View() {
    v1::RenderImageRequest request;
    request.mutable_orbit()->set_count(4);
    request.set_width(8);
    request.set_height(8);
    return request;
  }

  static v1::CropBox Box(double side) {
    v1::CropBox box;
    for (int axis = 0; axis < 3; ++axis) {
      box.add_center(0);
      box.add_size(side);
    }
    return box;
  }

  struct Outcome {
    absl::Status status;
    v1::RenderImageResponse response;
  };
  std::future<Outcome> Render(const v1::RenderImageRequest& request,
                              absl::Duration timeout = absl::Seconds(20)) {
    return std::async(std::launch::async, [this, request, timeout] {
      Outcome outcome;
      grpc::ClientContext context;
      PrepareCall(timeout, "", &context);
      outcome.status =
          FromGrpcStatus(server_.render_stub->RenderImage(&context, request, &outcome.response));
      return outcome;
    });
  }

  void Reply(const std::string& id, const std::string& chunk, bool last) {
    v1::SynchronizeRequest message;
    *message.mutable_job() = FakeWorker::Report(grant_, v1::JobReport::RUNNING, 11);
    message.mutable_reply()->set_request_id(id);
    message.mutable_reply()->set_chunk(chunk);
    message.mutable_reply()->set_last(last);
    worker_->Send(message);
  }

  RpcTestServer server_;
  std::string job_;
  v1::DesiredJob grant_;
  v1::BlobRef model_blob_;
  std::unique_ptr<FakeWorker> worker_;
};

TEST_F(RenderTest, RunningJobIsRenderedByItsWorkerAndPiecesArePutTogether) {
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request);
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->render().job(), job_);
  EXPECT_EQ(task->project(), "default");
  EXPECT_FALSE(task->render().has_file());
  EXPECT_EQ(task->render().view().orbit().count(), 4u);
  EXPECT_EQ(task->render().view().source_case(), v1::RenderImageRequest::SOURCE_NOT_SET);

  v1::RenderImageResponse image;
  image.set_width(8);
  image.set_height(8);
  image.set_step(10);
  std::string content(2'500'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31);
  image.add_images()->set_content(content);
  const std::string bytes = image.SerializeAsString();
  for (size_t begin = 0; begin < bytes.size(); begin += 1 << 20) {
    Reply(task->request_id(), bytes.substr(begin, 1 << 20), begin + (1 << 20) >= bytes.size());
  }
  const Outcome result = outcome.get();
  ASSERT_THAT(result.status, IsOk());
  EXPECT_EQ(result.response.worker(), "workers/w-1");
  ASSERT_EQ(result.response.images_size(), 1);
  EXPECT_EQ(result.response.images(0).content(), content);
}

TEST_F(RenderTest, CheckpointAndModelAreRenderedFromTheirFile) {
  const v1::Model model = PromoteNewest(server_, job_, "lego");
  for (int i = 0; i < 2; ++i) {
    v1::RenderImageRequest request = View();
    if (i == 0) request.set_checkpoint(job_ + "/checkpoints/10");
    if (i == 1) request.set_model(model.name());
    auto outcome = Render(request);
    const auto task = worker_->WaitForRequest();
    ASSERT_TRUE(task.has_value());
    EXPECT_EQ(task->render().file().sha256(), model_blob_.sha256());
    EXPECT_EQ(task->render().job(), "");
    EXPECT_EQ(task->project(), "default");
    Reply(task->request_id(), v1::RenderImageResponse().SerializeAsString(), true);
    EXPECT_THAT(outcome.get().status, IsOk());
  }
}

// The box that is kept with a job or model cuts its views, unless a request says otherwise.
TEST_F(RenderTest, KeptBoxCutsViewsThatNameNone) {
  v1::UpdateJobRequest update;
  update.mutable_job()->set_name(job_);
  *update.mutable_job()->mutable_training()->mutable_crop() = Box(1);
  update.mutable_update_mask()->add_paths("training.crop");
  const auto job = server_.CallJob(&RpcTestServer::Jobs::UpdateJob, update);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->training().crop().size(0), 1);
  const v1::Model model = PromoteNewest(server_, job_, "lego");
  v1::UpdateModelRequest change;
  change.mutable_model()->set_name(model.name());
  *change.mutable_model()->mutable_crop() = Box(2);
  change.mutable_update_mask()->add_paths("crop");
  v1::Model changed;
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::UpdateModel, change,
                                  &changed),
              IsOk());
  EXPECT_EQ(model.crop().size(0), 1);
  EXPECT_EQ(changed.crop().size(0), 2);

  // The side of the box that a view is cut to; 0 for none.
  const auto side = [&](v1::RenderImageRequest request, double own, bool whole) {
    *request.mutable_orbit() = View().orbit();
    if (own > 0) *request.mutable_style()->mutable_crop() = Box(own);
    if (whole) request.mutable_style()->set_whole(true);
    auto outcome = Render(request);
    const auto task = worker_->WaitForRequest();
    if (!task.has_value()) return -1.0;
    const v1::ViewStyle& style = task->render().view().style();
    Reply(task->request_id(), v1::RenderImageResponse().SerializeAsString(), true);
    const v1::RenderImageResponse response = outcome.get().response;
    EXPECT_EQ(response.has_crop(), style.has_crop());
    return style.has_crop() ? style.crop().size(0) : 0;
  };
  v1::RenderImageRequest of_job, of_checkpoint, of_model;
  of_job.set_training_job(job_);
  of_checkpoint.set_checkpoint(job_ + "/checkpoints/10");
  of_model.set_model(model.name());
  EXPECT_EQ(side(of_job, 0, false), 1);
  EXPECT_EQ(side(of_checkpoint, 0, false), 1);
  EXPECT_EQ(side(of_model, 0, false), 2);
  EXPECT_EQ(side(of_model, 3, false), 3);
  EXPECT_EQ(side(of_model, 0, true), 0);
  EXPECT_EQ(side(of_job, 0, true), 0);
  change.mutable_model()->clear_crop();
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::UpdateModel, change,
                                  &changed),
              IsOk());
  EXPECT_EQ(side(of_model, 0, false), 0);
}

TEST_F(RenderTest, WorkerLostOnTheWayIsUnavailableWorkerLost) {
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request);
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  Reply(task->request_id(), "half of a pict", false);
  worker_->Cancel();
  EXPECT_THAT(outcome.get().status, FailsWith(StatusCode::kUnavailable, reason::kWorkerLost));
}

TEST_F(RenderTest, CallerThatGivesUpIsForwardedToTheWorker) {
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request, absl::Milliseconds(300));
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  EXPECT_THAT(outcome.get().status, StatusIs(StatusCode::kDeadlineExceeded));
  const auto cancel = worker_->WaitForRequest();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_TRUE(cancel->cancel());
  EXPECT_EQ(cancel->request_id(), task->request_id());
  // Late chunks are dropped.
  Reply(task->request_id(), "x", true);
  EXPECT_EQ(server_.GetJob(job_).state(), v1::Job::RUNNING);
}

TEST_F(RenderTest, ErrorOfTheWorkerReachesTheCallerWithItsReason) {
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request);
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  v1::SynchronizeRequest message;
  *message.mutable_job() = FakeWorker::Report(grant_, v1::JobReport::RUNNING, 11);
  message.mutable_reply()->set_request_id(task->request_id());
  message.mutable_reply()->set_last(true);
  *message.mutable_reply()->mutable_error() =
      ToRpcStatus(WithReason(absl::DataLossError("bad checksum"), reason::kCheckpointCorrupt));
  worker_->Send(message);
  EXPECT_THAT(outcome.get().status, FailsWith(StatusCode::kDataLoss, reason::kCheckpointCorrupt));
}

// 3 MiB fit a message; more images come as blobs, which a client reads like any other.
TEST_F(RenderTest, ImagesTooLargeForAMessageComeAsBlobs) {
  for (const bool asked : {false, true}) {
    v1::RenderImageRequest request = View();
    request.set_training_job(job_);
    request.set_in_blobs(asked);
    auto outcome = Render(request);
    const auto task = worker_->WaitForRequest();
    ASSERT_TRUE(task.has_value());
    const std::string content(asked ? 100 : 5'000'000, 'x');
    v1::RenderImageResponse image;
    image.add_images()->set_content(content);
    image.mutable_images(0)->mutable_blob()->set_sha256("of the worker's own choice");
    const std::string bytes = image.SerializeAsString();
    for (size_t begin = 0; begin < bytes.size(); begin += 1 << 20) {
      Reply(task->request_id(), bytes.substr(begin, 1 << 20), begin + (1 << 20) >= bytes.size());
    }
    const Outcome result = outcome.get();
    ASSERT_THAT(result.status, IsOk());
    ASSERT_EQ(result.response.images_size(), 1);
    EXPECT_EQ(result.response.images(0).content(), "");
    const v1::BlobRef& blob = result.response.images(0).blob();
    EXPECT_EQ(blob.sha256(), Sha256Hex(content));
    EXPECT_EQ(blob.size_bytes(), static_cast<double>(content.size()));
    EXPECT_TRUE(server_.blobs->Has({blob.sha256(), content.size()}));
  }
}

TEST_F(RenderTest, ReplyOverSixtyFourMebibytesIsRefusedAndTheWorkerToldToStop) {
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request);
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  for (int i = 0; i < 65; ++i) Reply(task->request_id(), std::string(1 << 20, 'x'), false);
  EXPECT_THAT(outcome.get().status, FailsWith(StatusCode::kResourceExhausted, reason::kSizeLimit));
  const auto cancel = worker_->WaitForRequest();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_TRUE(cancel->cancel());
}

// Internal errors are logged, and not shown to the caller.
TEST_F(RenderTest, GarbageFromTheWorkerIsInternalAndSaysNothingOfItsContent) {
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request);
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  Reply(task->request_id(), "\xff\xff/etc/secret", true);
  const absl::Status status = outcome.get().status;
  EXPECT_THAT(status, StatusIs(StatusCode::kInternal, "see request_id in the server's log: r-"));
  EXPECT_THAT(std::string(status.message()), testing::Not(testing::HasSubstr("w-1")));
}

TEST_F(RenderTest, ValidateSceneAsksAWorkerAndReturnsEveryProblem) {
  auto outcome = std::async(std::launch::async, [this] {
    v1::ValidateSceneRequest request;
    request.set_name("projects/default/scenes/lego");
    v1::ValidateSceneResponse response;
    const absl::Status status = RpcTestServer::Call(
        *server_.scene_stub, &v1::SceneService::Stub::ValidateScene, request, &response);
    return std::pair(status, response);
  });
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  ASSERT_EQ(task->validate().files_size(), 1);
  EXPECT_EQ(task->project(), "default");
  v1::ValidateSceneResponse found;
  found.set_summary("no frames");
  found.add_problems()->set_file("transforms.json");
  found.add_problems()->set_field("frames");
  Reply(task->request_id(), found.SerializeAsString(), true);
  const auto [status, response] = outcome.get();
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(response.problems_size(), 2);
  EXPECT_FALSE(response.ok());
}

// Views of a scene: a worker says them once, the server pages through them.
class DescribeTest : public RenderTest {
 protected:
  using Answer = std::pair<absl::Status, v1::DescribeSceneResponse>;
  static v1::DescribeSceneRequest Request() {
    v1::DescribeSceneRequest request;
    request.set_name("projects/default/scenes/lego");
    return request;
  }
  std::future<Answer> Ask(const v1::DescribeSceneRequest& request) {
    return std::async(std::launch::async, [this, request] {
      v1::DescribeSceneResponse response;
      const absl::Status status = RpcTestServer::Call(
          *server_.scene_stub, &v1::SceneService::Stub::DescribeScene, request, &response);
      return Answer(status, response);
    });
  }
  // The worker's answer to the next request.
  v1::DescribeTask Describe(int n_views) {
    const auto task = worker_->WaitForRequest();
    if (!task.has_value()) {
      ADD_FAILURE() << "no request came";
      return {};
    }
    v1::DescribeSceneResponse found;
    found.set_test_views(1);
    found.set_training_views(static_cast<uint32_t>(n_views) - 1);
    for (int i = 0; i < n_views; ++i) found.add_views()->set_file(std::to_string(i));
    Reply(task->request_id(), found.SerializeAsString(), true);
    return task->describe();
  }
};

TEST_F(DescribeTest, AWorkerIsAskedOnceAndPagesFollowEachOther) {
  v1::DescribeSceneRequest request = Request();
  request.set_page_size(2);
  auto first = Ask(request);
  EXPECT_EQ(Describe(5).files_size(), 1);
  std::vector<std::string> files;
  auto [status, page] = first.get();
  while (true) {
    ASSERT_THAT(status, IsOk());
    EXPECT_EQ(page.test_views(), 1u);
    EXPECT_EQ(page.training_views(), 4u);
    for (const v1::SceneView& view : page.views()) files.push_back(view.file());
    if (page.next_page_token().empty()) break;
    request.set_page_token(page.next_page_token());
    std::tie(status, page) = Ask(request).get();
  }
  EXPECT_THAT(files, testing::ElementsAre("0", "1", "2", "3", "4"));
}

TEST_F(DescribeTest, AnotherSplitIsAskedForAnew) {
  for (const uint32_t every : {0u, 4u}) {
    v1::DescribeSceneRequest request = Request();
    request.set_test_every(every);
    auto outcome = Ask(request);
    EXPECT_EQ(Describe(3).test_every(), every);
    EXPECT_EQ(outcome.get().second.views_size(), 3);
    EXPECT_EQ(Ask(request).get().second.views_size(), 3) << "kept";
  }
}

TEST_F(DescribeTest, WrongRequestsReachNoWorker) {
  v1::DescribeSceneRequest request = Request();
  request.set_test_every(1);
  EXPECT_THAT(Ask(request).get().first,
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = Request();
  request.set_page_token("x");
  EXPECT_THAT(Ask(request).get().first,
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = Request();
  request.set_name("projects/default/scenes/none");
  EXPECT_THAT(Ask(request).get().first,
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
}

TEST_F(RenderTest, FinishedJobIsRenderedFromItsNewestCheckpoint) {
  worker_->SendReport(FakeWorker::Report(grant_, v1::JobReport::SUCCEEDED, 100));
  ASSERT_TRUE(worker_->WaitForAcknowledgement(job_));
  v1::RenderImageRequest request = View();
  request.set_training_job(job_);
  auto outcome = Render(request);
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->render().file().sha256(), model_blob_.sha256());
  v1::SynchronizeRequest message;
  message.mutable_reply()->set_request_id(task->request_id());
  message.mutable_reply()->set_last(true);
  worker_->Send(message);
  EXPECT_THAT(outcome.get().status, IsOk());
}

// A server with short time limits.
class RenderTimeTest : public RenderTest {
 protected:
  void SetUp() override {}
  void Begin(absl::Duration request_timeout, absl::Duration max_request_timeout) {
    ServiceTimes times = RpcTestServer::DefaultTimes();
    times.request_timeout = request_timeout;
    times.max_request_timeout = max_request_timeout;
    server_.Restart(times);
    RenderTest::SetUp();
  }
  v1::RenderImageRequest ViewOfJob() const {
    v1::RenderImageRequest request = View();
    request.set_training_job(job_);
    return request;
  }
};

TEST_F(RenderTimeTest, CallersDeadlineCountsAndTheServersOwnOnlyWhereThereIsNone) {
  Begin(absl::Milliseconds(50), absl::Hours(1));
  auto patient = Render(ViewOfJob(), absl::Seconds(20));
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  auto without_deadline = Render(ViewOfJob(), absl::InfiniteDuration());
  EXPECT_THAT(without_deadline.get().status,
              StatusIs(StatusCode::kDeadlineExceeded, "the worker took too long"));
  // The first one has waited for longer than that.
  Reply(task->request_id(), v1::RenderImageResponse().SerializeAsString(), true);
  EXPECT_THAT(patient.get().status, IsOk());
}

TEST_F(RenderTimeTest, NoDeadlineIsLongerThanTheServerAllows) {
  Begin(absl::Minutes(10), absl::Milliseconds(50));
  auto outcome = Render(ViewOfJob(), absl::Seconds(20));
  const auto task = worker_->WaitForRequest();
  ASSERT_TRUE(task.has_value());
  EXPECT_THAT(outcome.get().status,
              StatusIs(StatusCode::kDeadlineExceeded, "the worker took too long"));
  const auto cancel = worker_->WaitForRequest();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_TRUE(cancel->cancel());
}

TEST_F(RenderTimeTest, WorkerIsNotAskedWhenTheTimeIsOverAlready) {
  Begin(absl::ZeroDuration(), absl::Hours(1));
  EXPECT_THAT(Render(ViewOfJob(), absl::InfiniteDuration()).get().status,
              StatusIs(StatusCode::kDeadlineExceeded, "before the request reached a worker"));
}

}  // namespace
}  // namespace nerf
