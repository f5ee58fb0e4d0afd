#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "server/web/http_exchange.h"

namespace nerf {

enum class WebProtocol { kConnectUnary, kConnectStream, kGrpcWeb };

// How a call's messages are encoded. Follows from the request's Content-Type; the response has the
// same.
struct RpcFormat {
  WebProtocol protocol = WebProtocol::kConnectUnary;
  bool is_json = false;  // else binary protobuf
  bool is_text = false;  // gRPC-Web in base64
  std::string content_type;
};

// nullopt for any other type.
std::optional<RpcFormat> ParseRpcContentType(std::string_view content_type);

// Connect-Timeout-Ms or grpc-timeout, by the protocol; infinite without one. InvalidArgument for
// another form.
absl::StatusOr<absl::Duration> ReadRpcTimeout(const RpcFormat& format, const HttpRequestHead& head);

// Checks the protocol's other headers. Errors: compression, an unknown version.
absl::Status CheckRpcHeaders(const RpcFormat& format, const HttpRequestHead& head);

// The message in a request's body. Errors: InvalidArgument for wrong framing, Unimplemented for
// compression.
absl::StatusOr<std::string> UnwrapRequest(const RpcFormat& format, std::string body);

// One message as the response's body has it.
std::string WrapMessage(const RpcFormat& format, std::string_view message);

// The body's last part: gRPC-Web's trailers or Connect's end of stream. Not for kConnectUnary.
std::string WrapEnd(const RpcFormat& format, const google::rpc::Status& status);

// Connect's {"code", "message", "details"}.
std::string ConnectErrorJson(const google::rpc::Status& status);
// "not_found" for 5; "unknown" for an unknown number.
std::string_view ConnectCodeName(int code);
// Connect's HTTP status of a gRPC code; 200 for OK.
int HttpStatusOf(int code);

}  // namespace nerf
