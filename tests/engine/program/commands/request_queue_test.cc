#include "engine/program/serve/request_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/program/serve/request_check.h"
#include "tests/engine/program/commands/worker_messages.h"

namespace nerf {
namespace {

using internal::WorkerRequest;

WorkerRequest Check(const std::string& id) { return CheckMessage(id, "d"); }

void Put(RequestQueue& queue, const WorkerRequest& request) {
  queue.Put(request, request.ByteSizeLong());
}

std::string IdOf(const std::optional<QueuedRequest>& request) {
  return request.has_value() ? request->request.id() : "none";
}

TEST(RequestQueueTest, KeepsOrderAndTurnsBadLinesIntoErrors) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  queue.Put(absl::InvalidArgumentError("no message"), 7);
  Put(queue, Check("b"));
  EXPECT_EQ(IdOf(queue.TryTake()), "a");
  EXPECT_FALSE(queue.TryTake()->ok());
  EXPECT_EQ(IdOf(queue.TryTake()), "b");
  EXPECT_EQ(queue.TryTake(), std::nullopt);
}

TEST(RequestQueueTest, RendersAndChecksThatAreCancelledWhileTheyWaitComeFirstToBeAnswered) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  Put(queue, ValidRender("b"));
  Put(queue, Check("c"));
  for (const char* id : {"a", "c", "unknown"}) Put(queue, CancelMessage(id));
  for (const char* id : {"a", "c"}) {
    const std::optional<QueuedRequest> cancelled = queue.TryTakeUrgent();
    ASSERT_TRUE(cancelled.has_value());
    EXPECT_TRUE(cancelled->cancelled);
    EXPECT_EQ(IdOf(cancelled), id);
  }
  EXPECT_EQ(queue.TryTakeUrgent(), std::nullopt);
  const std::optional<QueuedRequest> other = queue.TryTake();
  EXPECT_EQ(IdOf(other), "b");
  EXPECT_FALSE(other->cancelled);
  EXPECT_EQ(queue.TryTake(), std::nullopt);
}

TEST(RequestQueueTest, JobGoesBeforeRendersAndChecksThatWait) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  EXPECT_FALSE(queue.HasUrgent());
  Put(queue, ValidTrain("j"));
  Put(queue, CancelMessage("unknown"));
  EXPECT_TRUE(queue.HasUrgent());
  EXPECT_TRUE(queue.WaitTake()->request.has_train());
  EXPECT_EQ(IdOf(queue.WaitTake()), "a");
}

TEST(RequestQueueTest, CancelWakesWhoWaitsForARequest) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  Put(queue, CancelMessage("a"));
  EXPECT_TRUE(queue.WaitTake()->cancelled);
}

TEST(RequestQueueTest, StopOfTheJobInWorkActsAtOnceAndIsStillDelivered) {
  RequestQueue queue;
  const std::stop_token stop = queue.BeginJob("j");
  Put(queue, StopMessage("other"));
  EXPECT_FALSE(stop.stop_requested());
  Put(queue, StopMessage("j"));
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(queue.TryTake()->request.job(), "j") << "before what came earlier";
  EXPECT_EQ(queue.TryTake()->request.job(), "other");
}

TEST(RequestQueueTest, StopsOfTheJobInWorkAreUrgent) {
  RequestQueue queue;
  queue.BeginJob("j");
  Put(queue, ValidRender("a"));
  EXPECT_EQ(queue.TryTakeUrgent(), std::nullopt);
  Put(queue, StopMessage("j", true));
  Put(queue, StopMessage("j"));
  for (const bool checkpoint : {true, false}) {
    const std::optional<QueuedRequest> stop = queue.TryTakeUrgent();
    ASSERT_TRUE(stop.has_value());
    EXPECT_EQ(stop->request.stop().checkpoint(), checkpoint);
  }
  EXPECT_EQ(queue.TryTakeUrgent(), std::nullopt);
}

TEST(RequestQueueTest, StopThatCameTooLateIsStillDelivered) {
  RequestQueue queue;
  queue.BeginJob("j");
  Put(queue, StopMessage("j"));
  queue.EndJob();
  EXPECT_EQ(queue.WaitTake()->request.job(), "j");
}

TEST(RequestQueueTest, RequestAtWorkIsStoppedByItsCancelAlone) {
  RequestQueue queue;
  const WorkerRequest render = ValidRender("a");
  Put(queue, render);
  const std::stop_token stop = queue.TryTake()->stop;
  Put(queue, CancelMessage("b"));
  EXPECT_FALSE(stop.stop_requested());
  Put(queue, CancelMessage("a"));
  EXPECT_TRUE(stop.stop_requested());
  queue.EndRequest("a");
  Put(queue, render);
  EXPECT_FALSE(queue.TryTake()->stop.stop_requested()) << "the next of that name";
}

WorkerRequest QueuedLiveFrame(const std::string& id) {
  WorkerRequest request = ValidRender(id);
  request.mutable_render()->mutable_live()->set_jpeg_quality(40);
  return request;
}

