#pragma once

#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace nerf {

// Largest message that clients, workers and server send or take.
inline constexpr int kMaxMessageBytes = 4 << 20;
// Time between pings of a client on a connection; servers must allow it.
inline constexpr absl::Duration kKeepaliveInterval = absl::Seconds(30);

struct ChannelOptions {
  std::string address;  // host:port, unix:PATH or a list of replicas (CheckServerAddress)
  // Upper bound of the pause between connection attempts.
  absl::Duration max_reconnect_backoff = absl::Seconds(5);
  // Of ClientTls; plaintext without.
  std::shared_ptr<grpc::ChannelCredentials> credentials = {};
};

// A channel to a nerfd: keepalive pings, retries of calls that failed with UNAVAILABLE
// (streams: before their first message; never Synchronize, RenderImage and ValidateScene), limits
// on message sizes. Connects lazily.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

// Sets what every call carries: a deadline from now and, unless empty, the token as
// `authorization: Bearer TOKEN`. An infinite timeout sets no deadline.
void PrepareCall(absl::Duration timeout, const std::string& token, grpc::ClientContext* context);

// The token in a file: its content without surrounding white space. Errors: NotFound and others of
// the system; InvalidArgument when it is empty, longer than 4096 bytes or not printable ASCII.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);
// The same for a token from elsewhere; `where` begins the errors.
absl::StatusOr<std::string> CheckToken(std::string_view where, std::string_view token);

}  // namespace nerf
