#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/rpc/tls.h"
#include "server/web/http_exchange.h"
#include "server/web/web_limits.h"

namespace nerf {

struct HttpServerOptions {
  std::string host;   // a numeric address without brackets
  int port = 0;       // 0 takes a free one
  TlsFiles tls = {};  // with files, HTTPS; without, HTTP
  WebLimits limits = {};
  // Whether the value of an Authorization header is one of a valid token, for
  // HttpExchange::Admit; runs on the server's thread. Unset: every request may be served.
  std::function<absl::Status(std::string_view authorization)> check_token = {};
  // Whether a stopped server still has to run what Post gets; runs on its thread. May be unset.
  std::function<bool()> has_work = {};
};

// Serves HTTP/1.1, plain or by TLS, on one thread of its own. Thread-safe.
class HttpServer {
 public:
  // The router and the clock outlive it.
  HttpServer(const HttpServerOptions& options, const HttpRouter* router, const Clock* clock);
  // Closes all connections at once unless Shutdown was called.
  ~HttpServer();

  // Serves from now on. Call once. FailedPrecondition, with the reason alone, if it cannot listen
  // on the address; InvalidArgument if the files of TLS cannot be used.
  absl::Status Start();
  // Accepts no more connections, lets running requests finish for up to `grace`, then closes the
  // other connections.
  void Shutdown(absl::Duration grace);
  // Runs `work` on the server's thread.
  void Post(std::function<void()> work);

  int port() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nerf
