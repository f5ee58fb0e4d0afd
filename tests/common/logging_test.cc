#include "common/logging.h"

#include <thread>

#include "common/clock.h"
#include "common/mutex.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(LoggingTest, ValuesCannotForgeLinesOrFields) {
  EXPECT_EQ(LogValue("plain-1.5"), "plain-1.5");
  EXPECT_EQ(LogValue(""), "\"\"");
  EXPECT_EQ(LogValue("a b"), "\"a b\"");
  EXPECT_EQ(LogValue("x\njob=forged"), "\"x\\njob=forged\"");
  EXPECT_EQ(LogValue("say \"hi\"\\"), "\"say \\\"hi\\\"\\\\\"");
  EXPECT_EQ(LogValue("\x1b[2J"), "\"\\x1b[2J\"");
  EXPECT_EQ(LogValue("\xc2\x9b"
                     "2J"),
            "\"\\u009b2J\"")
      << "CSI as one character";
  EXPECT_EQ(LogValue("\xc2\xb5m"), "\"\xc2\xb5m\"");
}

TEST(LoggingTest, LinesGoToStderrFromTheirLevelOn) {
  ASSERT_THAT(InitLogging("prog", "info"), IsOk());
  testing::internal::CaptureStderr();
  Log(LogLevel::kDebug, "hidden");
  LogInfo("job created", {{"job", "j-1"}, {"n", 3}});
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_THAT(written, testing::HasSubstr("Z info prog \"job created\" job=j-1 n=3\n"));
  EXPECT_THAT(written, testing::Not(testing::HasSubstr("hidden")));
}

TEST(LoggingTest, UnknownLevelIsRefused) {
  EXPECT_THAT(InitLogging("prog", "loud"), StatusIs(absl::StatusCode::kInvalidArgument, "loud"));
}

TEST(ClockTest, SteadyTimeDoesNotGoBack) {
  RealClock clock;
  const SteadyTime a = clock.Now();
  const SteadyTime b = clock.Now();
  EXPECT_LE(a, b);
  EXPECT_EQ((a + absl::Seconds(2)) - a, absl::Seconds(2));
}

TEST(CondVarTest, WaitEndsByNotifyAndByTime) {
  Mutex mu;
  CondVar condition;
  bool ready = false;
  std::thread thread([&] {
    MutexLock lock(mu);
    ready = true;
    condition.NotifyAll();
  });
  {
    MutexLock lock(mu);
    while (!ready) condition.Wait(mu);
    EXPECT_FALSE(condition.WaitFor(mu, absl::Milliseconds(1)));
  }
  thread.join();
}

}  // namespace
}  // namespace nerf
