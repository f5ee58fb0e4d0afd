#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_io.h"
#include "common/process/server_address.h"
#include "common/trace_context.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxTokenBytes = 4096;

// Only UNAVAILABLE is safe to retry: the server did not run the call, or said so. Three methods are
// not retried here. Workers reopen Synchronize themselves. A render or check may be what crashed
// the engine, so the callers of RenderImage and ValidateScene limit their tries.
constexpr char kServiceConfig[] = R"({
  "methodConfig": [{
    "name": [{"service": "nerf.v1.WorkerService", "method": "Synchronize"},
             {"service": "nerf.v1.RenderService", "method": "RenderImage"},
             {"service": "nerf.v1.SceneService", "method": "ValidateScene"}]
  }, {
    "name": [{}],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "5s",
      "backoffMultiplier": 3,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
})";

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kKeepaliveInterval)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  // gRPC's time limit for one attempt to connect, TLS and HTTP/2's first frames included. Shorter
  // ones fail on loaded machines.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.max_reconnect_backoff)));
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetServiceConfigJSON(kServiceConfig);
  // Ignore proxies of the environment: the server was named by its address.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (IsAddressList(options.address)) {
    // The next replica is tried soon when one does not answer. 12 s: servers forbid pings that
    // follow each other within 10.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 12'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 4'000);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 4'000);
  }
  return grpc::CreateCustomChannel(
      GrpcTarget(options.address),
      options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

void PrepareCall(absl::Duration timeout, const std::string& token, grpc::ClientContext* context) {
  if (timeout != absl::InfiniteDuration()) {
    context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  }
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
  // The trace of the program that started this one, as OpenTelemetry passes it to command line
  // tools.
  const char* const parent = std::getenv("TRACEPARENT");
  if (parent != nullptr && ParseTraceparent(parent).has_value()) {
    context->AddMetadata("traceparent", parent);
  }
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  absl::StatusOr<std::string> content = ReadFile(path, kMaxTokenBytes);
  if (!content.ok()) {
    if (content.status().code() == absl::StatusCode::kResourceExhausted) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": longer than any token"));
    }
    return content.status();
  }
  return CheckToken(path, *content);
}

absl::StatusOr<std::string> CheckToken(std::string_view where, std::string_view text) {
  const std::string begin = absl::StrCat(std::string(where), ": ");
  const std::string token(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
  if (token.empty()) return absl::InvalidArgumentError(begin + "holds no token");
  if (token.size() > kMaxTokenBytes)
    return absl::InvalidArgumentError(begin + "longer than any token");
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(begin + "the token is not printable ASCII");
    }
  }
  return token;
}

}  // namespace nerf
