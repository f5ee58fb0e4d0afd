#include "engine/base/trace.h"

#include <gtest/gtest.h>

#include <thread>

namespace nerf {
namespace {

// A clock that moves by a quarter of a second at each look.
TraceRecording::Now Ticks() {
  return [now = 8.0]() mutable { return now += 0.25; };
}

TEST(TraceTest, SpansAreEventsInMicrosecondsInTheOrderInWhichTheyEnd) {
  TraceRecording recording(Ticks());
  {
    TraceSpan step("step");
    TraceSpan chunks("chunks");
  }
  EXPECT_EQ(recording.ToJson(),
            "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
            "{\"name\":\"chunks\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":500000.000,"
            "\"dur\":250000.000},\n"
            "{\"name\":\"step\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":250000.000,"
            "\"dur\":750000.000}\n]}\n");
}

TEST(TraceTest, WithoutSpansTheListIsEmpty) {
  const TraceRecording recording(Ticks());
  EXPECT_EQ(recording.ToJson(), "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n]}\n");
}

TEST(TraceTest, SpansWithoutARecordingOrOfAnotherThreadAreNotRecorded) {
  { TraceSpan before("before"); }
  TraceRecording recording(Ticks());
  std::thread([] { TraceSpan elsewhere("elsewhere"); }).join();
  EXPECT_EQ(recording.ToJson().find("name"), std::string::npos);
  EXPECT_EQ(recording.n_dropped(), 0u);
}

TEST(TraceTest, SpansBeyondTheLimitAreCounted) {
  TraceRecording recording(Ticks(), 1);
  for (int i = 0; i < 3; ++i) TraceSpan span("step");
  EXPECT_EQ(recording.n_dropped(), 2u);
}

TEST(TraceTest, ASecondRecordingMayFollowTheFirst) {
  { const TraceRecording first(Ticks()); }
  TraceRecording second(Ticks());
  { TraceSpan span("step"); }
  EXPECT_NE(second.ToJson().find("step"), std::string::npos);
}

}  // namespace
}  // namespace nerf
