#include "engine/serve/request_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace nerf {
namespace {

// Valid requests.
std::string Render(const std::string& id) {
  protocol::Render render;
  render.id = id;
  render.file = "f";
  render.orbit_count = 1;
  render.out = "o";
  return protocol::ToLine(render);
}
std::string Check(const std::string& id) { return protocol::ToLine(protocol::Check{id, "d"}); }
std::string Cancel(const std::string& id) { return protocol::ToLine(protocol::Cancel{id}); }
std::string Train(const std::string& job) {
  protocol::Train train;
  train.job = job;
  train.dataset = "d";
  train.out = "o";
  return protocol::ToLine(train);
}
std::string Stop(const std::string& job, bool checkpoint = false) {
  return protocol::ToLine(protocol::Stop{job, checkpoint});
}

std::string IdOf(const std::optional<QueuedRequest>& request) {
  return request.has_value() ? request->received.id : "none";
}

TEST(RequestQueueTest, KeepsOrderAndTurnsBadLinesIntoErrors) {
  RequestQueue queue;
  queue.PutLine(Render("a"));
  queue.PutLine("garbage");
  queue.PutLine(Check("b"));
  EXPECT_EQ(IdOf(queue.TryTake()), "a");
  EXPECT_FALSE(queue.TryTake()->ok());
  EXPECT_EQ(IdOf(queue.TryTake()), "b");
  EXPECT_EQ(queue.TryTake(), std::nullopt);
}

TEST(RequestQueueTest, RendersAndChecksThatAreCancelledWhileTheyWaitComeFirstToBeAnswered) {
  RequestQueue queue;
  queue.PutLine(Render("a"));
  queue.PutLine(Render("b"));
  queue.PutLine(Check("c"));
  for (const char* id : {"a", "c", "unknown"}) queue.PutLine(Cancel(id));
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
  queue.PutLine(Render("a"));
  EXPECT_FALSE(queue.HasUrgent());
  queue.PutLine(Train("j"));
  queue.PutLine(Cancel("unknown"));
  EXPECT_TRUE(queue.HasUrgent());
  EXPECT_EQ(queue.WaitTake()->received.type, "train");
  EXPECT_EQ(IdOf(queue.WaitTake()), "a");
}

TEST(RequestQueueTest, CancelWakesWhoWaitsForARequest) {
  RequestQueue queue;
  queue.PutLine(Render("a"));
  queue.PutLine(Cancel("a"));
  EXPECT_TRUE(queue.WaitTake()->cancelled);
}

TEST(RequestQueueTest, StopOfTheJobInWorkActsAtOnceAndIsStillDelivered) {
  RequestQueue queue;
  const std::stop_token stop = queue.BeginJob("j");
  queue.PutLine(Stop("other"));
  EXPECT_FALSE(stop.stop_requested());
  queue.PutLine(Stop("j"));
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(queue.TryTake()->received.job, "j") << "before what came earlier";
  EXPECT_EQ(queue.TryTake()->received.job, "other");
}

TEST(RequestQueueTest, StopsOfTheJobInWorkAreUrgent) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.PutLine(Render("a"));
  EXPECT_EQ(queue.TryTakeUrgent(), std::nullopt);
  queue.PutLine(Stop("j", true));
  queue.PutLine(Stop("j"));
  for (const bool checkpoint : {true, false}) {
    const std::optional<QueuedRequest> stop = queue.TryTakeUrgent();
    ASSERT_TRUE(stop.has_value());
    EXPECT_EQ(std::get<protocol::Stop>(*stop->received.request).checkpoint, checkpoint);
  }
  EXPECT_EQ(queue.TryTakeUrgent(), std::nullopt);
}

TEST(RequestQueueTest, StopThatCameTooLateIsStillDelivered) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.PutLine(Stop("j"));
  queue.EndJob();
  EXPECT_EQ(queue.WaitTake()->received.job, "j");
}

