#include "common/logging.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/ids.h"
#include "common/log_options.h"
#include "common/mutex.h"
#include "common/trace_context.h"
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

TEST(LoggingTest, JsonLinesAreObjectsWhateverTheirValues) {
  ASSERT_THAT(InitLogging("prog", "info"), IsOk());
  ASSERT_THAT(SetLogFormat("json"), IsOk());
  testing::internal::CaptureStderr();
  LogInfo("a \"b\"", {{"c", "\n\xff\xc3\xa9"},
                      {"n", 3},
                      {"x", 0.25},
                      {"digits", "3"},
                      {"nan", std::nan("")},
                      {"is_it", true}});
  const std::string written = testing::internal::GetCapturedStderr();
  ASSERT_THAT(SetLogFormat("text"), IsOk());
  EXPECT_THAT(written, testing::StartsWith("{\"time\":\""));
  EXPECT_THAT(written, testing::EndsWith(
                           "\"level\":\"info\",\"program\":\"prog\",\"message\":\"a "
                           "\\\"b\\\"\",\"c\":\"\\u000a\xef\xbf\xbd\xc3\xa9\",\"n\":3,\"x\":0.25,"
                           "\"digits\":\"3\",\"nan\":\"nan\",\"is_it\":true}\n"));
  EXPECT_THAT(SetLogFormat("xml"), StatusIs(absl::StatusCode::kInvalidArgument, "xml"));
}

TEST(LoggingTest, RepeatedErrorsAreLeftOut) {
  ASSERT_THAT(InitLogging("prog", "info"), IsOk());
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) LogError("the same again");
  const std::string written = testing::internal::GetCapturedStderr();
  const auto n_lines = std::count(written.begin(), written.end(), '\n');
  EXPECT_GE(n_lines, 20);
  EXPECT_LT(n_lines, 1000);
}

TEST(LoggingTest, LinesOfAJobNameTheCallThatMadeIt) {
  ASSERT_THAT(InitLogging("prog", "info"), IsOk());
  NoteJobOrigin("lab", "j-1", "r-1", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  testing::internal::CaptureStderr();
  LogInfo("job done", {{"project", "lab"}, {"job", "j-1"}});
  LogInfo("job done", {{"project", "other"}, {"job", "j-1"}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("project=lab job=j-1 request_id=r-1 "
                                                "trace_id=4bf92f3577b34da6a3ce929d0e0e4736\n"),
                             testing::HasSubstr("project=other job=j-1\n")));
}

TEST(TraceContextTest, OnlyTraceparentsAreRead) {
  constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto context = ParseTraceparent(kParent);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->ToString(), kParent);
  EXPECT_TRUE(ParseTraceparent("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"));
  for (const char* bad : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                          "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                          "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                          "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"}) {
    EXPECT_FALSE(ParseTraceparent(bad).has_value()) << bad;
  }
}

TEST(TraceContextTest, SpanIsNewAndTheTraceItsParents) {
  SystemRandom random;
  const auto parent = ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const TraceContext child = NewSpan(parent, random);
  EXPECT_EQ(child.trace_id, parent->trace_id);
  EXPECT_NE(child.span_id, parent->span_id);
  EXPECT_EQ(child.flags, "01");
  const TraceContext root = NewSpan(std::nullopt, random);
  EXPECT_TRUE(ParseTraceparent(root.ToString()).has_value());
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
