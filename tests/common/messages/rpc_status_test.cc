#include "common/messages/rpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(RpcStatusTest, ErrorsComeBackWithTheirDetails) {
  const absl::Status invalid = InvalidFieldsError({{"a.b", "is empty"}, {"c", "is missing"}});
  const absl::Status missing = BlobsMissingError({"blobs/aa/1"});
  const absl::Status with_reason =
      WithReason(absl::AbortedError("m"), reason::kLeaseFenced, {{"current_epoch", "7"}});
  for (const absl::Status& status : {invalid, missing, with_reason, absl::InternalError("m")}) {
    EXPECT_EQ(FromRpcStatus(ToRpcStatus(status)), status);
    EXPECT_EQ(ErrorFromRpcStatus(ToRpcStatus(status)), status);
  }
  EXPECT_THAT(FromRpcStatus(ToRpcStatus(absl::OkStatus())), IsOk());
}

TEST(RpcStatusTest, ErrorOfCodeOkIsStillAnError) {
  google::rpc::Status ok;
  EXPECT_THAT(FromRpcStatus(ok), IsOk());
  EXPECT_THAT(ErrorFromRpcStatus(ok), StatusIs(absl::StatusCode::kUnknown));
  ok.set_message("m");
  EXPECT_THAT(ErrorFromRpcStatus(ok), StatusIs(absl::StatusCode::kUnknown, "m"));
}

TEST(RpcStatusTest, CodesThatAreNotKnownAreUnknown) {
  for (const int code : {-1, 17, 20, INT32_MAX}) {
    google::rpc::Status status;
    status.set_code(code);
    status.set_message("m");
    EXPECT_THAT(FromRpcStatus(status), StatusIs(absl::StatusCode::kUnknown, "m"));
    EXPECT_THAT(ErrorFromRpcStatus(status), StatusIs(absl::StatusCode::kUnknown, "m"));
  }
}

TEST(RpcStatusTest, TextsThatAreNotUtf8CanBeSent) {
  const std::string text = "a\xff\xc3\xa9";
  const google::rpc::Status sent =
      ToRpcStatus(WithReason(InvalidFieldsError({{text, text}}), text, {{text, text}}));
  EXPECT_TRUE(google::rpc::Status().ParseFromString(sent.SerializeAsString()));
  const absl::Status back = FromRpcStatus(sent);
  EXPECT_EQ(GetReason(back)->reason, "a?\xc3\xa9");
  EXPECT_EQ(GetProblems(back).front().message, "a?\xc3\xa9");
}

}  // namespace
}  // namespace nerf
