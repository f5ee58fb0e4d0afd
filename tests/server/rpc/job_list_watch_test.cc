// WatchJobs over the wire.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/error_reason.h"
#include "server/rpc/calls/executor.h"
#include "server/rpc/calls/service_context.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/rpc/test_stream.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using absl::StatusCode;
using v1::WatchJobsResponse;

class ListWatch : public TestStream<WatchJobsResponse> {
 public:
  ListWatch(v1::JobService::Stub& stub, const v1::WatchJobsRequest& request)
      : TestStream([&](auto* context) { return stub.WatchJobs(context, request); }) {}

  // The next message with a job or a removal.
  WatchJobsResponse Next() {
    WatchJobsResponse message;
    while (Read(&message)) {
      if (message.jobs_size() > 0 || message.removed_size() > 0) return message;
    }
    ADD_FAILURE() << "the stream has ended";
    return {};
  }
};

class JobListWatchTest : public testing::Test {
 protected:
  void SetUp() override { scene_ = server_.CreateScene(); }

  std::unique_ptr<ListWatch> Watch(const std::string& token = "") {
    v1::WatchJobsRequest request;
    request.set_resume_token(token);
    return std::make_unique<ListWatch>(*server_.job_stub, request);
  }
  absl::Status Refused(const v1::WatchJobsRequest& request) {
    ListWatch watch(*server_.job_stub, request);
    WatchJobsResponse message;
    EXPECT_FALSE(watch.Read(&message));
    return watch.Finish();
  }

  RpcTestServer server_;
  std::string scene_;
};

TEST_F(JobListWatchTest, RowsComeFirstAndThenAsTheyChange) {
  const std::string one = server_.CreateJob(scene_, "one").name();
  const auto watch = Watch();
  const WatchJobsResponse first = watch->Next();
  EXPECT_TRUE(first.reset());
  EXPECT_TRUE(first.is_current());
  ASSERT_EQ(first.jobs_size(), 1);
  EXPECT_EQ(first.jobs(0).name(), one);
  EXPECT_NE(first.jobs(0).wait().reason(), "");
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  const auto grant = worker.TakeJob();
  ASSERT_TRUE(grant.has_value());
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 10));
  WatchJobsResponse next;
  do {
    next = watch->Next();
    ASSERT_EQ(next.jobs_size(), 1);
    EXPECT_FALSE(next.reset());
  } while (next.jobs(0).state() != v1::Job::RUNNING ||
           next.jobs(0).training_status().progress().step() < 10);
}

TEST_F(JobListWatchTest, RowIsTheJobAsGetTellsIt) {
  const std::string held = server_.CreateJob(scene_, "held").name();
  const std::string queued = server_.CreateJob(scene_, "queued").name();
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  const auto grant = worker.TakeJob();
  ASSERT_TRUE(grant.has_value());
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 10));
  ASSERT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    return server_.GetJob(held).training_status().progress().step() == 10 &&
           server_.GetJob(queued).wait().reason() == "WORKERS_BUSY";
  }));
  for (int i = 0; i < 2; ++i) {
    const WatchJobsResponse rows = Watch()->Next();
    ASSERT_EQ(rows.jobs_size(), 2);
    for (const v1::Job& row : rows.jobs()) {
      const v1::Job job = server_.GetJob(row.name());
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(row, job))
          << row.DebugString() << job.DebugString();
    }
    EXPECT_EQ(rows.jobs(0).wait().reason(), "WORKERS_BUSY");
  }
}

TEST_F(JobListWatchTest, TokenContinuesAndDeletedJobsAreRemoved) {
  for (const char* id : {"one", "two"}) server_.CreateJob(scene_, id);
  const std::string token = Watch()->Next().resume_token();
  const std::string gone = "projects/default/jobs/one";
  ASSERT_THAT(server_.CancelJob(gone), IsOk());
  ASSERT_THAT(server_.DeleteJob(gone), IsOk());
  const WatchJobsResponse next = Watch(token)->Next();
  EXPECT_FALSE(next.reset());
  EXPECT_EQ(next.jobs_size(), 0);
  EXPECT_THAT(next.removed(), testing::ElementsAre(gone));
}

