#include "engine/tool/view_progress.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

// Returns what is printed for ten views of 400 ms each.
std::string PrintedFor(ProgressStyle style) {
  FakeClock clock;
  std::FILE* out = std::tmpfile();
  {
    ViewProgress progress("evaluating", &clock, style, 10, out);
    for (int i = 0; i < 10; ++i) {
      clock.Advance(absl::Milliseconds(400));
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
            "{\"event\":\"evaluating\",\"view\":3,\"views\":10}\n"
            "{\"event\":\"evaluating\",\"view\":6,\"views\":10}\n"
            "{\"event\":\"evaluating\",\"view\":9,\"views\":10}\n");
}

TEST(ViewProgressTest, TerminalIsRedrawnAndLeftEmpty) {
  EXPECT_EQ(PrintedFor(ProgressStyle::kTerminal),
            "\revaluating: 0 of 10 views\x1b[K\revaluating: 3 of 10 views\x1b[K"
            "\revaluating: 6 of 10 views\x1b[K\revaluating: 9 of 10 views\x1b[K\r\x1b[K");
}

TEST(ViewProgressTest, LogGetsALineInFiveSeconds) {
  EXPECT_EQ(PrintedFor(ProgressStyle::kLog), "evaluating: 0 of 10 views\n");
}

}  // namespace
}  // namespace nerf
