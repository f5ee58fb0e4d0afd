#include "server/web/rpc_handler.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <utility>

#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "server/web/envelope.h"
#include "server/web/json_codec.h"

namespace nerf {
namespace {

// The form in which gRPC carries an error: code, message and details.
google::rpc::Status ToWireStatus(const grpc::Status& status) {
  google::rpc::Status wire;
  if (!wire.ParseFromString(status.error_details())) wire.Clear();
  wire.set_code(static_cast<int>(status.error_code()));
  wire.set_message(ToUtf8(status.error_message()));
  return wire;
}

class RpcHandler final : public HttpHandler {
 public:
  RpcHandler(const google::protobuf::MethodDescriptor& method, const RpcFormat& format,
             size_t max_message_bytes, HttpExchange* exchange, Upstream* upstream)
      : method_(method),
        format_(format),
        // Base64 is a third longer than what it encodes.
        max_body_bytes_(format.is_text ? (max_message_bytes + kEnvelopeHeaderBytes + 2) / 3 * 4
                                       : max_message_bytes + kEnvelopeHeaderBytes),
        exchange_(*exchange),
        upstream_(*upstream) {}

  void Start() override {
    if (absl::Status status = Check(); !status.ok()) return Fail(status);
    if (exchange_.content_length().value_or(0) > max_body_bytes_) return Fail(TooLong());
    ReadOn();
  }

 private:
  bool is_stream() const { return method_.server_streaming(); }

  absl::Status Check() {
    NERF_RETURN_IF_ERROR(exchange_.Admit());
    NERF_RETURN_IF_ERROR(CheckRpcHeaders(format_, exchange_.head()));
    if (method_.client_streaming()) {
      return absl::UnimplementedError(
          "browsers cannot stream requests; upload blobs with HTTP PATCH (docs/use/web.md)");
    }
    NERF_ASSIGN_OR_RETURN(timeout_, ReadRpcTimeout(format_, exchange_.head()));
    // An in-process call could return before gRPC checks the deadline.
    if (timeout_ <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the deadline had passed when the call arrived");
    }
    return absl::OkStatus();
  }

  absl::Status TooLong() const {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "the request's body is larger than {} bytes", max_body_bytes_)),
                      reason::kSizeLimit);
  }

  void ReadOn() {
    exchange_.ReadBody([this](std::string_view bytes, bool last) {
      if (body_.size() + bytes.size() > max_body_bytes_) return Fail(TooLong());
      if (!exchange_.Reserve(bytes.size())) {
        return Fail(absl::UnavailableError(
            "the requests being received together exceed the gateway's memory limit"));
      }
      body_ += bytes;
      if (!last) return ReadOn();
      if (absl::Status status = Forward(); !status.ok()) Fail(status);
    });
  }

  absl::Status Forward() {
    NERF_ASSIGN_OR_RETURN(std::string message, UnwrapRequest(format_, std::exchange(body_, {})));
    if (format_.is_json) {
      NERF_ASSIGN_OR_RETURN(message, JsonToBinary(*method_.input_type(), message));
    }
    UpstreamHandlers handlers;
    handlers.on_message = [this](std::string bytes) { Deliver(std::move(bytes)); };
    handlers.on_done = [this](const grpc::Status& status) { Finish(ToWireStatus(status)); };
    call_.emplace(
        &upstream_,
        UpstreamRequest{exchange_.head().path, ForwardedMetadata(exchange_.head()), timeout_},
        std::move(handlers));
    call_->Send(std::move(message), /*is_last=*/true);
    call_->Read();
    return absl::OkStatus();
  }

  void Deliver(std::string bytes) {
    if (format_.is_json) {
      absl::StatusOr<std::string> json = BinaryToJson(*method_.output_type(), bytes);
      if (!json.ok()) return Fail(json.status());
      bytes = *std::move(json);
    }
    if (!is_stream()) {
      reply_ = std::move(bytes);
      return call_->Read();
    }
    BeginOnce();
    exchange_.Write(WrapMessage(format_, bytes), [this] { call_->Read(); });
  }

  void BeginOnce() {
    if (std::exchange(has_begun_, true)) return;
    exchange_.BeginStream({.headers = Headers()}, std::nullopt);
  }

  HttpHeaders Headers() const {
    return {{"Content-Type", format_.content_type}, {"Cache-Control", "no-store"}};
  }

  void Fail(const absl::Status& status) { Finish(ToRpcStatus(status)); }

  void Finish(const google::rpc::Status& status) {
    call_.reset();
    if (has_begun_) {
      return exchange_.Write(WrapEnd(format_, status), [this] { exchange_.EndStream(); });
    }
    if (format_.protocol == WebProtocol::kConnectUnary) {
      if (status.code() == 0) return exchange_.Respond({200, Headers(), std::move(reply_)});
      return exchange_.Respond(
          {HttpStatusOf(status.code()),
           {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
           ConnectErrorJson(status)});
    }
    std::string body;
    if (status.code() == 0 && !is_stream()) body = WrapMessage(format_, reply_);
    exchange_.Respond({200, Headers(), body + WrapEnd(format_, status)});
  }

  const google::protobuf::MethodDescriptor& method_;
  const RpcFormat format_;
  const size_t max_body_bytes_;
  HttpExchange& exchange_;
  Upstream& upstream_;
  absl::Duration timeout_ = absl::InfiniteDuration();
  std::string body_;   // of the request
  std::string reply_;  // of a unary call
  bool has_begun_ = false;
  std::optional<UpstreamCall> call_;
};

}  // namespace

std::unique_ptr<HttpHandler> MakeRpcHandler(const google::protobuf::MethodDescriptor& method,
                                            const RpcFormat& format, size_t max_message_bytes,
                                            HttpExchange* exchange, Upstream* upstream) {
  return std::make_unique<RpcHandler>(method, format, max_message_bytes, exchange, upstream);
}

}  // namespace nerf