TEST_F(JobListWatchTest, ChangesWithinTheIntervalShareAMessage) {
  constexpr int kJobs = 100;
  const auto watch = Watch();
  WatchJobsResponse message;
  do {
    ASSERT_TRUE(watch->Read(&message));
  } while (!message.is_current());
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kJobs; ++i) server_.CreateJob(scene_, "job-" + std::to_string(i));
  const absl::Duration taken = absl::Now() - begin;
  int n_messages = 0;
  for (std::set<std::string> names; names.size() < kJobs; ++n_messages) {
    message = watch->Next();
    for (const v1::Job& job : message.jobs()) names.insert(job.name());
  }
  EXPECT_LE(n_messages, 2 + taken / ServiceTimes().list_interval);
}

// Each has problems of 1.5 MB; a message may have 4 MiB.
TEST_F(JobListWatchTest, RowsThatDoNotFitOneMessageComeInSeveral) {
  const std::vector<std::string> ids = {"one", "two", "three"};
  for (const std::string& id : ids) server_.CreateJob(scene_, id);
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  worker.Hello();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto grant = worker.WaitForOrder(v1::DesiredJob::TRAIN);
    ASSERT_TRUE(grant.has_value());
    v1::JobReport failure = FakeWorker::Report(*grant, v1::JobReport::FAILED);
    *failure.mutable_error() =
        ToRpcStatus(WithReason(absl::InvalidArgumentError("problems"), reason::kDatasetInvalid));
    for (int n = 0; n < 500; ++n) {
      v1::SceneProblem* problem = failure.add_problems();
      problem->set_file(std::string(1000, 'f'));
      problem->set_field(std::string(1000, 'k'));
      problem->set_message(std::string(1000, 'm'));
    }
    worker.SendReport(failure);
    ASSERT_TRUE(worker.WaitForAcknowledgement(grant->job()));
    worker.Idle();
  }
  const auto watch = Watch();
  std::set<std::string> names;
  int n_messages = 0;
  WatchJobsResponse message;
  do {
    ASSERT_TRUE(watch->Read(&message)) << watch->Finish();
    EXPECT_EQ(message.reset(), n_messages == 0);
    EXPECT_EQ(message.resume_token().empty(), !message.is_current());
    for (const v1::Job& job : message.jobs()) {
      EXPECT_EQ(job.problems_size(), 500);
      EXPECT_TRUE(names.insert(job.name()).second);
    }
    ++n_messages;
  } while (!message.is_current());
  EXPECT_EQ(names.size(), ids.size());
  EXPECT_GT(n_messages, 1);
}

TEST_F(JobListWatchTest, QuietStreamIsKeptAliveWithAToken) {
  const auto watch = Watch();
  WatchJobsResponse message;
  ASSERT_TRUE(watch->Read(&message));
  EXPECT_TRUE(message.reset());
  ASSERT_TRUE(watch->Read(&message));
  EXPECT_FALSE(message.reset());
  EXPECT_TRUE(message.is_current());
  EXPECT_NE(message.resume_token(), "");
}

// Each may have a hundred rows, so the quick lane must not make them.
TEST_F(JobListWatchTest, BookmarksAreMadeInTheLaneOfLists) {
  const auto watch = Watch();
  std::atomic<int> n_messages = 0;
  std::thread reader([&] {
    WatchJobsResponse message;
    while (watch->Read(&message)) ++n_messages;
  });
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> n_blocked = 0;
  for (int i = 0; i < ExecutorThreads().lists; ++i) {
    server_.rpc->executor().Post(Lane::kLists, [&n_blocked, released] {
      ++n_blocked;
      released.wait();
    });
  }
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return n_blocked == ExecutorThreads().lists; }));
  const absl::Duration interval = RpcTestServer::DefaultTimes().bookmark_interval;
  absl::SleepFor(interval);  // for one that is on its way
  const int before = n_messages;
  absl::SleepFor(5 * interval);
  EXPECT_EQ(n_messages, before);
  release.set_value();
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return n_messages > before; }));
  watch->Cancel();
  reader.join();
}

TEST_F(JobListWatchTest, ChangedWaitComesWithoutAChangeOfTheJob) {
  server_.CreateJob(scene_, "one");
  const auto watch = Watch();
  const std::string before = watch->Next().jobs(0).wait().reason();
  EXPECT_EQ(before, "NO_WORKER");
  // It has no method that the job needs.
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  worker.Hello({}, {"other"});
  EXPECT_EQ(watch->Next().jobs(0).wait().reason(), "NO_CAPABLE_WORKER");
}

TEST_F(JobListWatchTest, WrongRequestsAreRefused) {
  v1::WatchJobsRequest request;
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
