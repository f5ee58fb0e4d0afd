#include "common/error_reason.h"

#include "common/packed_strings.h"
#include "common/process/exit_code.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(ErrorReasonTest, ReasonAndMetadataComeBackByteForByte) {
  const std::string odd("a:\n\0\xff 7:", 9);
  const absl::Status status =
      WithReason(absl::NotFoundError("no"), "SOME_REASON", {{"key", odd}, {odd, ""}});
  EXPECT_EQ(status.message(), "no");
  const auto found = GetReason(status);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, "SOME_REASON");
  EXPECT_EQ(found->metadata, (ErrorMetadata{{"key", odd}, {odd, ""}}));
}

TEST(ErrorReasonTest, PlainAndOkStatusesHaveNone) {
  EXPECT_FALSE(GetReason(absl::InternalError("x")).has_value());
  EXPECT_TRUE(WithReason(absl::OkStatus(), "X").ok());
  EXPECT_FALSE(GetReason(WithReason(absl::OkStatus(), "X")).has_value());
}

TEST(ErrorReasonTest, EveryViolationIsCarriedAndTheFirstOnesAreSaid) {
  std::vector<Problem> problems;
  for (int i = 0; i < 20; ++i) problems.push_back({"f" + std::to_string(i), "is bad"});
  const absl::Status status = InvalidFieldsError(problems);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "f0: is bad; f1: is bad"));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "and 12 more"));
  ASSERT_EQ(GetProblems(status).size(), 20u);
  EXPECT_EQ(GetProblems(status)[19].field, "f19");
  EXPECT_EQ(GetReason(status)->reason, reason::kFieldInvalid);
}

TEST(PackedStringsTest, AnyBytesRoundTrip) {
  const std::vector<std::string> strings = {"", "a", std::string("\0:9:", 4),
                                            std::string(1000, 'x')};
  EXPECT_EQ(UnpackStrings(PackStrings(strings)), strings);
  EXPECT_EQ(UnpackStrings(""), std::vector<std::string>());
}

TEST(PackedStringsTest, ForeignBytesAreRefused) {
  for (const char* bad : {"a", "1", "1:", "2:a", ":a", "-1:a", "99999999999999999999:a", "1:ab",
                          "18446744073709551615:a"}) {
    EXPECT_FALSE(UnpackStrings(bad).has_value()) << bad;
  }
}

TEST(ExitCodeTest, EveryStatusCodeHasItsExitCode) {
  using absl::StatusCode;
  EXPECT_EQ(ExitCodeFor(StatusCode::kOk), kOk);
  EXPECT_EQ(ExitCodeFor(StatusCode::kInternal), kBug);
  EXPECT_EQ(ExitCodeFor(StatusCode::kUnauthenticated), kDenied);
  EXPECT_EQ(ExitCodeFor(StatusCode::kNotFound), kNotFound);
  EXPECT_EQ(ExitCodeFor(StatusCode::kUnavailable), kUnreachable);
  EXPECT_EQ(ExitCodeFor(StatusCode::kFailedPrecondition), kWrongState);
  EXPECT_EQ(ExitCodeFor(StatusCode::kResourceExhausted), kExhausted);
  EXPECT_EQ(ExitCodeFor(StatusCode::kInvalidArgument), kBadData);
  EXPECT_EQ(ExitCodeFor(StatusCode::kDataLoss), kBadData);
}

}  // namespace
}  // namespace nerf
