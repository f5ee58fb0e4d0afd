// Watches over the wire: snapshot first, every state change, resumable by token, bookmarks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/error_reason.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/rpc/test_stream.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using v1::WatchJobResponse;

class Watch : public TestStream<WatchJobResponse> {
 public:
  Watch(v1::JobService::Stub& stub, const std::string& job, const std::string& token = "")
      : TestStream([&](auto* context) {
          v1::WatchJobRequest request;
          request.set_name(job);
          request.set_resume_token(token);
          return stub.WatchJob(context, request);
        }) {}

  // The next message that is no bookmark; KIND_UNSPECIFIED at the end.
  WatchJobResponse Next() {
    WatchJobResponse message;
    while (Read(&message)) {
      if (message.kind() != WatchJobResponse::BOOKMARK) return message;
    }
    return {};
  }
  WatchJobResponse NextBookmark() {
    WatchJobResponse message;
    while (Read(&message)) {
      if (message.kind() == WatchJobResponse::BOOKMARK) return message;
    }
    return {};
  }
};

class JobWatchTest : public testing::Test {
 protected:
  void SetUp() override { job_ = server_.CreateJob(server_.CreateScene()).name(); }

  void Cancel() { ASSERT_THAT(server_.CancelJob(job_), IsOk()); }

  // A worker takes the job, trains it and ends it with success.
  void TrainToTheEnd() {
    FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
    const auto grant = worker.TakeJob();
    ASSERT_TRUE(grant.has_value());
    worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING));
    ASSERT_TRUE(worker.WaitForOrder(v1::DesiredJob::ACTION_UNSPECIFIED));
    worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED));
    ASSERT_TRUE(worker.WaitForAcknowledgement(job_));
  }

  RpcTestServer server_;
  std::string job_;
};

TEST_F(JobWatchTest, SnapshotComesFirstThenEveryChangeUntilTheJobIsFinal) {
  Watch watch(*server_.job_stub, job_);
  const auto snapshot = watch.Next();
  EXPECT_EQ(snapshot.kind(), WatchJobResponse::SNAPSHOT);
  EXPECT_EQ(snapshot.job().state(), v1::Job::QUEUED);
  EXPECT_EQ(snapshot.sequence(), 1);
  EXPECT_FALSE(snapshot.gap());
  Cancel();
  const auto change = watch.Next();
  EXPECT_EQ(change.kind(), WatchJobResponse::STATE_CHANGED);
  EXPECT_EQ(change.job().state(), v1::Job::CANCELLED);
  EXPECT_EQ(change.sequence(), 2);
  EXPECT_EQ(watch.Next().kind(), WatchJobResponse::KIND_UNSPECIFIED);
  EXPECT_THAT(watch.Finish(), IsOk());
}

TEST_F(JobWatchTest, TwoWatchersSeeTheSameEventsInTheSameOrder) {
  Watch first(*server_.job_stub, job_), second(*server_.job_stub, job_);
  first.Next();
  second.Next();
  TrainToTheEnd();
  std::vector<std::pair<double, int>> seen[2];
  for (int i = 0; i < 2; ++i) {
    Watch& watch = i == 0 ? first : second;
    while (true) {
      const auto message = watch.Next();
      if (message.kind() == WatchJobResponse::KIND_UNSPECIFIED) break;
      if (message.kind() != WatchJobResponse::STATE_CHANGED) continue;
      seen[i].emplace_back(message.sequence(), message.job().state());
    }
    EXPECT_THAT(watch.Finish(), IsOk());
  }
  EXPECT_THAT(seen[0], testing::ElementsAre(testing::Pair(2, v1::Job::PREPARING),
                                            testing::Pair(3, v1::Job::RUNNING),
                                            testing::Pair(4, v1::Job::SUCCEEDED)));
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(JobWatchTest, TokenResumesWithoutGapOrRepetitionAlsoAfterARestart) {
  std::string token;
  {
    Watch watch(*server_.job_stub, job_);
    token = watch.Next().resume_token();
  }
  TrainToTheEnd();
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    Watch watch(*server_.job_stub, job_, token);
    const auto snapshot = watch.Next();
    EXPECT_EQ(snapshot.kind(), WatchJobResponse::SNAPSHOT);
    EXPECT_FALSE(snapshot.gap());
    for (int sequence = 2; sequence <= 4; ++sequence) EXPECT_EQ(watch.Next().sequence(), sequence);
    EXPECT_EQ(watch.Next().kind(), WatchJobResponse::KIND_UNSPECIFIED);
    EXPECT_THAT(watch.Finish(), IsOk());
    server_.Stop();
    server_.Start();
  }
}

TEST_F(JobWatchTest, LiveProgressReachesTheWatcherWithTheSequenceBeforeIt) {
  Watch watch(*server_.job_stub, job_);
  // Read before the progress is sent, because a later snapshot would include it.
  ASSERT_EQ(watch.Next().kind(), WatchJobResponse::SNAPSHOT);
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  const auto grant = worker.TakeJob();
  ASSERT_TRUE(grant.has_value());
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, 42));
  WatchJobResponse message;
  do {
    message = watch.Next();
  } while (message.kind() != WatchJobResponse::PROGRESS &&
           message.kind() != WatchJobResponse::KIND_UNSPECIFIED);
  EXPECT_EQ(message.job().training_status().progress().step(), 42u);
  EXPECT_EQ(message.sequence(), 3) << "queued, preparing, running are stored; progress is not";
}

