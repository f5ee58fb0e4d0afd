#include "engine/tool/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace nerf {
namespace {

std::string IdOf(const std::optional<Mail>& mail) {
  return mail.has_value() && mail->message.is_object() ? mail->message.value("id", "") : "none";
}

TEST(MailboxTest, KeepsOrderAndTurnsBadLinesIntoErrors) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"render","id":"a"})");
  mailbox.PutLine("garbage");
  mailbox.PutLine(R"({"type":"check","id":"b"})");
  EXPECT_EQ(IdOf(mailbox.TryTake()), "a");
  EXPECT_FALSE(mailbox.TryTake()->error.empty());
  EXPECT_EQ(IdOf(mailbox.TryTake()), "b");
  EXPECT_EQ(mailbox.TryTake(), std::nullopt);
}

TEST(MailboxTest, RendersAndChecksThatAreCancelledWhileTheyWaitComeFirstToBeAnswered) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"render","id":"a"})");
  mailbox.PutLine(R"({"type":"render","id":"b"})");
  mailbox.PutLine(R"({"type":"check","id":"a"})");
  mailbox.PutLine(R"({"type":"cancel","id":"a"})");
  mailbox.PutLine(R"({"type":"cancel","id":"unknown"})");
  for (const char* type : {"render", "check"}) {
    const std::optional<Mail> cancelled = mailbox.TryTakeUrgent();
    ASSERT_TRUE(cancelled.has_value());
    EXPECT_TRUE(cancelled->cancelled);
    EXPECT_EQ(cancelled->message["type"], type);
    EXPECT_EQ(IdOf(cancelled), "a");
  }
  EXPECT_EQ(mailbox.TryTakeUrgent(), std::nullopt);
  const std::optional<Mail> other = mailbox.TryTake();
  EXPECT_EQ(IdOf(other), "b");
  EXPECT_FALSE(other->cancelled);
  EXPECT_EQ(mailbox.TryTake(), std::nullopt);
}

TEST(MailboxTest, JobGoesBeforeRendersAndChecksThatWait) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"render","id":"a"})");
  EXPECT_FALSE(mailbox.HasUrgent());
  mailbox.PutLine(R"({"type":"train","job":"j","id":"a"})");
  mailbox.PutLine(R"({"type":"cancel","id":"unknown"})");
  EXPECT_TRUE(mailbox.HasUrgent());
  EXPECT_EQ(mailbox.WaitTake()->message["type"], "train");
  EXPECT_EQ(IdOf(mailbox.WaitTake()), "a");
}

TEST(MailboxTest, CancelWakesWhoWaitsForARequest) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"render","id":"a"})");
  mailbox.PutLine(R"({"type":"cancel","id":"a"})");
  EXPECT_TRUE(mailbox.WaitTake()->cancelled);
}

TEST(MailboxTest, StopOfTheJobInWorkActsAtOnceAndIsStillDelivered) {
  Mailbox mailbox;
  const std::stop_token stop = mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"stop","job":"other","mode":"discard"})");
  EXPECT_FALSE(stop.stop_requested());
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(mailbox.TryTake()->message["job"], "j") << "before what came earlier";
  EXPECT_EQ(mailbox.TryTake()->message["job"], "other");
}

TEST(MailboxTest, StopsOfTheJobInWorkAreUrgent) {
  Mailbox mailbox;
  mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"render","id":"a"})");
  EXPECT_EQ(mailbox.TryTakeUrgent(), std::nullopt);
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"checkpoint"})");
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  EXPECT_EQ(mailbox.TryTakeUrgent()->message["mode"], "checkpoint");
  EXPECT_EQ(mailbox.TryTakeUrgent()->message["mode"], "discard");
  EXPECT_EQ(mailbox.TryTakeUrgent(), std::nullopt);
}

TEST(MailboxTest, StopThatCameTooLateIsStillDelivered) {
  Mailbox mailbox;
  mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  mailbox.EndJob();
  EXPECT_EQ(mailbox.WaitTake()->message["job"], "j");
}

TEST(MailboxTest, RequestAtWorkIsStoppedByItsCancelAlone) {
  Mailbox mailbox;
  const char* const render = R"({"type":"render","id":"a"})";
  mailbox.PutLine(render);
  const std::stop_token stop = mailbox.TryTake()->stop;
  mailbox.PutLine(R"({"type":"cancel","id":"b"})");
  EXPECT_FALSE(stop.stop_requested());
  mailbox.PutLine(R"({"type":"cancel","id":"a"})");
  EXPECT_TRUE(stop.stop_requested());
  mailbox.EndRequest();
  mailbox.PutLine(render);
  EXPECT_FALSE(mailbox.TryTake()->stop.stop_requested()) << "the next of that name";
}

