#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/web/origin.h"
#include "server/web/web_limits.h"

namespace grpc {
class Channel;
}

namespace nerf {

struct WebServerOptions {
  std::string host;  // a numeric address without brackets
  int port = 0;      // 0 takes a free one
  // Pages from elsewhere that may call (CORS); their hosts are names of this server, too.
  std::vector<Origin> allowed_origins;
  WebLimits limits;
};

// The gateway: an HTTP/1.1 server for browsers that serves the page and forwards calls over a
// channel. It knows nothing of the services but their descriptors, so authorization and metrics are
// theirs. One thread of its own runs everything. Thread-safe.
class WebServer {
 public:
  // The clock outlives it, and so does what the channel leads to. FailedPrecondition when it cannot
  // listen there.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(const WebServerOptions& options,
                                                          std::shared_ptr<grpc::Channel> channel,
                                                          const Clock* clock);
  // Cuts all connections at once where Shutdown was not called.
  ~WebServer();

  // Takes no more connections, lets answers end for up to `grace`, cuts the rest and cancels their
  // calls. May be called once.
  void Shutdown(absl::Duration grace);

  int port() const;

 private:
  class Impl;
  explicit WebServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nerf
