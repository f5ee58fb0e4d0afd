#include "server/web/rpc_format.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "server/web/envelope.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::HasSubstr;

google::rpc::Status NotFound() {
  return ToRpcStatus(
      WithReason(absl::NotFoundError("no \"such\" job\n"), reason::kResourceNotFound));
}

absl::StatusOr<absl::Duration> Timeout(const char* type, const char* name, const char* value) {
  HttpRequestHead head;
  head.headers.emplace_back(name, value);
  return ReadRpcTimeout(*ParseRpcContentType(type), head);
}

TEST(RpcFormatTest, ContentTypesNameProtocolAndCodec) {
  const auto connect = ParseRpcContentType("application/json");
  ASSERT_TRUE(connect.has_value());
  EXPECT_EQ(connect->protocol, WebProtocol::kConnectUnary);
  EXPECT_TRUE(connect->is_json);
  const auto stream = ParseRpcContentType("application/connect+proto");
  ASSERT_TRUE(stream.has_value());
  EXPECT_EQ(stream->protocol, WebProtocol::kConnectStream);
  EXPECT_FALSE(stream->is_json);
  const auto text = ParseRpcContentType("application/grpc-web-text+proto");
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->protocol, WebProtocol::kGrpcWeb);
  EXPECT_TRUE(text->is_text);
  EXPECT_TRUE(ParseRpcContentType("Application/JSON; charset=UTF-8").has_value());
}

TEST(RpcFormatTest, OtherContentTypesAreNone) {
  for (const char* type : {"", "text/plain", "application/json; charset=utf-16", "application/grpc",
                           "application/grpc+proto", "application/proto; charset=utf-8",
                           "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                           "application/json, text/plain", "application/connect"}) {
    EXPECT_FALSE(ParseRpcContentType(type).has_value()) << type;
  }
}

TEST(RpcFormatTest, TimeoutsOfBothProtocols) {
  EXPECT_THAT(Timeout("application/json", "connect-timeout-ms", "1500"),
              IsOkAndHolds(absl::Milliseconds(1500)));
  EXPECT_THAT(Timeout("application/grpc-web", "grpc-timeout", "20m"),
              IsOkAndHolds(absl::Milliseconds(20)));
  EXPECT_THAT(Timeout("application/grpc-web", "grpc-timeout", "99999999H"),
              IsOkAndHolds(absl::Hours(99999999)));
  EXPECT_THAT(Timeout("application/grpc-web", "connect-timeout-ms", "x"),
              IsOkAndHolds(absl::InfiniteDuration()))
      << "the other protocol's header means nothing";
}

TEST(RpcFormatTest, TimeoutsInOtherFormsAreRefused) {
  for (const char* value : {"", "-1", "1.5", "1s", " 1", "12345678901", "0x1"}) {
    EXPECT_THAT(Timeout("application/json", "connect-timeout-ms", value),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << value;
  }
  for (const char* value : {"", "S", "1", "1s", "-1S", "123456789S", "1SS"}) {
    EXPECT_THAT(Timeout("application/grpc-web", "grpc-timeout", value),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << value;
  }
}

TEST(RpcFormatTest, CompressionAndUnknownVersionsAreRefused) {
  const RpcFormat connect = *ParseRpcContentType("application/json");
  HttpRequestHead head;
  EXPECT_THAT(CheckRpcHeaders(connect, head), IsOk());
  head.headers = {{"content-encoding", "gzip"}};
  EXPECT_THAT(CheckRpcHeaders(connect, head), StatusIs(absl::StatusCode::kUnimplemented));
  head.headers = {{"connect-protocol-version", "2"}};
  EXPECT_THAT(CheckRpcHeaders(connect, head), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RpcFormatTest, ConnectErrorsCarryCodeMessageAndDetails) {
  const std::string json = ConnectErrorJson(NotFound());
  EXPECT_THAT(json, HasSubstr(R"({"code":"not_found","message":"no \"such\" job\u000a")"));
  EXPECT_THAT(json, HasSubstr(R"("details":[{"type":"google.rpc.ErrorInfo","value":")"));
  EXPECT_THAT(json, testing::Not(HasSubstr("=")));
}

TEST(RpcFormatTest, EndsOfStreams) {
  const google::rpc::Status ok;
  EXPECT_EQ(WrapEnd(*ParseRpcContentType("application/connect+json"), ok), Envelope(2, "{}"));
  EXPECT_EQ(WrapEnd(*ParseRpcContentType("application/grpc-web"), ok),
            Envelope(0x80, "grpc-status:0\r\n"));
  const std::string trailers =
      WrapEnd(*ParseRpcContentType("application/grpc-web"), NotFound()).substr(5);
  EXPECT_THAT(trailers, testing::StartsWith("grpc-status:5\r\ngrpc-message:no \"such\" job%0A\r\n"
                                            "grpc-status-details-bin:"));
  std::string text;
  ASSERT_TRUE(
      absl::Base64Unescape(WrapEnd(*ParseRpcContentType("application/grpc-web-text"), ok), &text));
  EXPECT_EQ(text, Envelope(0x80, "grpc-status:0\r\n"));
}

TEST(RpcFormatTest, EveryCodeHasANameAndAStatus) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_GE(HttpStatusOf(code), 400) << code;
    EXPECT_NE(ConnectCodeName(code), "ok");
  }
  EXPECT_EQ(HttpStatusOf(0), 200);
  EXPECT_EQ(ConnectCodeName(99), "unknown");
  EXPECT_EQ(ConnectCodeName(-1), "unknown");
}

}  // namespace
}  // namespace nerf