TEST_F(JobWatchTest, QuietWatchGetsBookmarksWhoseTokensResume) {
  Watch watch(*server_.job_stub, job_);
  const auto bookmark = watch.NextBookmark();
  ASSERT_EQ(bookmark.kind(), WatchJobResponse::BOOKMARK);
  EXPECT_EQ(bookmark.sequence(), 1);
  Cancel();
  Watch resumed(*server_.job_stub, job_, bookmark.resume_token());
  EXPECT_EQ(resumed.Next().kind(), WatchJobResponse::SNAPSHOT);
  EXPECT_EQ(resumed.Next().sequence(), 2);
}

TEST_F(JobWatchTest, QuietWatchGetsABookmarkEachInterval) {
  Watch watch(*server_.job_stub, job_);
  watch.NextBookmark();
  absl::Duration shortest = absl::InfiniteDuration();  // a loaded machine may miss some
  for (int i = 0; i < 5; ++i) {
    const absl::Time begin = absl::Now();
    ASSERT_EQ(watch.NextBookmark().kind(), WatchJobResponse::BOOKMARK);
    shortest = std::min(shortest, absl::Now() - begin);
  }
  EXPECT_LT(shortest, 1.5 * RpcTestServer::DefaultTimes().bookmark_interval);
}

TEST_F(JobWatchTest, WatchOfAQueuedJobTellsWhatItWaitsForAndWhenThatChanges) {
  Watch watch(*server_.job_stub, job_);
  EXPECT_EQ(watch.Next().job().wait().reason(), "NO_WORKER");
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  worker.Hello(std::nullopt, {"other"});
  WatchJobResponse bookmark;
  do {
    bookmark = watch.NextBookmark();
    ASSERT_EQ(bookmark.kind(), WatchJobResponse::BOOKMARK);
    EXPECT_EQ(bookmark.job().state(), v1::Job::QUEUED);
  } while (bookmark.job().wait().reason() != "NO_CAPABLE_WORKER");
  EXPECT_EQ(bookmark.sequence(), 1);
  Cancel();
  EXPECT_FALSE(watch.Next().job().has_wait());
}

TEST_F(JobWatchTest, QueuedStateThatIsOverIsToldWithoutAWait) {
  std::string token;
  {
    Watch watch(*server_.job_stub, job_);
    token = watch.Next().resume_token();
  }
  Cancel();
  Watch watch(*server_.job_stub, job_, token);
  const auto snapshot = watch.Next();
  EXPECT_EQ(snapshot.job().state(), v1::Job::QUEUED);
  EXPECT_FALSE(snapshot.job().has_wait());
}

TEST_F(JobWatchTest, TokenOfAnotherJobOrStoreIsRefused) {
  Watch watch(*server_.job_stub, job_);
  const std::string token = watch.Next().resume_token();
  const std::string other = server_.CreateJob(server_.CreateScene("other")).name();
  Watch of_other_job(*server_.job_stub, other, token);
  EXPECT_EQ(of_other_job.Next().kind(), WatchJobResponse::KIND_UNSPECIFIED);
  EXPECT_THAT(of_other_job.Finish(),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));

  RpcTestServer elsewhere;
  v1::Job same_name = elsewhere.CreateJob(elsewhere.CreateScene(), "same");
  Watch foreign(*elsewhere.job_stub, same_name.name());
  const std::string foreign_token = foreign.Next().resume_token();
  server_.CreateJob(server_.CreateScene("third"), "same");
  Watch of_other_store(*server_.job_stub, same_name.name(), foreign_token);
  EXPECT_EQ(of_other_store.Next().kind(), WatchJobResponse::KIND_UNSPECIFIED);
  EXPECT_THAT(of_other_store.Finish(), FailsWith(StatusCode::kDataLoss, reason::kEpochMismatch));
}

// A reader that does not read delays one message, and not the job.
TEST_F(JobWatchTest, ReaderThatStallsDelaysNobodyAndLaterSeesEveryStateButNotEveryProgress) {
  Watch stalled(*server_.job_stub, job_);
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  const auto grant = worker.TakeJob();
  ASSERT_TRUE(grant.has_value());
  constexpr int kReports = 500;
  for (int step = 1; step <= kReports; ++step) {
    worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::RUNNING, step));
  }
  worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED, kReports));
  ASSERT_TRUE(worker.WaitForAcknowledgement(job_));
  int n_progress = 0;
  std::vector<int> states;
  for (auto message = stalled.Next(); message.kind() != 0; message = stalled.Next()) {
    if (message.kind() == WatchJobResponse::PROGRESS) ++n_progress;
    if (message.kind() == WatchJobResponse::STATE_CHANGED) {
      states.push_back(message.job().state());
    }
  }
  EXPECT_LT(n_progress, kReports / 2);
  EXPECT_EQ(states.back(), v1::Job::SUCCEEDED);
  EXPECT_THAT(stalled.Finish(), IsOk());
}

// Over a socket, because the in-process transport closes before the last message arrives.
TEST(JobWatchShutdownTest, ShutdownEndsWatchesAndWorkerStreamsWithDraining) {
  RpcTestServer server(/*over_socket=*/true);
  Watch watch(*server.job_stub, server.CreateJob(server.CreateScene()).name());
  watch.Next();
  FakeWorker worker(server.channel, RpcTestServer::kToken, "w-1");
  ASSERT_TRUE(worker.TakeJob().has_value());
  const absl::Time start = absl::Now();
  server.rpc->Shutdown(absl::Minutes(5));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1)) << "nothing was left to wait for";
  while (watch.Next().kind() != WatchJobResponse::KIND_UNSPECIFIED) {
  }
  EXPECT_THAT(watch.Finish(), FailsWith(StatusCode::kUnavailable, reason::kDraining));
  EXPECT_THAT(worker.WaitForEnd(), FailsWith(StatusCode::kUnavailable, reason::kDraining));
}

}  // namespace
}  // namespace nerf
