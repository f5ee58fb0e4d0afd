#include "engine/base/protocol/line_splitter.h"

#include <gtest/gtest.h>

#include <vector>

namespace nerf {
namespace {

using Lines = std::vector<std::string>;

// Adds `pieces` one after another. A line that is too long is recorded as "(too long)".
Lines Split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  Lines lines;
  for (const std::string& piece : pieces) {
    splitter.Add(
        piece, [&](std::string line) { lines.push_back(std::move(line)); },
        [&] { lines.push_back("(too long)"); });
  }
  return lines;
}

TEST(LineSplitterTest, LinesAreCutWhereverThePiecesEnd) {
  EXPECT_EQ(Split({"ab\ncd\n"}), (Lines{"ab", "cd"}));
  EXPECT_EQ(Split({"a", "b\nc", "", "d\n"}), (Lines{"ab", "cd"}));
  EXPECT_EQ(Split({"ab", "\n", "cd\n"}), (Lines{"ab", "cd"}));
}

TEST(LineSplitterTest, EmptyLinesAndAnUnfinishedLastLineAreDropped) {
  EXPECT_EQ(Split({"\n\nab\n\n", "\ncd"}), (Lines{"ab"}));
}

TEST(LineSplitterTest, LineOfTheLimitIsKept) {
  const std::string line(kMaxLineBytes, 'x');
  EXPECT_EQ(Split({line + "\n"}), (Lines{line}));
  EXPECT_EQ(Split({line, "\n"}), (Lines{line}));
}

TEST(LineSplitterTest, LineAboveTheLimitIsReportedOnceAndTheNextIsRead) {
  const std::string piece(kMaxLineBytes / 2 + 1, 'x');
  EXPECT_EQ(Split({piece, piece, piece, piece + "\nab\n"}), (Lines{"(too long)", "ab"}));
  EXPECT_EQ(Split({std::string(kMaxLineBytes + 1, 'x') + "\nab\n"}), (Lines{"(too long)", "ab"}));
  EXPECT_EQ(Split({piece, piece + "\n", piece + piece, "\nab\n"}),
            (Lines{"(too long)", "(too long)", "ab"}));
}

}  // namespace
}  // namespace nerf