TEST(RequestQueueTest, LiveFramesComeInTheirOrderBeforeOtherRendersAndChecks) {
  RequestQueue queue;
  Put(queue, Check("check"));
  Put(queue, ValidRender("still"));
  EXPECT_FALSE(queue.HasLive());
  Put(queue, QueuedLiveFrame("first"));
  Put(queue, QueuedLiveFrame("second"));
  EXPECT_TRUE(queue.HasLive());
  EXPECT_FALSE(queue.HasUrgent());
  for (const char* id : {"first", "second", "check", "still"}) EXPECT_EQ(IdOf(queue.TryTake()), id);
  EXPECT_FALSE(queue.HasLive());
}

TEST(RequestQueueTest, CancelStopsTheOneOfTwoRequestsAtWorkThatItNames) {
  RequestQueue queue;
  Put(queue, ValidRender("still"));
  const std::stop_token still = queue.TryTake()->stop;
  Put(queue, QueuedLiveFrame("live"));
  const std::stop_token live = queue.TryTake()->stop;
  Put(queue, CancelMessage("still"));
  EXPECT_TRUE(still.stop_requested());
  EXPECT_FALSE(live.stop_requested());
  queue.End();
  EXPECT_TRUE(live.stop_requested());
}

// A worker may ask for something new while what it cancelled is still being stopped.
TEST(RequestQueueTest, SecondRequestOfAnIdIsRefusedUntilTheFirstIsAnswered) {
  RequestQueue queue;
  const auto expect_refused = [&](const WorkerRequest& request) {
    Put(queue, request);
    const std::optional<QueuedRequest> second = queue.TryTake();
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(IdOf(second), "a") << "so that it can be answered";
  };
  Put(queue, ValidRender("a"));
  Put(queue, Check("a"));
  const std::stop_token first = queue.TryTake()->stop;
  EXPECT_FALSE(queue.TryTake()->ok()) << "the first one waited";
  expect_refused(ValidRender("a"));  // it is at work
  Put(queue, CancelMessage("a"));
  EXPECT_TRUE(first.stop_requested());
  expect_refused(Check("a"));  // it is being stopped
  queue.EndRequest("a");
  Put(queue, ValidRender("a"));
  const std::optional<QueuedRequest> next = queue.TryTake();
  ASSERT_TRUE(next.has_value() && next->ok());
  EXPECT_FALSE(next->stop.stop_requested());
  Put(queue, CancelMessage("a"));
  EXPECT_TRUE(next->stop.stop_requested());
}

TEST(RequestQueueTest, IdOfARequestThatIsCancelledWhileItWaitsIsFreeOnceItIsAnswered) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  Put(queue, CancelMessage("a"));
  Put(queue, ValidRender("a"));
  EXPECT_TRUE(queue.TryTake()->cancelled);
  EXPECT_FALSE(queue.TryTake()->ok());
  queue.EndRequest("a");
  Put(queue, ValidRender("a"));
  EXPECT_FALSE(queue.TryTake()->cancelled);
}

TEST(RequestQueueTest, RequestThatIsPutBackForAStopOfTheJobIsTheFirstBehindIt) {
  RequestQueue queue;
  queue.BeginJob("j");
  Put(queue, Check("a"));
  Put(queue, Check("b"));
  std::optional<QueuedRequest> check = queue.TryTake();
  Put(queue, StopMessage("j"));
  EXPECT_FALSE(check->stop.stop_requested()) << "whoever works looks at the job's token, too";
  queue.PutBackRequest(*std::move(check));
  queue.EndJob();
  EXPECT_TRUE(queue.TryTake()->request.has_stop());
  const std::optional<QueuedRequest> again = queue.TryTake();
  EXPECT_EQ(IdOf(again), "a");
  EXPECT_FALSE(again->cancelled);
  queue.EndRequest("a");
  EXPECT_EQ(IdOf(queue.TryTake()), "b");
}

TEST(RequestQueueTest, RequestThatIsCancelledBeforeItIsPutBackIsAnsweredAsCancelled) {
  RequestQueue queue;
  queue.BeginJob("j");
  Put(queue, Check("a"));
  std::optional<QueuedRequest> check = queue.TryTake();
  Put(queue, StopMessage("j"));
  Put(queue, CancelMessage("a"));
  queue.PutBackRequest(*std::move(check));
  EXPECT_TRUE(queue.TryTakeUrgent()->cancelled);
}

TEST(RequestQueueTest, RequestThatIsCancelledAfterItWasPutBackIsAnsweredAsCancelled) {
  RequestQueue queue;
  Put(queue, Check("a"));
  std::optional<QueuedRequest> check = queue.TryTake();
  queue.PutBackRequest(*std::move(check));
  Put(queue, CancelMessage("a"));
  EXPECT_TRUE(queue.TryTake()->cancelled);
}

