#include "engine/program/console/view_progress.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

// Returns what is printed for ten views.
std::string PrintedFor(ProgressStyle style, absl::Duration each = absl::Milliseconds(400),
                       absl::Duration expected = absl::InfiniteDuration()) {
  FakeClock clock;
  std::FILE* out = std::tmpfile();
  {
    ViewProgress progress("evaluating", &clock, style, 10, out, expected);
    for (int i = 0; i < 10; ++i) {
      clock.Advance(each);
      progress.Add();
    }
  }
  std::rewind(out);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  return text;
}

TEST(ViewProgressTest, JsonSaysTheStartAndThenOneLineASecond) {
  EXPECT_EQ(PrintedFor(ProgressStyle::kJson),
            "{\"event\":\"evaluating\",\"view\":0,\"views\":10}\n"
            "{\"event\":\"evaluating\",\"view\":3,\"views\":10,\"seconds_left\":2.8}\n"
            "{\"event\":\"evaluating\",\"view\":6,\"views\":10,\"seconds_left\":1.6}\n"
            "{\"event\":\"evaluating\",\"view\":9,\"views\":10,\"seconds_left\":0.4}\n");
}

TEST(ViewProgressTest, TerminalIsRedrawnAndLeftEmpty) {
  EXPECT_EQ(PrintedFor(ProgressStyle::kTerminal),
            "\revaluating: 0 of 10 views\x1b[K\revaluating: 3 of 10 views, about 0:03 left\x1b[K"
            "\revaluating: 6 of 10 views, about 0:02 left\x1b[K\revaluating: 9 of 10 views, about "
            "0:00 left\x1b[K\r\x1b[K");
}

TEST(ViewProgressTest, LongViewIsCountedDown) {
  FakeClock clock;
  std::FILE* out = std::tmpfile();
  {
    ViewProgress progress("rendering", &clock, ProgressStyle::kLog, 2, out, absl::Seconds(16));
    for (int i = 0; i < 20; ++i) {
      clock.Advance(absl::Seconds(1));
      progress.Refresh();
      if (i == 7) progress.Add();
    }
  }
  std::rewind(out);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_EQ(text,
            "rendering: 0 of 2 views, about 0:16 left\nrendering: 0 of 2 views, about 0:11 left\n"
            "rendering: 1 of 2 views, about 0:06 left\nrendering: 1 of 2 views, about 0:01 left\n"
            "rendering: 1 of 2 views, about 0:00 left\n");
}

TEST(ViewProgressTest, LogGetsALineInFiveSeconds) {
  EXPECT_EQ(PrintedFor(ProgressStyle::kLog), "evaluating: 0 of 10 views\n");
  EXPECT_EQ(PrintedFor(ProgressStyle::kLog, absl::Seconds(2)).substr(0, 69),
            "evaluating: 0 of 10 views\nevaluating: 1 of 10 views, about 0:18 left\n")
      << "how long it will take is said after the first view";
}

TEST(ViewProgressTest, ForecastIsSaidBeforeTheFirstView) {
  EXPECT_EQ(PrintedFor(ProgressStyle::kLog, absl::Seconds(1), absl::Seconds(80)),
            "evaluating: 0 of 10 views, about 1:20 left\n"
            "evaluating: 5 of 10 views, about 0:05 left\n"
            "evaluating: 10 of 10 views, about 0:00 left\n");
  EXPECT_EQ(PrintedFor(ProgressStyle::kJson, absl::Seconds(0.01), absl::Seconds(80)),
            "{\"event\":\"evaluating\",\"view\":0,\"views\":10,\"seconds_left\":80.0}\n");
}

}  // namespace
}  // namespace nerf
