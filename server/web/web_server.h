#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/rpc/tls.h"
#include "server/web/origin.h"
#include "server/web/web_limits.h"

namespace grpc {
class Channel;
}

namespace nerf {

struct WebServerOptions {
  std::string host;  // a numeric address without brackets
  int port = 0;      // 0 takes a free one
  // Origins of other sites whose pages may call (CORS). Their hosts are also accepted in Host.
  std::vector<Origin> allowed_origins;
  TlsFiles tls;  // with files, HTTPS; without, HTTP
  WebLimits limits;
  // The command that opens the page with a token on this machine; empty: it is not told.
  std::string open_command = {};
  // See HttpServerOptions. Requests whose token it refuses reach no service.
  std::function<absl::Status(std::string_view authorization)> check_token = {};
};

// The gateway: an HTTP/1.1 server, plain or by TLS, for browsers that serves the page and forwards
// calls over a channel. It knows only the services' descriptors; it checks tokens before it reads a
// body, the services check authorization and count metrics. Runs on one thread of its own.
// Thread-safe.
class WebServer {
 public:
  // The clock and the server behind the channel outlive it. FailedPrecondition if it cannot listen
  // on the address, InvalidArgument if the files of TLS cannot be used.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(const WebServerOptions& options,
                                                          std::shared_ptr<grpc::Channel> channel,
                                                          const Clock* clock);
  // Closes all connections at once unless Shutdown was called.
  ~WebServer();

  // Accepts no more connections, lets running requests finish for up to `grace`, then closes the
  // other connections and cancels their calls. Call at most once.
  void Shutdown(absl::Duration grace);

  int port() const;

 private:
  class Impl;
  explicit WebServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nerf
