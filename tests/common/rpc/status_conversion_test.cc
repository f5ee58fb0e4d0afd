#include "common/rpc/status_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(StatusConversionTest, CodeMessageReasonAndMetadataSurviveTheTrip) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status =
        WithReason(absl::Status(static_cast<absl::StatusCode>(code), "what \"happened\""),
                   reason::kLeaseFenced, {{"current_epoch", "7"}});
    const absl::Status back = FromGrpcStatus(ToGrpcStatus(status));
    EXPECT_THAT(back, FailsWith(static_cast<absl::StatusCode>(code), reason::kLeaseFenced));
    EXPECT_EQ(back.message(), "what \"happened\"");
    EXPECT_THAT(GetReason(back)->metadata, ElementsAre(Pair("current_epoch", "7")));
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(StatusConversionTest, ErrorInfoIsOfOurDomain) {
  const grpc::Status status =
      ToGrpcStatus(WithReason(absl::NotFoundError("x"), reason::kResourceNotFound));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), 5);
  google::rpc::ErrorInfo error_info;
  ASSERT_TRUE(details.details(0).UnpackTo(&error_info));
  EXPECT_EQ(error_info.domain(), "nerfd");
  EXPECT_EQ(error_info.reason(), "RESOURCE_NOT_FOUND");
}

TEST(StatusConversionTest, FieldViolationsSurviveTheTrip) {
  const absl::Status back = FromGrpcStatus(
      ToGrpcStatus(InvalidFieldsError({{"files[3].path", "is empty"}, {"scene", "is missing"}})));
  EXPECT_THAT(back, FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid));
  const auto problems = GetProblems(back);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].field, "files[3].path");
  EXPECT_EQ(problems[1].message, "is missing");
}

TEST(StatusConversionTest, MissingBlobsSurviveTheTrip) {
  const absl::Status back =
      FromGrpcStatus(ToGrpcStatus(BlobsMissingError({"blobs/aa/1", "blobs/bb/2"})));
  EXPECT_THAT(back, FailsWith(absl::StatusCode::kFailedPrecondition, reason::kBlobsMissing));
  EXPECT_THAT(GetMissingBlobs(back), ElementsAre("blobs/aa/1", "blobs/bb/2"));
}

TEST(StatusConversionTest, LongListsAreCutBelowTheTrailerLimitAndSaySo) {
  std::vector<Problem> problems;
  for (int i = 0; i < 1000; ++i) problems.push_back({"files[0].path", std::string(300, 'x')});
  const grpc::Status status = ToGrpcStatus(InvalidFieldsError(problems));
  EXPECT_LE(3 * status.error_message().size() + status.error_details().size() * 4 / 3, 8000u);
  const auto kept = GetProblems(FromGrpcStatus(status));
  ASSERT_GE(kept.size(), 2u);
  EXPECT_THAT(kept.back().message, HasSubstr("more"));
}

TEST(StatusConversionTest, MessagesAreCutBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 2000; ++i) message += "\xC3\xA9";
  const grpc::Status status = ToGrpcStatus(absl::InternalError(message));
  EXPECT_LE(status.error_message().size(), 1024u);
  EXPECT_EQ(ToUtf8(status.error_message()), status.error_message());
}

TEST(StatusConversionTest, ForeignAndBrokenDetailsAreIgnored) {
  EXPECT_THAT(FromGrpcStatus(grpc::Status(grpc::StatusCode::ABORTED, "m", "\xff\xff garbage")),
              StatusIs(absl::StatusCode::kAborted, "m"));
  google::rpc::Status details;
  google::rpc::ErrorInfo error_info;
  error_info.set_domain("elsewhere");
  error_info.set_reason("OTHER");
  details.add_details()->PackFrom(error_info);
  const absl::Status back =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::ABORTED, "m", details.SerializeAsString()));
  EXPECT_FALSE(GetReason(back).has_value());
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::DO_NOT_USE, "m")).code(),
            absl::StatusCode::kUnknown);
}

TEST(StatusConversionTest, BytesThatAreNotUtf8BecomeQuestionMarks) {
  EXPECT_EQ(ToUtf8("a\xff"
                   "b\xC3\xA9\xE2\x82"),
            "a?b\xC3\xA9??");
  EXPECT_EQ(ToUtf8("\xED\xA0\x80\xC0\x80"), "?????");
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(absl::InternalError("x\xff"))).message(), "x?");
}

}  // namespace
}  // namespace nerf