TEST(MailboxTest, RequestThatIsPutBackForAStopOfTheJobIsTheFirstBehindIt) {
  Mailbox mailbox;
  mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"check","id":"a"})");
  mailbox.PutLine(R"({"type":"check","id":"b"})");
  std::optional<Mail> check = mailbox.TryTake();
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  EXPECT_FALSE(check->stop.stop_requested()) << "whoever works looks at the job's token, too";
  mailbox.PutBackRequest(*std::move(check));
  mailbox.EndJob();
  EXPECT_EQ(mailbox.TryTake()->message["type"], "stop");
  const std::optional<Mail> again = mailbox.TryTake();
  EXPECT_EQ(IdOf(again), "a");
  EXPECT_FALSE(again->cancelled);
  mailbox.EndRequest();
  EXPECT_EQ(IdOf(mailbox.TryTake()), "b");
}

TEST(MailboxTest, RequestThatIsCancelledBeforeItIsPutBackIsAnsweredAsCancelled) {
  Mailbox mailbox;
  mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"check","id":"a"})");
  std::optional<Mail> check = mailbox.TryTake();
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  mailbox.PutLine(R"({"type":"cancel","id":"a"})");
  mailbox.PutBackRequest(*std::move(check));
  EXPECT_TRUE(mailbox.TryTakeUrgent()->cancelled);
}

TEST(MailboxTest, RequestThatIsCancelledAfterItWasPutBackIsAnsweredAsCancelled) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"check","id":"a"})");
  std::optional<Mail> check = mailbox.TryTake();
  mailbox.PutBackRequest(*std::move(check));
  mailbox.PutLine(R"({"type":"cancel","id":"a"})");
  EXPECT_TRUE(mailbox.TryTake()->cancelled);
}

TEST(MailboxTest, EndStopsTheRequestAtWork) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"check","id":"a"})");
  const std::stop_token stop = mailbox.TryTake()->stop;
  mailbox.End();
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(mailbox.TryTake(), std::nullopt);
}

TEST(MailboxTest, JobThatComesWhileTheLastOneEndsStaysUrgent) {
  Mailbox mailbox;
  mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"train","job":"k"})");
  mailbox.EndJob();
  EXPECT_EQ(mailbox.TryTakeUrgent()->message["job"], "k");
}

// It will be answered with an error, and an error changes nothing.
TEST(MailboxTest, StopWithoutAModeThatIsKnownStopsNothing) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"now"})");
  const std::stop_token stop = mailbox.BeginJob("j");
  mailbox.PutLine(R"({"type":"stop","job":"j"})");
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":7})");
  EXPECT_FALSE(stop.stop_requested());
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"checkpoint"})");
  EXPECT_TRUE(stop.stop_requested());
}

TEST(MailboxTest, StopThatWaitedBeforeItsJobBeganCounts) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  EXPECT_TRUE(mailbox.BeginJob("j").stop_requested());
}

TEST(MailboxTest, JobThatEndedCannotStopTheNext) {
  Mailbox mailbox;
  mailbox.BeginJob("j");
  mailbox.EndJob();
  mailbox.PutLine(R"({"type":"stop","job":"j","mode":"discard"})");
  mailbox.TryTake();
  EXPECT_FALSE(mailbox.BeginJob("k").stop_requested());
}

TEST(MailboxTest, EndWakesWaitersAndStopsTheJob) {
  Mailbox mailbox;
  const std::stop_token stop = mailbox.BeginJob("j");
  std::thread ender([&] { mailbox.End(); });
  EXPECT_EQ(mailbox.WaitTake(), std::nullopt);
  ender.join();
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_TRUE(mailbox.BeginJob("late").stop_requested());
}

TEST(MailboxTest, FloodIsRefusedAndNotStored) {
  Mailbox mailbox;
  const std::string line =
      R"({"type":"render","id":"x","pad":")" + std::string(1 << 20, 'p') + "\"}";
  for (int i = 0; i < 70; ++i) mailbox.PutLine(line);
  int n_messages = 0, n_errors = 0;
  while (const auto mail = mailbox.TryTake()) ++(mail->error.empty() ? n_messages : n_errors);
  EXPECT_EQ(n_messages, 63);  // of a little more than 1 MiB each, in 64 MiB
  EXPECT_EQ(n_errors, 7);
}

TEST(MailboxTest, DeepNestingIsRefusedBracketsInStringsAreNot) {
  Mailbox mailbox;
  mailbox.PutLine(R"({"type":"check","id":")" + std::string(100, '[') + "\\\"" + "{\"}");
  EXPECT_TRUE(mailbox.TryTake()->error.empty());
  mailbox.PutLine(R"({"type":"check","id":)" + std::string(100, '[') + std::string(100, ']') + "}");
  EXPECT_FALSE(mailbox.TryTake()->error.empty());
}

}  // namespace
}  // namespace nerf
