// WatchTrainingJobs over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/rpc/test_stream.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using v1::WatchTrainingJobsResponse;

class ListWatch : public TestStream<WatchTrainingJobsResponse> {
 public:
  ListWatch(v1::TrainingService::Stub& stub, const v1::WatchTrainingJobsRequest& request)
      : TestStream([&](auto* context) { return stub.WatchTrainingJobs(context, request); }) {}

  // The next message with a job or a removal.
  WatchTrainingJobsResponse Next() {
    WatchTrainingJobsResponse message;
    while (Read(&message)) {
      if (message.training_jobs_size() > 0 || message.removed_size() > 0) return message;
    }
    ADD_FAILURE() << "the stream has ended";
    return {};
  }
};

class JobListWatchTest : public testing::Test {
 protected:
  void SetUp() override { scene_ = server_.CreateScene(); }

  std::unique_ptr<ListWatch> Watch(const std::string& token = "") {
    v1::WatchTrainingJobsRequest request;
    request.set_resume_token(token);
    return std::make_unique<ListWatch>(*server_.training_stub, request);
  }
  absl::Status Refused(const v1::WatchTrainingJobsRequest& request) {
    ListWatch watch(*server_.training_stub, request);
    WatchTrainingJobsResponse message;
    EXPECT_FALSE(watch.Read(&message));
    return watch.Finish();
  }

  RpcTestServer server_;
  std::string scene_;
};

TEST_F(JobListWatchTest, RowsComeFirstAndThenAsTheyChange) {
  const std::string one = server_.CreateJob(scene_, "one").name();
  const auto watch = Watch();
  const WatchTrainingJobsResponse first = watch->Next();
  EXPECT_TRUE(first.reset());
  EXPECT_TRUE(first.is_current());
  ASSERT_EQ(first.training_jobs_size(), 1);
  EXPECT_EQ(first.training_jobs(0).name(), one);
  EXPECT_NE(first.training_jobs(0).wait().reason(), "");
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  const auto grant = worker.TakeJob();
  ASSERT_TRUE(grant.has_value());
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 10));
  WatchTrainingJobsResponse next;
  do {
    next = watch->Next();
    ASSERT_EQ(next.training_jobs_size(), 1);
    EXPECT_FALSE(next.reset());
  } while (next.training_jobs(0).state() != v1::TrainingJob::RUNNING ||
           next.training_jobs(0).progress().step() < 10);
}

TEST_F(JobListWatchTest, TokenContinuesAndDeletedJobsAreRemoved) {
  for (const char* id : {"one", "two"}) server_.CreateJob(scene_, id);
  const std::string token = Watch()->Next().resume_token();
  v1::CancelTrainingJobRequest cancel;
  cancel.set_name("projects/default/trainingJobs/one");
  v1::TrainingJob cancelled;
  using Training = v1::TrainingService::Stub;
  ASSERT_THAT(
      RpcTestServer::Call(*server_.training_stub, &Training::CancelTrainingJob, cancel, &cancelled),
      IsOk());
  v1::DeleteTrainingJobRequest remove;
  remove.set_name(cancel.name());
  google::protobuf::Empty nothing;
  ASSERT_THAT(
      RpcTestServer::Call(*server_.training_stub, &Training::DeleteTrainingJob, remove, &nothing),
      IsOk());
  const WatchTrainingJobsResponse next = Watch(token)->Next();
  EXPECT_FALSE(next.reset());
  EXPECT_EQ(next.training_jobs_size(), 0);
  EXPECT_THAT(next.removed(), testing::ElementsAre(cancel.name()));
}

TEST_F(JobListWatchTest, QuietStreamIsKeptAliveWithAToken) {
  const auto watch = Watch();
  WatchTrainingJobsResponse message;
  ASSERT_TRUE(watch->Read(&message));
  EXPECT_TRUE(message.reset());
  ASSERT_TRUE(watch->Read(&message));
  EXPECT_FALSE(message.reset());
  EXPECT_TRUE(message.is_current());
  EXPECT_NE(message.resume_token(), "");
}

TEST_F(JobListWatchTest, ChangedWaitComesWithoutAChangeOfTheJob) {
  server_.CreateJob(scene_, "one");
  const auto watch = Watch();
  const std::string before = watch->Next().training_jobs(0).wait().reason();
  EXPECT_EQ(before, "NO_WORKER");
  // It has no method that the job needs.
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  worker.Hello({}, {"other"});
  EXPECT_EQ(watch->Next().training_jobs(0).wait().reason(), "NO_CAPABLE_WORKER");
}

TEST_F(JobListWatchTest, WrongRequestsAreRefused) {
  v1::WatchTrainingJobsRequest request;
  request.set_filter("state >");
  EXPECT_THAT(Refused(request), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = {};
  request.set_max_jobs(-1);
  EXPECT_THAT(Refused(request), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = {};
  request.set_resume_token("x");
  EXPECT_THAT(Refused(request), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = {};
  request.set_parent("jobs");
  EXPECT_THAT(Refused(request), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

}  // namespace
}  // namespace nerf