TEST(RequestQueueTest, RequestAtWorkIsStoppedByItsCancelAlone) {
  RequestQueue queue;
  const std::string render = Render("a");
  queue.PutLine(render);
  const std::stop_token stop = queue.TryTake()->stop;
  queue.PutLine(Cancel("b"));
  EXPECT_FALSE(stop.stop_requested());
  queue.PutLine(Cancel("a"));
  EXPECT_TRUE(stop.stop_requested());
  queue.EndRequest("a");
  queue.PutLine(render);
  EXPECT_FALSE(queue.TryTake()->stop.stop_requested()) << "the next of that name";
}

std::string QueuedLiveFrame(const std::string& id) {
  protocol::Render render;
  render.id = id;
  render.file = "f";
  render.orbit_count = 1;
  render.jpeg = render.live = true;
  render.out = "o";
  return protocol::ToLine(render);
}

TEST(RequestQueueTest, LiveFramesComeInTheirOrderBeforeOtherRendersAndChecks) {
  RequestQueue queue;
  queue.PutLine(Check("check"));
  queue.PutLine(Render("still"));
  EXPECT_FALSE(queue.HasLive());
  queue.PutLine(QueuedLiveFrame("first"));
  queue.PutLine(QueuedLiveFrame("second"));
  EXPECT_TRUE(queue.HasLive());
  EXPECT_FALSE(queue.HasUrgent());
  for (const char* id : {"first", "second", "check", "still"}) EXPECT_EQ(IdOf(queue.TryTake()), id);
  EXPECT_FALSE(queue.HasLive());
}

TEST(RequestQueueTest, CancelStopsTheOneOfTwoRequestsAtWorkThatItNames) {
  RequestQueue queue;
  queue.PutLine(Render("still"));
  const std::stop_token still = queue.TryTake()->stop;
  queue.PutLine(QueuedLiveFrame("live"));
  const std::stop_token live = queue.TryTake()->stop;
  queue.PutLine(Cancel("still"));
  EXPECT_TRUE(still.stop_requested());
  EXPECT_FALSE(live.stop_requested());
  queue.End();
  EXPECT_TRUE(live.stop_requested());
}

// A worker may ask for something new while what it cancelled is still being stopped.
TEST(RequestQueueTest, SecondRequestOfAnIdIsRefusedUntilTheFirstIsAnswered) {
  RequestQueue queue;
  const auto expect_refused = [&](const std::string& line) {
    queue.PutLine(line);
    const std::optional<QueuedRequest> second = queue.TryTake();
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->received.request.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(IdOf(second), "a") << "so that it can be answered";
  };
  queue.PutLine(Render("a"));
  queue.PutLine(Check("a"));
  const std::stop_token first = queue.TryTake()->stop;
  EXPECT_FALSE(queue.TryTake()->ok()) << "the first one waited";
  expect_refused(Render("a"));  // it is at work
  queue.PutLine(Cancel("a"));
  EXPECT_TRUE(first.stop_requested());
  expect_refused(Check("a"));  // it is being stopped
  queue.EndRequest("a");
  queue.PutLine(Render("a"));
  const std::optional<QueuedRequest> next = queue.TryTake();
  ASSERT_TRUE(next.has_value() && next->ok());
  EXPECT_FALSE(next->stop.stop_requested());
  queue.PutLine(Cancel("a"));
  EXPECT_TRUE(next->stop.stop_requested());
}

TEST(RequestQueueTest, IdOfARequestThatIsCancelledWhileItWaitsIsFreeOnceItIsAnswered) {
  RequestQueue queue;
  queue.PutLine(Render("a"));
  queue.PutLine(Cancel("a"));
  queue.PutLine(Render("a"));
  EXPECT_TRUE(queue.TryTake()->cancelled);
  EXPECT_FALSE(queue.TryTake()->ok());
  queue.EndRequest("a");
  queue.PutLine(Render("a"));
  EXPECT_FALSE(queue.TryTake()->cancelled);
}