TEST(RequestQueueTest, EndStopsTheRequestAtWork) {
  RequestQueue queue;
  Put(queue, Check("a"));
  const std::stop_token stop = queue.TryTake()->stop;
  queue.End();
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(queue.TryTake(), std::nullopt);
}

TEST(RequestQueueTest, JobThatComesWhileTheLastOneEndsStaysUrgent) {
  RequestQueue queue;
  queue.BeginJob("j");
  Put(queue, ValidTrain("k"));
  queue.EndJob();
  EXPECT_EQ(queue.TryTakeUrgent()->request.job(), "k");
}

// It will be answered with an error, and an error changes nothing.
TEST(RequestQueueTest, StopThatIsRefusedStopsNothing) {
  RequestQueue queue;
  WorkerRequest wrong = StopMessage("j");
  wrong.set_id(std::string(kMaxNameBytes + 1, 'i'));
  Put(queue, wrong);
  const std::stop_token stop = queue.BeginJob("j");
  Put(queue, wrong);
  Put(queue, StopMessage(""));
  queue.Put(absl::InvalidArgumentError("no message"), 7);
  EXPECT_FALSE(stop.stop_requested());
  Put(queue, StopMessage("j", true));
  EXPECT_TRUE(stop.stop_requested());
}

// A job that is refused has to be answered before the renders that wait.
TEST(RequestQueueTest, JobThatIsRefusedIsUrgentAndStartsNothing) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  Put(queue, ValidTrain(""));
  const std::optional<QueuedRequest> train = queue.TryTakeUrgent();
  ASSERT_TRUE(train.has_value());
  EXPECT_EQ(train->status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(train->request.has_train()) << "so that it can be answered";
}

TEST(RequestQueueTest, CancelWithoutAnIdIsAnsweredAndCancelsNothing) {
  RequestQueue queue;
  Put(queue, ValidRender("a"));
  Put(queue, CancelMessage(""));
  EXPECT_FALSE(queue.TryTake()->cancelled);
  EXPECT_FALSE(queue.TryTake()->ok());
}

TEST(RequestQueueTest, StopThatWaitedBeforeItsJobBeganCounts) {
  RequestQueue queue;
  Put(queue, StopMessage("j"));
  EXPECT_TRUE(queue.BeginJob("j").stop_requested());
}

TEST(RequestQueueTest, JobThatEndedCannotStopTheNext) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.EndJob();
  Put(queue, StopMessage("j"));
  queue.TryTake();
  EXPECT_FALSE(queue.BeginJob("k").stop_requested());
}

TEST(RequestQueueTest, EndWakesWaitersAndStopsTheJob) {
  RequestQueue queue;
  const std::stop_token stop = queue.BeginJob("j");
  std::thread ender([&] { queue.End(); });
  EXPECT_EQ(queue.WaitTake(), std::nullopt);
  ender.join();
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_TRUE(queue.BeginJob("late").stop_requested());
}

TEST(RequestQueueTest, FloodIsRefusedAndNotStored) {
  RequestQueue queue;
  const std::string padding(1 << 20, 'p');
  for (int i = 0; i < 70; ++i) Put(queue, CheckMessage(std::to_string(100 + i), padding));
  int n_messages = 0, n_errors = 0;
  while (const auto mail = queue.TryTake()) ++(mail->ok() ? n_messages : n_errors);
  EXPECT_EQ(n_messages, 63);  // of a little more than 1 MiB each, in 64 MiB
  EXPECT_EQ(n_errors, 7);
}

TEST(RequestQueueTest, ErrorsInARowAreAnsweredByOneBeyondAThousand) {
  RequestQueue queue;
  for (int i = 0; i < 5000; ++i) queue.Put(absl::InvalidArgumentError("no message"), 0);
  Put(queue, Check("a"));
  int n_errors = 0;
  std::optional<QueuedRequest> taken = queue.TryTake();
  for (; taken.has_value() && !taken->ok(); taken = queue.TryTake()) ++n_errors;
  EXPECT_EQ(n_errors, 1001);
  EXPECT_EQ(IdOf(taken), "a");
}

TEST(RequestQueueTest, TextsOfTheRanksAreOfTheJobInWork) {
  RequestQueue queue;
  queue.BeginJob("j");
  WorkerRequest request;
  request.mutable_rank_texts()->set_sequence(2);
  request.mutable_rank_texts()->add_texts("a\xff");
  request.mutable_rank_texts()->add_texts("b");
  request.set_job("other");
  Put(queue, request);
  EXPECT_EQ(queue.AwaitRankTexts(2, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  request.set_job("j");
  Put(queue, request);
  EXPECT_EQ(*queue.AwaitRankTexts(2, absl::ZeroDuration()),
            (std::vector<std::string>{"a\xff", "b"}));
  EXPECT_EQ(queue.TryTake(), std::nullopt) << "they are no requests to handle";
  Put(queue, StopMessage("j"));
  EXPECT_EQ(queue.AwaitRankTexts(3, absl::Minutes(5)).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace nerf
