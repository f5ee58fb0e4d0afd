#include "engine/base/protocol/pose_lines.h"

#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "engine/base/protocol/failed_line.h"
#include "tests/testing/status_matchers.h"

namespace nerf::protocol {
namespace {

TEST(PoseLinesTest, ProgressAndToolsComeBack) {
  const Posing posing{6, 7, "placing \"cameras\"", 12, 50, "photographs", 3.25, 60.5, 1e6};
  EXPECT_EQ(std::get<Posing>(ParsePoseLine(ToLine(posing))), posing);
  const Posing without_end{1, 7, "reading", 12, 0, "", 0};
  EXPECT_EQ(std::get<Posing>(ParsePoseLine(ToLine(without_end))), without_end);
  Posing placed{6, 7, "placing cameras", 12, 50, "", 3, 0, 0};
  placed.points = std::string("\0\xff", 2);
  placed.cameras = "abc";
  EXPECT_EQ(std::get<Posing>(ParsePoseLine(ToLine(placed))), placed);
  const auto wrong = ParsePoseLine(
      R"({"event":"posing","stage":6,"stages":7,"doing":"x","seconds":1,"points":"abc"})");
  EXPECT_EQ(std::get<Posing>(wrong).points, "") << "no hex digits in pairs";
  const PoseTools tools{"3.8", ""};
  EXPECT_EQ(std::get<PoseTools>(ParsePoseLine(ToLine(tools))), tools);
}

TEST(PoseLinesTest, FailureHasItsCode) {
  const PoseLine line = ParsePoseLine(
      R"({"event":"failed","code":"RESOURCE_EXHAUSTED","reason":"OUT_OF_MEMORY","message":"m"})");
  const absl::Status& error = std::get<absl::Status>(line);
  EXPECT_THAT(error, FailsWith(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY"));
  EXPECT_EQ(error.message(), "m");
}

TEST(PoseLinesTest, EveryFailureComesBack) {
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    const absl::Status status = WithReason(absl::Status(code, "what \"happened\"\n"), "WHY");
    EXPECT_EQ(std::get<absl::Status>(ParsePoseLine(FailedLine(status))), status);
    // Without a reason it has that of its code.
    const absl::Status plain(code, "m");
    EXPECT_THAT(std::get<absl::Status>(ParsePoseLine(FailedLine(plain))),
                FailsWith(code, ReasonOf(plain)));
  }
  EXPECT_EQ(ReasonOf(absl::AbortedError("m")), reason::kTrainingDiverged);
  EXPECT_EQ(ReasonOf(absl::InternalError("m")), "INTERNAL");
  const std::string line = FailedLine(absl::InternalError("a\nb \xff"));
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "it is one line";
  EXPECT_THAT(std::get<absl::Status>(ParsePoseLine(line)),
              StatusIs(absl::StatusCode::kInternal, "a\nb "));
}

TEST(PoseLinesTest, FailureOfACodeThatIsNotKnownIsUnknown) {
  for (const char* code : {"OUCH", "OK", "not_found"}) {
    const PoseLine line =
        ParsePoseLine(std::string(R"({"event":"failed","message":"m","code":")") + code + "\"}");
    EXPECT_THAT(std::get<absl::Status>(line), StatusIs(absl::StatusCode::kUnknown, "m")) << code;
  }
}

TEST(PoseLinesTest, OtherAndWrongLinesSayNothing) {
  for (const char* line :
       {"", "a log", "{", "[]", "{}", R"({"event":"posing"})", R"({"event":7})",
        R"({"event":"posing","stage":-1,"stages":7,"doing":"x"})",
        R"({"event":"posing","stage":1e99,"stages":7,"doing":"x"})",
        R"({"event":"posing","stage":1,"stages":7,"doing":"x","done":"many"})",
        R"({"event":"done","photographs":50)", R"({"event":"done","photographs":50})",
        R"({"event":"progress","step":1})", R"({"event":"failed","message":"m"})",
        R"({"event":"failed","code":""})", R"({"event":"failed","code":7,"message":"m"})"}) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(ParsePoseLine(line))) << line;
  }
}

TEST(PoseLinesTest, ReportIsReadAndAWrongOneRefused) {
  const auto report = ParsePoseReport(
      R"({"event":"done","photographs":2,"usable":2,"posed":1,"points":9,"warnings":["w"],
          "again":["a"],"photos":[{"name":"a.jpg","file":"images/a.jpg","posed":true},
          {"name":"b.jpg","posed":false,"reason":"blur","words":"is blurred"}]})");
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->posed, 1u);
  ASSERT_EQ(report->photos.size(), 2u);
  EXPECT_EQ(report->photos[0].file, "images/a.jpg");
  EXPECT_EQ(report->photos[1].words, "is blurred");
  for (const char* wrong : {"", "null", "[]", "{}", R"({"photographs":-1,"usable":0,"posed":0})",
                            R"({"photographs":1,"usable":1,"posed":1,"photos":[{}]})",
                            R"({"photographs":1,"usable":1,"posed":1,"photos":[7]})",
                            R"({"photographs":1,"usable":1,"posed":1,"photos":{"name":"a"}})"}) {
    EXPECT_FALSE(ParsePoseReport(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace nerf::protocol