TEST(RequestQueueTest, RequestThatIsPutBackForAStopOfTheJobIsTheFirstBehindIt) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.PutLine(Check("a"));
  queue.PutLine(Check("b"));
  std::optional<QueuedRequest> check = queue.TryTake();
  queue.PutLine(Stop("j"));
  EXPECT_FALSE(check->stop.stop_requested()) << "whoever works looks at the job's token, too";
  queue.PutBackRequest(*std::move(check));
  queue.EndJob();
  EXPECT_EQ(queue.TryTake()->received.type, "stop");
  const std::optional<QueuedRequest> again = queue.TryTake();
  EXPECT_EQ(IdOf(again), "a");
  EXPECT_FALSE(again->cancelled);
  queue.EndRequest("a");
  EXPECT_EQ(IdOf(queue.TryTake()), "b");
}

TEST(RequestQueueTest, RequestThatIsCancelledBeforeItIsPutBackIsAnsweredAsCancelled) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.PutLine(Check("a"));
  std::optional<QueuedRequest> check = queue.TryTake();
  queue.PutLine(Stop("j"));
  queue.PutLine(Cancel("a"));
  queue.PutBackRequest(*std::move(check));
  EXPECT_TRUE(queue.TryTakeUrgent()->cancelled);
}

TEST(RequestQueueTest, RequestThatIsCancelledAfterItWasPutBackIsAnsweredAsCancelled) {
  RequestQueue queue;
  queue.PutLine(Check("a"));
  std::optional<QueuedRequest> check = queue.TryTake();
  queue.PutBackRequest(*std::move(check));
  queue.PutLine(Cancel("a"));
  EXPECT_TRUE(queue.TryTake()->cancelled);
}

TEST(RequestQueueTest, EndStopsTheRequestAtWork) {
  RequestQueue queue;
  queue.PutLine(Check("a"));
  const std::stop_token stop = queue.TryTake()->stop;
  queue.End();
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(queue.TryTake(), std::nullopt);
}

TEST(RequestQueueTest, JobThatComesWhileTheLastOneEndsStaysUrgent) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.PutLine(Train("k"));
  queue.EndJob();
  EXPECT_EQ(queue.TryTakeUrgent()->received.job, "k");
}

// It will be answered with an error, and an error changes nothing.
TEST(RequestQueueTest, StopWithoutAModeThatIsKnownStopsNothing) {
  RequestQueue queue;
  queue.PutLine(R"({"type":"stop","job":"j","mode":"now"})");
  const std::stop_token stop = queue.BeginJob("j");
  queue.PutLine(R"({"type":"stop","job":"j"})");
  queue.PutLine(R"({"type":"stop","job":"j","mode":7})");
  EXPECT_FALSE(stop.stop_requested());
  queue.PutLine(Stop("j", true));
  EXPECT_TRUE(stop.stop_requested());
}

TEST(RequestQueueTest, StopThatWaitedBeforeItsJobBeganCounts) {
  RequestQueue queue;
  queue.PutLine(Stop("j"));
  EXPECT_TRUE(queue.BeginJob("j").stop_requested());
}

TEST(RequestQueueTest, JobThatEndedCannotStopTheNext) {
  RequestQueue queue;
  queue.BeginJob("j");
  queue.EndJob();
  queue.PutLine(Stop("j"));
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
  for (int i = 0; i < 70; ++i) queue.PutLine(Check(std::to_string(100 + i) + padding));
  int n_messages = 0, n_errors = 0;
  while (const auto mail = queue.TryTake()) ++(mail->ok() ? n_messages : n_errors);
  EXPECT_EQ(n_messages, 63);  // of a little more than 1 MiB each, in 64 MiB
  EXPECT_EQ(n_errors, 7);
}

TEST(RequestQueueTest, DeepNestingIsRefusedBracketsInStringsAreNot) {
  RequestQueue queue;
  queue.PutLine(Check(std::string(100, '[') + "\"{"));
  EXPECT_TRUE(queue.TryTake()->ok());
  queue.PutLine(R"({"type":"check","id":)" + std::string(100, '[') + std::string(100, ']') + "}");
  EXPECT_FALSE(queue.TryTake()->ok());
}

}  // namespace
}  // namespace nerf
